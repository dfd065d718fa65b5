"""A commit becomes a tree and packs in S3, and then the working directory, as an upload does."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from tests.support.agent import RUN
from tests.support.repositories import Repository, git
from tests.support.trees import sha
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.host.digests import Digest
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.job_secrets import SecretRefused
from trainyard_agent.host.locations import Location
from trainyard_agent.jobs import git_code, git_tree, unpacker, work
from trainyard_agent.jobs.git_code import Checkout, Checkouts, Shared
from trainyard_agent.jobs.unpack_state import State
from trainyard_agent.jobs.unpacker import Unpacker
from trainyard_contracts.bundle_parts import BundleCode, BundleGit
from trainyard_contracts.commands import CheckedOut
from trainyard_contracts.job_bundle import JobBundle

pytestmark = pytest.mark.real

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
FILES = {"train.py": b"print()\n", "run.sh": b"#!/bin/sh\n", "data/a.bin": b"x" * 5000,
         "data/b.bin": b"y" * 100, "empty": b""}  # fmt: skip


class Bucket:
    """As the agent's S3; `down` makes it unreachable."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.down = False

    def head(self, at: Location) -> tuple[int, str] | None:
        if self.down:
            raise Unreachable("S3 is away")
        body = self.objects.get(at.key)
        checksum = base64.b64encode(bytes.fromhex(sha(body))).decode() if body is not None else ""
        return None if body is None else (len(body), checksum)

    def put_file(self, at: Location, path: Path, known: Digest) -> None:
        body = path.read_bytes()
        assert (len(body), sha(body)) == (known.size, known.sha256)
        self.objects[at.key] = body
        self.sent.append(at.key)

    def get_file(self, at: Location, into: IO[bytes]) -> bool:
        raise AssertionError(f"{at.key} lies on the shared filesystem already")


class Secrets:
    def read(self, wanted: dict[str, str]) -> dict[str, str]:
        raise SecretRefused(f"there is no secret '{wanted['git']}'")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_tree, "SMALL_BYTES", 1000)
    monkeypatch.setattr(git_tree, "PACK_BYTES", 2000)
    monkeypatch.setattr(unpacker, "sync", lambda directory: None)
    monkeypatch.setattr(git_code, "PAUSES_SECONDS", (0.001,))


def checkout(repository: Repository, bucket: Any, **asked: Any) -> Checkout:
    shared = repository.path.parent
    named = {"url": str(repository.path), "ref": "main", "prefix": "runs/r/fetched"}
    given = bundle(git=BundleGit(**(named | asked)))
    root, secrets, named = shared / "run", Secrets(), Shared(shared, Path("/fsx"))
    return Checkout(bucket, secrets, "data", root, named, given, threading.Event())  # type: ignore[arg-type]


def unpack(root: Path, found: CheckedOut, bucket: Any) -> JobBundle:
    given = bundle(code=BundleCode(tree=found.tree, prefix="runs/r/code"))
    Unpacker(bucket, Location("data", "runs/r/code"), root, given, State()).run()
    return given


def test_a_commit_is_the_working_directory_byte_for_byte_and_git_is_not_in_it(
    tmp_path: Path,
) -> None:
    repository, bucket = Repository(tmp_path / "r.git"), Bucket()
    links = {**FILES, "latest": b"data"}
    commit = repository.commit(links, run_sh="100755", latest="120000")
    found = checkout(repository, bucket).run()
    assert (found.commit, found.files, found.bytes) == (commit, 5, 5118)
    assert found.note == ""
    assert {key.rpartition("/")[2] for key in bucket.objects} >= {found.tree}
    assert all(sha(body) in key for key, body in bucket.objects.items())
    root = tmp_path / "run"
    given = unpack(root, found, bucket)
    top = root / "work"
    assert {name: (top / name).read_bytes() for name in FILES} == FILES
    assert os.access(top / "run.sh", os.X_OK)
    assert (top / "latest/a.bin").exists()
    assert sorted(path.name for path in root.iterdir()) == ["tree.json", "work"]
    assert work.changed(root, given) == ""


def test_a_second_time_sends_nothing_and_gives_the_same_tree(tmp_path: Path) -> None:
    repository, bucket = Repository(tmp_path / "r.git"), Bucket()
    repository.commit(FILES)
    first = checkout(repository, bucket).run()
    sent = len(bucket.sent)
    (tmp_path / "run/.work-git-left").mkdir()  # an agent that died
    assert checkout(repository, bucket).run() == first
    assert len(bucket.sent) == sent
    assert not (tmp_path / "run/.work-git-left").exists()


def test_a_directory_of_it_is_taken_alone(tmp_path: Path) -> None:
    repository, bucket = Repository(tmp_path / "r.git"), Bucket()
    repository.commit({"sub/train.py": b"1\n", "other.py": b"2\n"})
    found = checkout(repository, bucket, path="sub").run()
    unpack(tmp_path / "run", found, bucket)
    assert [path.name for path in (tmp_path / "run/work").iterdir()] == ["train.py"]


def test_what_is_not_fetched_is_said(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r.git")
    module = repository.commit({"x": b""}, branch="other")
    repository.commit(
        {"train.py": b"", "model.bin": LFS, "lib/inner": module.encode()}, lib_inner="160000"
    )
    note = checkout(repository, Bucket()).run().note
    assert "submodules are not fetched: lib/inner" in note
    assert "1 file is a pointer of Git LFS" in note


def test_filters_hooks_and_attributes_of_a_repository_do_nothing(tmp_path: Path) -> None:
    repository, bucket = Repository(tmp_path / "r.git"), Bucket()
    git(repository.path, "config", "filter.evil.smudge", f"touch {tmp_path}/ran")
    repository.commit({"train.py": b"a\r\n", ".gitattributes": b"* filter=evil text eol=lf\n"})
    found = checkout(repository, bucket).run()
    unpack(tmp_path / "run", found, bucket)
    assert (tmp_path / "run/work/train.py").read_bytes() == b"a\r\n"
    assert not (tmp_path / "ran").exists()


def test_a_path_is_the_specs_wherever_the_shared_filesystem_is_on_this_node(tmp_path: Path) -> None:
    repository, bucket = Repository(tmp_path / "repositories" / "r.git"), Bucket()
    commit = repository.commit(FILES)
    given = checkout(repository, bucket, url="/fsx/repositories/r.git")
    found = replace(given, root=tmp_path / "run", shared=Shared(tmp_path, Path("/fsx"))).run()
    assert found.commit == commit
    given = checkout(repository, bucket, url="/fsx/repositories/r.git", ref="other")
    missing = replace(given, root=tmp_path / "run", shared=Shared(tmp_path, Path("/fsx")))
    with pytest.raises(CommandRefused, match=r"'other' is not in /fsx/repositories/r\.git"):
        missing.run()


@pytest.mark.parametrize(
    ("files", "modes", "asked", "words"),
    [
        ({"other.py": b""}, {}, {}, r"^job\.script: 'train\.py' is not in commit "),
        ({"train.py": b""}, {}, {"path": "lib"}, r"^job\.git: .*'lib' is no directory of commit"),
        ({"train.py": b"", "l": b"/etc"}, {"l": "120000"}, {}, "the link 'l' leads to '/etc'"),
        (
            {"train.py": b""},
            {},
            {"url": "/etc"},
            r"'/etc' does not lie on the shared filesystem \(/fsx\)",
        ),
        ({"train.py": b""}, {}, {"url": "/fsx"}, "'/fsx' does not lie on the shared"),
    ],
)
def test_what_cannot_be_run_is_refused_by_its_field(
    tmp_path: Path, files: dict[str, bytes], modes: dict[str, str], asked: Any, words: str
) -> None:
    repository = Repository(tmp_path / "r.git")
    repository.commit(files, **modes)
    with pytest.raises(CommandRefused, match=words) as refused:
        checkout(repository, Bucket(), **asked).run()
    assert refused.value.code == "git-refused"
    assert list((tmp_path / "run").iterdir()) == []


def test_a_secret_that_is_not_there_and_an_s3_that_is_away_are_told_apart(tmp_path: Path) -> None:
    repository, bucket = Repository(tmp_path / "r.git"), Bucket()
    repository.commit(FILES)
    with pytest.raises(CommandRefused, match=r"job\.git\.secret: there is no") as refused:
        checkout(repository, bucket, secret="jobs/git").run()
    assert refused.value.code == "secret-refused"
    bucket.down = True
    with pytest.raises(CommandRefused, match="S3 is away") as refused:
        checkout(repository, bucket).run()
    assert refused.value.code == "unreachable"


def test_a_command_that_is_repeated_meanwhile_waits_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, bucket = Repository(tmp_path / "r.git"), Bucket()
    repository.commit(FILES)
    given = checkout(repository, bucket).bundle
    may, runs = threading.Event(), []
    real = Checkout.run

    def slow(self: Checkout) -> CheckedOut:
        runs.append(RUN)
        may.wait(60)
        return real(self)

    monkeypatch.setattr(Checkout, "run", slow)

    async def story() -> None:
        shared = Shared(tmp_path, Path("/fsx"))
        checkouts = Checkouts(bucket, Secrets(), shared)  # type: ignore[arg-type]
        monkeypatch.setattr(git_code, "WAIT_SECONDS", 0.0)
        with pytest.raises(CommandRefused, match="still being fetched"):
            await checkouts.bring(tmp_path / "run", given, "data")
        monkeypatch.setattr(git_code, "WAIT_SECONDS", 60.0)
        both = [checkouts.bring(tmp_path / "run", given, "data") for _ in range(2)]
        may.set()
        first, second = await asyncio.gather(*both)
        assert first == second

    asyncio.run(asyncio.wait_for(story(), 60))
    assert len(runs) == 1
