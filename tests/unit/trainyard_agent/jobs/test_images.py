"""Which image an attempt runs in, and what its batch script gives to srun."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.agent import RUN, config

from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.registry import ImageRefused
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs import images
from trainyard_agent.jobs.images import Images, architecture, write_places
from trainyard_contracts.bundle_parts import BundleImage
from trainyard_contracts.job_bundle import JobBundle

NAME = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.7"
OLD, NEW = f"sha256:{'0' * 64}", f"sha256:{'1' * 64}"


def bundle(attempt: int = 1, name: str = NAME, digest: str = "", **fields: object) -> JobBundle:
    image = BundleImage(name=name, digest=digest, mounts=["/data"])
    values = {
        "run_id": RUN, "attempt": attempt, "cluster_name": "c", "batch_script": "", "nodes": 1,
        "processes_per_node": 1, "program": ["x"], "image": image,
    }  # fmt: skip
    return JobBundle.model_validate(values | fields)


def node(name: str, kind: str = "x86_64", partition: str = "dev") -> SlurmNode:
    return SlurmNode(name, "idle", "10.0.0.1", 6818, partitions=(partition,), architecture=kind)


NODES = {"ip-1": node("ip-1")}


class Asked(list[tuple[str, str]]):
    """What the registry was asked, and says each time."""

    says: str | Exception = NEW

    def __call__(self, name: str, wanted: str) -> str:
        self.append((name, wanted))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(images, "_ask", found)
    return found


def digest_of(tmp_path: Path, given: JobBundle, *earlier: JobBundle | None) -> str:
    settled = Images(config(tmp_path)).settled(given, earlier, NODES, True)
    assert settled.image is not None
    return settled.image.digest


def refusal(tmp_path: Path, given: JobBundle, has_pyxis: bool = True) -> CommandRefused:
    with pytest.raises(CommandRefused) as refused:
        Images(config(tmp_path)).settled(given, [], NODES, has_pyxis)
    return refused.value


def test_the_first_attempt_asks_the_registry_for_its_nodes_kind(
    tmp_path: Path, asked: Asked
) -> None:
    assert digest_of(tmp_path, bundle(), None) == NEW
    assert asked == [(NAME, "amd64")]


def test_a_tag_that_moved_changes_no_later_attempt(tmp_path: Path, asked: Asked) -> None:
    assert digest_of(tmp_path, bundle(2, digest=OLD)) == OLD
    assert digest_of(tmp_path, bundle(2), None, bundle(1, digest=OLD)) == OLD, (
        "the control plane never had the first answer"
    )
    assert asked == []


def test_a_job_without_an_image_asks_nobody(tmp_path: Path, asked: Asked) -> None:
    plain = bundle(image=None)
    assert Images(config(tmp_path)).settled(plain, [], {}, False) is plain


def test_an_image_that_cannot_be_used_ends_the_run_with_its_name(
    tmp_path: Path, asked: Asked
) -> None:
    asked.says = ImageRefused("x/train has no image '2.7'")
    found = refusal(tmp_path, bundle())
    assert found.code == "image-refused"
    assert str(found) == f"job.image '{NAME}': x/train has no image '2.7'"


def test_a_registry_without_an_answer_is_asked_again(tmp_path: Path, asked: Asked) -> None:
    asked.says = Unreachable("no answer")
    assert refusal(tmp_path, bundle()).code == "unreachable"


def test_without_pyxis_nothing_starts(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINYARD_LOCAL", raising=False)
    found = refusal(tmp_path, bundle(), has_pyxis=False)
    assert found.code == "image-needs-pyxis"
    assert "no option --container-image" in str(found)
    monkeypatch.setenv("TRAINYARD_LOCAL", "1")
    local = refusal(tmp_path, bundle(), has_pyxis=False)
    assert str(local) == "job.image: the local cloud runs no containers"
    assert asked == []


def test_a_file_is_taken_where_it_lies_and_must_be_a_squashfs(tmp_path: Path, asked: Asked) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    path = shared / "a.sqsh"
    given = bundle(name=str(path))
    assert "cannot be read: No such file" in str(refusal(tmp_path, given))
    path.write_bytes(b"#!/bin/sh")
    assert "no squashfs image" in str(refusal(tmp_path, given))
    path.write_bytes(b"hsqs...")
    assert digest_of(tmp_path, given) == ""
    elsewhere = bundle(name=str(tmp_path / "b.sqsh"))
    assert "is not below" in str(refusal(tmp_path, elsewhere))
    assert asked == []


def test_nodes_of_two_kinds_need_a_partition() -> None:
    nodes = NODES | {"ip-2": node("ip-2", "aarch64", "arm")}
    assert architecture(bundle(partition="arm"), nodes) == "arm64"
    assert architecture(bundle(partition="dev"), nodes) == "amd64"
    with pytest.raises(ImageRefused, match=r"aarch64 and x86_64; name a partition"):
        architecture(bundle(), nodes)


def test_srun_is_told_the_imported_file_and_what_a_job_finds_in_the_image(tmp_path: Path) -> None:
    settings = config(tmp_path, shared_root="/fsx", library_dir="/opt/trainyard/lib")
    write_places(tmp_path, bundle(digest=OLD), settings)
    image = (tmp_path / "image.txt").read_text()
    assert image == f"/fsx/trainyard/container-images/sha256-{'0' * 64}.sqsh"
    mounts = (tmp_path / "image-mounts.txt").read_text()
    assert mounts == "/fsx:/fsx,/data:/data,/opt/trainyard:/opt/trainyard:ro"


def test_a_file_of_the_users_is_started_as_it_is(tmp_path: Path) -> None:
    write_places(tmp_path, bundle(name="/fsx/a.sqsh"), config(tmp_path))
    assert (tmp_path / "image.txt").read_text() == "/fsx/a.sqsh"


def test_a_path_that_pyxis_would_split_is_refused(tmp_path: Path) -> None:
    settings = config(tmp_path, shared_root="/fsx,/etc")
    with pytest.raises(CommandRefused, match="cannot mount the path '/fsx,/etc'"):
        write_places(tmp_path, bundle(), settings)
