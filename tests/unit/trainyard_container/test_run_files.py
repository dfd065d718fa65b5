"""A run's directory in a container: the bundle, the user's files, and what is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.s3_client import S3Client
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import run_files
from trainyard_container.store import Store
from trainyard_container.surroundings import Surroundings, Unfit
from trainyard_contracts.files import JobBundle
from trainyard_contracts.trees import Tree

PACK = b"print('a')\nprint('b')\n"


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def bundle(client: S3Client, where: Surroundings, **job: Any) -> Surroundings:
    usual: dict[str, Any] = {
        "runId": "run-1",
        "attempt": 2,
        "clusterName": "c",
        "batchScript": "no",
        "nodes": 1,
        "processesPerNode": 1,
        "program": ["train.py"],
    }
    body = JobBundle.model_validate({**usual, **job}).model_dump_json(by_alias=True).encode()
    client.objects[where.bundle.prefix] = body
    return replace(where, bundle_sha256=sha256(body))


def upload(client: S3Client, **file: Any) -> str:
    """A tree of two files and a link in one pack; its id."""
    half = len(PACK) // 2
    parts = [PACK[:half], PACK[half:]]
    files = [
        {
            "path": path,
            "bytes": len(part),
            "sha256": sha256(part),
            "executable": number == 1,
            "chunks": [{"pack": 0, "offset": number * half, "bytes": len(part)}],
        }
        for number, (path, part) in enumerate(zip(["a.py", "deep/b.py"], parts, strict=True))
    ]
    files[0] |= file
    links = [{"path": "latest", "target": "a.py"}]
    packs = [{"sha256": sha256(PACK), "bytes": len(PACK)}]
    tree = {"packs": packs, "files": files, "links": links, "directories": ["empty"]}
    document = Tree.model_validate(tree).document()
    client.objects |= {f"code/{sha256(PACK)}": PACK, f"code/{sha256(document)}": document}
    return sha256(document)


def lay_out(tmp_path: Path, client: S3Client, **job: Any) -> Surroundings:
    where = bundle(client, surroundings(tmp_path), **job)
    store = Store(client, "data", patience_seconds=0)
    run_files.lay_out(where, run_files.read_bundle(where, store), store)
    return where


def test_the_launcher_finds_its_job_and_the_program_its_files(tmp_path: Path) -> None:
    where = lay_out(tmp_path, S3Client(), files={"train.py": "1\n", "conf/a.yaml": "b"})
    job = json.loads((where.attempt_dir / "job.json").read_text())
    assert (job["program"], job["region"]) == (["train.py"], "eu-west-1")
    assert {"files", "batchScript"}.isdisjoint(job)
    assert (where.run_dir / "work/conf/a.yaml").read_text() == "b"
    assert (where.run_dir / "fence").read_text() == "2\n"
    assert (where.run_dir / "checkpoints").is_dir()


def test_an_upload_is_unpacked_and_a_file_of_the_spec_replaces_one_of_it(tmp_path: Path) -> None:
    client = S3Client()
    code = {"tree": upload(client), "prefix": "code"}
    where = lay_out(tmp_path, client, code=code, files={"deep/b.py": "mine"})
    work = where.run_dir / "work"
    assert (work / "a.py").read_bytes() == PACK[: len(PACK) // 2]
    assert (work / "deep/b.py").read_text() == "mine"
    assert (work / "latest").readlink() == Path("a.py")
    assert (work / "empty").is_dir()
    assert sorted(path.name for path in where.run_dir.iterdir() if "unpack" in path.name) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda objects, pack: objects.pop(pack), "is not there any more"),
        (
            lambda objects, pack: objects.update({pack: b"else"}),
            "was changed after it was uploaded",
        ),
    ],
)
def test_an_upload_that_is_not_what_it_was_is_refused(
    tmp_path: Path, change: Any, words: str
) -> None:
    client = S3Client()
    code = {"tree": upload(client), "prefix": "code"}
    change(client.objects, f"code/{sha256(PACK)}")
    with pytest.raises(Unfit, match=words):
        lay_out(tmp_path, client, code=code)


def test_a_path_that_leaves_the_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match=r"job.files: '../../etc/x' leaves its directory"):
        lay_out(tmp_path, S3Client(), files={"../../etc/x": "1"})
    with pytest.raises(Unfit, match=r"checkpoint.directory"):
        lay_out(tmp_path, S3Client(), checkpointDirectory="/fsx/ckpt")


def test_another_bundle_than_the_submitted_one_is_refused(tmp_path: Path) -> None:
    client = S3Client()
    where = bundle(client, surroundings(tmp_path))
    store = Store(client, "data", patience_seconds=0)
    with pytest.raises(Unfit, match="its SHA-256"):
        run_files.read_bundle(replace(where, bundle_sha256="00"), store)
    client.objects.clear()
    with pytest.raises(Unfit, match="there is no object s3://data/"):
        run_files.read_bundle(where, store)
    with pytest.raises(Unfit, match="is of run-1 attempt 7"):
        run_files.read_bundle(bundle(client, where, attempt=7), store)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"image": {"name": "a/b:1"}}, "job.image: .* cluster.spec.image"),
        ({"inputs": [{"path": "data", "mounted": "/mnt/b"}]}, "inputs: nothing is mounted"),
    ],
)
def test_what_only_an_agent_does_is_refused_in_words(
    tmp_path: Path, job: dict[str, Any], words: str
) -> None:
    with pytest.raises(Unfit, match=words):
        lay_out(tmp_path, S3Client(), **job)
