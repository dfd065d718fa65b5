"""A commit is fetched once by a run's first host, and every host and attempt has the same bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.repositories import GitServer, Repository
from tests.support.s3_client import S3Client
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import git_code
from trainyard_container.git_fetch import Wanted
from trainyard_container.run_files import UNPACKED_AT
from trainyard_container.store import Store
from trainyard_container.surroundings import Place, Surroundings, Unfit

pytestmark = pytest.mark.real
TOKEN = "ghp_canary0123456789"
FILES = {"train.py": b"print()\n", "conf/a.yaml": b"a: 1\n", "run.sh": b"#!/bin/sh\n"}
RECORD = "runs/1/code/git.json"


@pytest.fixture
def where(tmp_path: Path) -> Surroundings:
    found = replace(surroundings(tmp_path / "ml"), data=Place("b", "runs/1/"))
    (found.run_dir / "work").mkdir(parents=True)
    return found


@pytest.fixture
def client() -> S3Client:
    return S3Client()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    Repository(tmp_path / "served/r.git").commit(FILES)
    made = GitServer(tmp_path / "served", TOKEN)
    yield made
    made.close()


def repository(where: Surroundings, client: S3Client, **git: Any) -> git_code.Repository:
    store = Store(client, "b", patience_seconds=0)
    given = {"ref": "main", **git}
    return git_code.Repository(where, store, given, lambda *_: TOKEN, ["file", "http"])


def unpacked(where: Surroundings, client: S3Client, record: git_code.Record) -> dict[str, bytes]:
    work = where.run_dir / "work"
    repository(where, client).unpack(record, work)
    found = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.relative_to(work).as_posix(): path.read_bytes() for path in found}


def test_every_attempt_has_the_commit_that_the_first_one_found(
    tmp_path: Path, where: Surroundings, client: S3Client
) -> None:
    source = Repository(tmp_path / "r.git")
    first = source.commit(FILES, run_sh="100755")
    url = str(source.path)
    record, new = repository(where, client, url=url).recorded()
    assert (record["commit"], record["files"], new) == (first, 3, True)
    source.commit({"train.py": b"else\n"})

    again, new = repository(where, client, url=url).recorded()

    assert (again, new) == (record, False)
    assert unpacked(where, client, again) == FILES
    work = where.run_dir / "work"
    assert os.access(work / "run.sh", os.X_OK)
    assert not os.access(work / "train.py", os.X_OK)
    # It is no result of the program's.
    assert int((work / "train.py").stat().st_mtime) == UNPACKED_AT


def test_a_directory_of_it_links_and_submodules(
    tmp_path: Path, where: Surroundings, client: S3Client
) -> None:
    source = Repository(tmp_path / "r.git")
    files = {"a/train.py": b"1", "a/same": b"train.py", "b/x": b"2", "a/sub": b"0" * 39 + b"1"}
    source.commit(files, a_same="120000", a_sub="160000")
    record, _ = repository(where, client, url=str(source.path), path="a").recorded()
    assert record["submodules"] == 1
    assert unpacked(where, client, record) == {"train.py": b"1"}
    assert (where.run_dir / "work/same").readlink() == Path("train.py")


def test_a_link_that_leads_out_is_refused(
    tmp_path: Path, where: Surroundings, client: S3Client
) -> None:
    source = Repository(tmp_path / "r.git")
    source.commit({"a/link": b"../../etc"}, a_link="120000")
    with pytest.raises(Unfit, match=r"job\.git: the link 'a/link' leads to '\.\./\.\./etc'"):
        repository(where, client, url=str(source.path)).recorded()
    assert RECORD not in client.objects


def test_a_secret_opens_the_repository_and_is_nowhere_but_with_its_server(
    tmp_path: Path, where: Surroundings, client: S3Client, server: GitServer
) -> None:
    git = {"url": f"{server.url}/r.git", "secret": "team/token"}
    record, _ = repository(where, client, **git).recorded()
    assert server.knows(server.asked[-1])
    assert unpacked(where, client, record) == FILES
    assert not [key for key, body in client.objects.items() if TOKEN.encode() in body]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if TOKEN.encode() in path.read_bytes()]
    assert TOKEN not in json.dumps(dict(record))


def test_what_cannot_be_fetched_is_said_with_its_field_and_without_the_secret(
    tmp_path: Path, where: Surroundings, client: S3Client, server: GitServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with pytest.raises(Unfit, match=r"job\.git: git cannot fetch 'nowhere' of") as refused:
        repository(where, client, url=f"{server.url}/r.git", ref="nowhere", secret="s").recorded()
    assert refused.value.lasting
    assert TOKEN not in str(refused.value)

    monkeypatch.setattr(git_code, "PAUSES_SECONDS", (0.01,))
    gone = f"{server.url}/r.git"
    server.close()
    with pytest.raises(Unfit, match="whether the nodes' network reaches") as refused:
        repository(where, client, url=gone).recorded()
    assert not refused.value.lasting

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unfit, match="there is no git in the container's image"):
        repository(where, client, url="/x").recorded()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"commit": "a"}'])
def test_a_record_that_cannot_be_read_is_refused_and_nothing_is_fetched_anew(
    where: Surroundings, client: S3Client, body: bytes
) -> None:
    client.objects[RECORD] = body
    with pytest.raises(Unfit, match=r"job\.git: what is recorded of the commit") as refused:
        repository(where, client, url="/x").recorded()
    assert refused.value.lasting


def test_the_secret_is_not_in_what_is_printed_of_a_request() -> None:
    assert TOKEN not in repr(Wanted("https://h/r", "main", secret=TOKEN))


def test_files_that_were_changed_in_s3_are_refused(
    tmp_path: Path, where: Surroundings, client: S3Client
) -> None:
    source = Repository(tmp_path / "r.git")
    source.commit(FILES)
    record, _ = repository(where, client, url=str(source.path)).recorded()
    [key] = [key for key in client.objects if key.endswith(".tar")]
    client.objects[key] = b"else"
    with pytest.raises(Unfit, match="not in S3 any more as they were kept"):
        unpacked(where, client, record)
