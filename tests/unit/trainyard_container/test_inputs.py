"""What a job reads: brought whole to each host, and refused in words that name the field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.s3_client import S3Client, refusal
from tests.unit.trainyard_container.test_run_files import PACK, bundle, upload
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import inputs, run_files
from trainyard_container.store import Store
from trainyard_container.surroundings import Unfit

CORPUS = {"path": "data/corpus", "source": "s3://bucket/corpus/"}


def bring(tmp_path: Path, client: S3Client, *given: dict[str, Any], attempt: int = 2) -> Path:
    where = replace(surroundings(tmp_path), attempt=attempt)
    where = bundle(client, where, attempt=attempt, inputs=list(given))
    read = run_files.read_bundle(where, Store(client, "data", patience_seconds=0))
    inputs.bring(where, read, lambda name: Store(client, name, patience_seconds=0))
    return where.run_dir / "work"


@pytest.fixture
def client() -> S3Client:
    client = S3Client()
    client.objects |= {"corpus/a/1.txt": b"one", "corpus/2.txt": b"two", "corpus/a/": b""}
    return client


def test_inputs_are_copied_from_s3_or_unpacked_from_an_upload(
    tmp_path: Path, client: S3Client
) -> None:
    code = {"tree": upload(client), "prefix": "code"}
    own, absolute = tmp_path / "scratch", str(tmp_path / "scratch")
    work = bring(tmp_path, client, CORPUS, {"path": absolute, "code": code})
    assert (work / "data/corpus/a/1.txt").read_text() == "one"
    assert (work / "data/corpus/2.txt").read_text() == "two"
    assert (own / "a.py").read_bytes() == PACK[: len(PACK) // 2]


def test_an_absolute_path_has_this_job_s_data_and_nothing_of_an_earlier_job(
    tmp_path: Path, client: S3Client
) -> None:
    """A warm pool keeps what lies outside of the run's directory."""
    there = {"path": str(tmp_path / "data"), "source": "s3://bucket/corpus/"}
    bring(tmp_path, client, there)
    bring(tmp_path, client, there, attempt=3)
    assert (tmp_path / "data/2.txt").read_text() == "two"

    (tmp_path / "channel").mkdir()
    with pytest.raises(Unfit, match=r"inputs\.0\.path: something else lies at") as refused:
        bring(tmp_path, client, {**there, "path": str(tmp_path / "channel")})
    assert refused.value.lasting


def test_an_input_without_objects_is_named(tmp_path: Path) -> None:
    nothing = {"path": "data", "source": "s3://bucket/nothing/"}
    with pytest.raises(Unfit, match=r"inputs\.0\.source: there is nothing below s3:") as refused:
        bring(tmp_path, S3Client(), nothing)
    assert refused.value.lasting


def test_what_the_role_may_not_read_is_said_with_its_field(
    tmp_path: Path, client: S3Client
) -> None:
    def deny(name: str, key: str) -> None:
        if name == "get" and key.startswith("corpus/"):
            raise refusal("AccessDenied")

    client.before = deny
    with pytest.raises(Unfit, match=r"inputs\.0\.source: .*jobInputs must hold it") as refused:
        bring(tmp_path, client, CORPUS)
    assert refused.value.lasting


def test_an_object_that_changes_meanwhile_ends_the_copy(tmp_path: Path, client: S3Client) -> None:
    def change(name: str, key: str) -> None:
        if name == "get" and key == "corpus/2.txt":
            client.objects[key] = b"another"

    client.before = change
    with pytest.raises(Unfit, match="was deleted or changed while it was read") as refused:
        bring(tmp_path, client, CORPUS)
    assert not refused.value.lasting


def test_a_path_at_which_nothing_can_lie_is_named(tmp_path: Path, client: S3Client) -> None:
    (tmp_path / "file").write_text("of the image")
    there = {"path": str(tmp_path / "file/data"), "source": "s3://bucket/corpus/"}
    with pytest.raises(Unfit, match=r"inputs\.0\.path: .* lie.* at .*/file/data") as refused:
        bring(tmp_path, client, there)
    assert refused.value.lasting


def test_an_object_in_whose_name_others_lie_is_named(tmp_path: Path, client: S3Client) -> None:
    client.objects["corpus/a"] = b"no directory"
    with pytest.raises(Unfit, match=r"inputs\.0\.source: .* a file and of a directory") as refused:
        bring(tmp_path, client, CORPUS)
    assert refused.value.lasting
