"""An upload becomes the working directory: whole or not at all, after any number of kills."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.dying import Killed, dies
from tests.support.trees import TreeS3, packed, sha
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.host import patience
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.locations import Location
from trainyard_agent.jobs import unpacker, work
from trainyard_agent.jobs.attempt_files import BadBundle
from trainyard_agent.jobs.unpack_state import State
from trainyard_agent.jobs.unpacker import Unpacker
from trainyard_agent.jobs.unpacking import Uploads
from trainyard_contracts.bundle_parts import BundleCode
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import Chunk, Pack, Tree, TreeFile

FILES = {
    "train.py": b"print('hello')\n",
    "package/__init__.py": b"",
    "package/model.py": b"x = 1\n" * 60,
    "data/large.bin": bytes(range(256)) * 12,
    "run.sh": b"#!/bin/sh\n",
}


SYNC = unpacker.sync


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's disks have other work."""
    monkeypatch.setattr(unpacker, "sync", lambda directory: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.001)


def whole(chunk: int = 700) -> tuple[Tree, dict[str, bytes]]:
    return packed(
        FILES,
        links={"latest": "data", "package/top.py": "../train.py"},
        empty=("empty/inner",),
        executable=("run.sh",),
        chunk=chunk,
    )


def asked(s3: TreeS3, **changes: Any) -> JobBundle:
    return bundle(code=BundleCode(tree=s3.id, prefix=s3.prefix), **changes)


def unpack(s3: Any, root: Path, given: JobBundle | None = None) -> None:
    Unpacker(s3, Location("data", "code"), root, given or asked(s3), State()).run()


def assert_whole(root: Path) -> None:
    top = root / "work"
    assert {name: (top / name).read_bytes() for name in FILES} == FILES
    assert (top / "latest").is_symlink()
    assert (top / "latest/large.bin").is_file()
    assert (top / "package/top.py").read_bytes() == FILES["train.py"]
    assert list((top / "empty/inner").iterdir()) == []
    assert os.access(top / "run.sh", os.X_OK)
    assert not os.access(top / "train.py", os.X_OK)
    assert sorted(path.name for path in root.iterdir()) == ["tree.json", "work"]


def test_a_directory_is_there_as_it_was_packed(tmp_path: Path) -> None:
    tree, packs = whole()
    s3 = TreeS3(tree, packs)
    unpack(s3, tmp_path)
    assert_whole(tmp_path)
    assert sorted(s3.fetched) == sorted([s3.id, *packs])
    assert work.changed(tmp_path, asked(s3)) == ""


def test_a_pack_that_is_named_twice_is_fetched_once(tmp_path: Path) -> None:
    tree, packs = packed({"zeros": b"0" * 30, "more": b"0" * 20}, chunk=10)
    s3 = TreeS3(tree, packs)
    unpack(s3, tmp_path)
    assert (tmp_path / "work/zeros").read_bytes() == b"0" * 30
    assert (tmp_path / "work/more").read_bytes() == b"0" * 20
    assert len(s3.fetched) == 2


def test_the_bundles_own_files_replace_those_of_the_tree(tmp_path: Path) -> None:
    s3 = TreeS3(*whole())
    unpack(s3, tmp_path, asked(s3, files={"train.py": "mine\n", "new/conf.yaml": "a: 1\n"}))
    assert (tmp_path / "work/train.py").read_text() == "mine\n"
    assert (tmp_path / "work/new/conf.yaml").read_text() == "a: 1\n"


def test_a_bundles_file_in_a_links_place_is_written_again_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, packs = packed({"conf/a.yaml": b"a"}, links={"conf.yaml": "conf/a.yaml"})
    s3 = TreeS3(tree, packs)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Unpacker, "_move", killed)
        with pytest.raises(Killed):
            unpack(s3, tmp_path, asked(s3, files={"conf.yaml": "mine"}))
    unpack(s3, tmp_path, asked(s3, files={"conf.yaml": "mine"}))
    assert (tmp_path / "work/conf.yaml").read_text() == "mine"
    assert (tmp_path / "work/conf/a.yaml").read_text() == "a"


@pytest.mark.parametrize(
    ("name", "words"),
    [("train.py/x", "'train.py' of job.workdir is no directory"), ("data", "is a directory")],
)
def test_a_file_that_cannot_be_beside_the_tree_is_refused_by_name(
    tmp_path: Path, name: str, words: str
) -> None:
    s3 = TreeS3(*whole())
    with pytest.raises(BadBundle, match=words):
        unpack(s3, tmp_path, asked(s3, files={name: "x"}))
    assert not (tmp_path / "work").exists()


def test_a_directory_is_written_to_the_disk(tmp_path: Path) -> None:
    SYNC(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        SYNC(tmp_path / "nowhere")


@pytest.mark.real
def test_after_a_kill_at_any_line_the_next_one_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacker, "AT_ONCE", 1)
    tree, packs = whole()
    line, stride, alive = 1, 19, False
    while not alive:
        root = tmp_path / str(line)
        s3 = TreeS3(tree, packs)
        alive = not dies(unpacker.__file__, line, partial(unpack, s3, root))
        assert not (root / "work").exists() or (root / "tree.json").exists()
        if not (root / "work").exists():
            unpack(s3, root)
        else:
            (root / "tree.json").read_bytes()
        top = root / "work"
        assert {name: (top / name).read_bytes() for name in FILES} == FILES, line
        line += stride
    assert line > 300


def test_what_was_fetched_before_a_kill_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacker, "AT_ONCE", 1)
    tree, packs = whole()
    s3 = TreeS3(tree, packs)
    last = tree.packs[-1].sha256

    def dies(key: str) -> None:
        if key.endswith(last):
            raise Killed

    s3.before = dies
    with pytest.raises(Killed):
        unpack(s3, tmp_path)
    s3.before = lambda key: None
    unpack(s3, tmp_path)
    assert_whole(tmp_path)
    assert s3.fetched.count(tree.packs[0].sha256) == 1


def test_bytes_that_a_crash_of_the_machine_took_are_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = TreeS3(*whole())

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as once:
        once.setattr(Unpacker, "_dress", dies)
        with pytest.raises(Killed):
            unpack(s3, tmp_path)
    stage = next(tmp_path.glob(".work-*"))
    (stage / "work/data/large.bin").write_bytes(b"")
    (stage / "work/train.py").unlink()
    unpack(s3, tmp_path)
    assert_whole(tmp_path)


def test_an_object_that_was_changed_or_is_gone_is_named(tmp_path: Path) -> None:
    tree, packs = whole()
    s3 = TreeS3(tree, packs)
    first = f"code/{tree.packs[0].sha256}"
    kept = s3.objects[first]
    s3.objects[first] = b"a job wrote here"
    with pytest.raises(CommandRefused, match=f"{first} was changed") as refused:
        unpack(s3, tmp_path)
    assert refused.value.code == "code-changed"
    del s3.objects[first]
    with pytest.raises(CommandRefused, match=f"{first} is not there"):
        unpack(s3, tmp_path)
    s3.objects[first] = kept
    unpack(s3, tmp_path)
    assert_whole(tmp_path)


def test_a_tree_whose_files_are_not_in_its_packs_is_refused(tmp_path: Path) -> None:
    pack = b"some bytes"
    wrong = TreeFile(
        path="a.py", bytes=4, sha256=sha(b"else"), chunks=[Chunk(pack=0, offset=0, bytes=4)]
    )
    tree = Tree(packs=[Pack(sha256=sha(pack), bytes=len(pack))], files=[wrong])
    s3 = TreeS3(tree, {sha(pack): pack})
    with pytest.raises(BadBundle, match=r"'a\.py' is not what its tree says"):
        unpack(s3, tmp_path)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"links": {"away": "/etc"}}, "the link 'away' leads to '/etc'"),
        ({"links": {"away": "../../x"}}, "leads to"),
        ({"links": {"data/a": "large.bin/../.."}}, "leads to"),
        ({"links": {"train.py": "run.sh"}}, "in the tree twice"),
        ({"links": {"train.py/x": "y"}}, "which is no directory"),
        ({"empty": ("run.sh/inner",)}, "which is no directory"),
    ],
)
def test_a_tree_that_leads_out_of_the_directory_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    s3 = TreeS3(*packed(FILES, **changes))
    with pytest.raises(BadBundle, match=words):
        unpack(s3, tmp_path)
    assert not (tmp_path / "work").exists()


def test_a_malformed_tree_is_refused(tmp_path: Path) -> None:
    s3 = TreeS3(*whole())
    body = b'{"files": [{"path": "../x"}]}'
    s3.id = sha(body)
    s3.objects[f"code/{s3.id}"] = body
    with pytest.raises(BadBundle, match="malformed"):
        unpack(s3, tmp_path)


def test_s3_that_does_not_answer_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    s3 = TreeS3(*whole())
    silent = iter([True, True])

    def away(key: str) -> None:
        if next(silent, False):
            raise Unreachable("503")

    s3.before = away
    unpack(s3, tmp_path)
    assert_whole(tmp_path)


def test_a_full_disk_is_told_as_what_it_is(tmp_path: Path) -> None:
    s3 = TreeS3(*whole())

    def full(key: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    s3.before = full
    with pytest.raises(OSError, match="No space left"):
        unpack(s3, tmp_path)


# -- who waits for it ----------------------------------------------------------------------------
class SlowS3(TreeS3):
    """Answers once it may."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.may = threading.Event()
        self.before = lambda key: self.may.wait(60)


def test_a_repeated_submit_joins_the_fetch_that_is_under_way(tmp_path: Path) -> None:
    s3 = SlowS3(*whole())

    async def story() -> None:
        uploads = Uploads(s3)  # type: ignore[arg-type]
        first = uploads.bring(tmp_path, asked(s3), "data")
        assert first is not None
        with pytest.raises(CommandRefused, match="is still being fetched") as refused:
            await uploads.wait(first, deadline=0.0)
        assert refused.value.code == "fetching"
        assert uploads.bring(tmp_path, asked(s3), "data") is first
        s3.may.set()
        await asyncio.wait_for(uploads.wait(first, deadline=1e12), 60)
        assert uploads.bring(tmp_path, asked(s3), "data") is None

    asyncio.run(story())
    assert_whole(tmp_path)
    assert s3.fetched.count(s3.id) == 1


def test_a_fetch_that_failed_is_begun_again_by_the_next_submit(tmp_path: Path) -> None:
    s3 = TreeS3(*whole())
    hidden = s3.objects.pop(f"code/{s3.id}")

    async def story() -> None:
        uploads = Uploads(s3)  # type: ignore[arg-type]
        first = uploads.bring(tmp_path, asked(s3), "data")
        assert first is not None
        with pytest.raises(CommandRefused, match="is not there"):
            await asyncio.wait_for(uploads.wait(first, deadline=1e12), 60)
        s3.objects[f"code/{s3.id}"] = hidden
        second = uploads.bring(tmp_path, asked(s3), "data")
        assert second is not None
        await asyncio.wait_for(uploads.wait(second, deadline=1e12), 60)

    asyncio.run(story())
    assert_whole(tmp_path)


def test_an_agent_that_ends_does_not_wait_for_the_fetch(tmp_path: Path) -> None:
    s3 = SlowS3(*whole())

    async def story() -> None:
        uploads = Uploads(s3)  # type: ignore[arg-type]
        bringing = uploads.bring(tmp_path, asked(s3), "data")
        assert bringing is not None
        await asyncio.sleep(0)
        bringing.task.cancel()
        await asyncio.gather(bringing.task, return_exceptions=True)
        assert bringing.state.stop.is_set()
        s3.may.set()

    asyncio.run(story())
    assert not (tmp_path / "work").exists()


def test_a_run_without_an_upload_fetches_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        nothing: Any = None
        assert Uploads(nothing).bring(tmp_path, bundle(), "data") is None

    asyncio.run(story())
