"""What a run reads is there before its first attempt, and at the same place at every one."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.buckets import Bucket
from tests.support.trees import TreeS3, packed
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.checkpoints import own_files
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.jobs import (
    copy_progress,
    copying,
    input_places,
    inputs,
    unpack_state,
    unpacker,
)
from trainyard_agent.jobs.inputs import Inputs
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.bundle_parts import BundleCode, BundleInput
from trainyard_contracts.job_bundle import JobBundle

OBJECTS = {"v1/train/a.txt": b"first\n", "v1/b.txt": b"second\n", "v2/c.txt": b"third\n"}
OTHER = "run-01k5000000000000000000000b"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "boot_id", lambda: "this boot")
    monkeypatch.setattr(copying, "SPARE_BYTES", 0)
    for module in (inputs, unpacker):
        monkeypatch.setattr(module, "sync", lambda directory: None)


def settings(top: Path, **changes: Any) -> AgentConfig:
    return config(top, **({"shared_path": str(top / "shared")} | changes))


def asked(*given: BundleInput, attempt: int = 1, run: str = RUN, **changes: Any) -> JobBundle:
    return bundle(attempt, inputs=list(given), **changes).model_copy(update={"run_id": run})


def copied(path: str = "data", source: str = "s3://corpus/v1/") -> BundleInput:
    return BundleInput(path=path, source=source)


def bring(top: Path, s3: Any, given: JobBundle, **changes: Any) -> Inputs:
    """As a submission does, until all is there."""
    parts = Inputs(settings(top, **changes), s3)

    async def story() -> None:
        while (coming := parts.bring(given, "bucket")) is not None:
            await parts.wait(coming, time.monotonic() + 60)
        (run_dir(settings(top), given.run_id) / "work").mkdir(parents=True, exist_ok=True)
        parts.lay(given)

    asyncio.run(story())
    return parts


def work(top: Path, run: str = RUN) -> Path:
    return run_dir(settings(top), run) / "work"


def test_a_copy_is_found_in_the_working_directory_at_each_attempt(tmp_path: Path) -> None:
    s3 = Bucket(OBJECTS)
    parts = bring(tmp_path, s3, asked(copied("data/corpus")))
    found = work(tmp_path) / "data/corpus"
    assert (found / "train/a.txt").read_bytes() == b"first\n"
    assert (found / "b.txt").read_bytes() == b"second\n"
    assert "'data/corpus' (2 objects, 13 B, brought in " in parts.words(
        asked(copied("data"))
    ).replace("'data'", "'data/corpus'")
    before = list(s3.fetched)
    found.unlink()
    bring(tmp_path, s3, asked(copied("data/corpus"), attempt=2))
    assert (found / "b.txt").read_bytes() == b"second\n"
    assert s3.fetched == before


def test_two_runs_share_what_lies_at_one_absolute_path(tmp_path: Path) -> None:
    s3 = Bucket(OBJECTS)
    path = str(tmp_path / "shared/corpora/one")
    bring(tmp_path, s3, asked(copied(path)))
    before = list(s3.fetched)
    bring(tmp_path, s3, asked(copied(path), run=OTHER))
    assert s3.fetched == before
    assert (Path(path) / "b.txt").read_bytes() == b"second\n"


def test_two_runs_that_come_at_once_bring_it_once(tmp_path: Path) -> None:
    s3 = Bucket(OBJECTS)
    parts = Inputs(settings(tmp_path), s3)  # type: ignore[arg-type]
    path = str(tmp_path / "shared/one")

    async def until_there(given: JobBundle) -> None:
        while (coming := parts.bring(given, "bucket")) is not None:
            await parts.wait(coming, time.monotonic() + 60)

    async def story() -> None:
        await asyncio.gather(
            until_there(asked(copied(path))), until_there(asked(copied(path), run=OTHER))
        )

    asyncio.run(story())
    assert len(s3.fetched) == 2


def test_what_another_run_may_not_read_ends_only_that_one(tmp_path: Path) -> None:
    path = str(tmp_path / "shared/one")

    async def story() -> None:
        parts = Inputs(settings(tmp_path), Bucket(OBJECTS))  # type: ignore[arg-type]
        wrong, right = asked(copied(path, "s3://corpus/typo/")), asked(copied(path), run=OTHER)
        theirs, ours = parts.bring(wrong, "bucket"), parts.bring(right, "bucket")
        assert theirs is not None
        assert ours is not None
        with pytest.raises(CommandRefused, match="brings ours") as waits:
            await parts.wait(ours, time.monotonic() + 60)
        assert waits.value.code == "fetching"
        with pytest.raises(CommandRefused, match="no object below it"):
            await parts.wait(theirs, time.monotonic() + 60)

    asyncio.run(story())
    bring(tmp_path, Bucket(OBJECTS), asked(copied(path), run=OTHER))
    assert (Path(path) / "b.txt").read_bytes() == b"second\n"


def test_two_clusters_of_one_filesystem_bring_it_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took the other's stage for one of before a reboot, and what was left counted as all."""
    boot, fetched, go_on = threading.local(), threading.Event(), threading.Event()
    monkeypatch.setattr(copying, "boot_id", lambda: boot.id)
    path = str(tmp_path / "shared/one")

    def slow(directory: Path) -> None:
        fetched.set()
        assert go_on.wait(30)

    def cluster(name: str, s3: Bucket) -> threading.Thread:
        def story() -> None:
            boot.id = name
            run = RUN if name == "first" else OTHER
            given = asked(copied(path), run=run)
            (place,) = input_places.places_of(settings(tmp_path), given)
            progress = copy_progress.Progress()
            whole: Any = s3
            inputs.Bringing(whole, place, given, "b", progress, unpack_state.State()).run()

        thread = threading.Thread(target=story, daemon=True)
        thread.start()
        return thread

    second = Bucket(OBJECTS)
    with monkeypatch.context() as patch:
        patch.setattr(inputs, "sync", slow)
        one = cluster("first", Bucket(OBJECTS))
        assert fetched.wait(30)
        other = cluster("second", second)
        other.join(0.3)
        go_on.set()
        one.join(30)
        other.join(30)
    assert names(Path(path).iterdir()) == ["b.txt", "train"]
    assert second.fetched == []
    assert not one.is_alive()
    assert not other.is_alive()


def test_a_shared_copy_of_objects_that_changed_since_is_not_taken_for_the_new_ones(
    tmp_path: Path,
) -> None:
    s3 = Bucket(OBJECTS)
    path = str(tmp_path / "shared/one")
    bring(tmp_path, s3, asked(copied(path)))
    s3.objects["v1/b.txt"] = b"another\n"
    bring(tmp_path, s3, asked(copied(path), attempt=2))
    with pytest.raises(CommandRefused, match="have changed since they were copied"):
        bring(tmp_path, s3, asked(copied(path), run=OTHER))
    with pytest.raises(CommandRefused, match="has data of s3://corpus/v1/"):
        bring(tmp_path, s3, asked(copied(path, "s3://corpus/v2/"), run=OTHER))


def test_what_no_run_brought_is_never_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "shared/mine"
    mine.mkdir(parents=True)
    (mine / "thesis.txt").write_text("years")
    with pytest.raises(CommandRefused, match="no run brought it there"):
        bring(tmp_path, Bucket(OBJECTS), asked(copied(str(mine))))
    assert (mine / "thesis.txt").read_text() == "years"


def test_a_path_that_the_submission_has_is_refused_and_what_a_program_put_there_stays(
    tmp_path: Path,
) -> None:
    there = work(tmp_path) / "data"
    there.mkdir(parents=True)
    with pytest.raises(CommandRefused, match=r"inputs\.0\.path: 'data' is there already"):
        bring(tmp_path, Bucket(OBJECTS), asked(copied()))
    bring(tmp_path, Bucket(OBJECTS), asked(copied(), attempt=2))
    assert not there.is_symlink()


def test_what_the_submission_has_at_the_path_is_refused_at_a_resume_too(tmp_path: Path) -> None:
    tree, packs = packed({"data/sample.txt": b"a few lines"})
    code = BundleCode(tree=TreeS3(tree, packs).id, prefix="code")
    sample = work(tmp_path) / "data/sample.txt"
    sample.parent.mkdir(parents=True)
    sample.write_bytes(b"a few lines")
    (work(tmp_path).parent / "tree.json").write_bytes(tree.document())
    for attempt in (1, 2):
        with pytest.raises(CommandRefused, match=r"inputs\.0\.path: 'data' is there already"):
            bring(tmp_path, Bucket(OBJECTS), asked(copied(), attempt=attempt, code=code))


def test_no_link_is_made_through_a_link_of_the_programs(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    work(tmp_path).mkdir(parents=True)
    (work(tmp_path) / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandRefused, match="'out' is no directory of its own"):
        bring(tmp_path, Bucket(OBJECTS), asked(copied("out/data")))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_path_out_of_the_shared_filesystem_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (shared / "out").symlink_to(tmp_path / "elsewhere")
    for path, words in {
        "/etc/data": "is not below",
        str(shared / "trainyard/runs/x"): "is where Trainyard keeps its runs",
        str(shared / "out/data"): "leads out of the shared filesystem",
    }.items():
        with pytest.raises(CommandRefused, match=words):
            bring(tmp_path, Bucket(OBJECTS), asked(copied(path)))


def test_data_that_were_uploaded_are_unpacked_with_links_and_empty_directories(
    tmp_path: Path,
) -> None:
    tree, packs = packed({"a/b.txt": b"text\n"}, links={"latest": "a"}, empty=("none",))
    s3 = TreeS3(tree, packs, prefix="runs/r/code")
    one = BundleInput(path="data", code=BundleCode(tree=s3.id, prefix="runs/r/code"))
    parts = bring(tmp_path, s3, asked(one, files={"data.yaml": "mine"}))
    found = work(tmp_path) / "data"
    assert (found / "latest/b.txt").read_bytes() == b"text\n"
    assert sorted(path.name for path in found.iterdir()) == ["a", "latest", "none"]
    assert "1 object, " in parts.words(asked(one))


def test_a_mounted_bucket_is_found_by_a_link_and_nothing_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = tmp_path / "data"
    (mounted / "v1").mkdir(parents=True)
    (mounted / "v1/a.txt").write_text("first")
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in ("/", str(mounted)))
    one = BundleInput(path="corpus", mounted=str(mounted / "v1"))
    for attempt in (1, 2):
        bring(tmp_path, Bucket({}), asked(one, attempt=attempt))
        assert (work(tmp_path) / "corpus/a.txt").read_text() == "first"
    with pytest.raises(CommandRefused, match="there is no object below"):
        bring(tmp_path, Bucket({}), asked(BundleInput(path="x", mounted=str(mounted / "v9"))))
    with pytest.raises(CommandRefused, match="no bucket is mounted"):
        bring(tmp_path, Bucket({}), asked(BundleInput(path="x", mounted="/nowhere/v9")))
    monkeypatch.setenv("TRAINYARD_ROOT", str(tmp_path))
    with pytest.raises(CommandRefused, match="use mode 'copy'"):
        bring(tmp_path, Bucket({}), asked(one))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"arguments": ["--data=/fsx/corpus"]}, r"job\.arguments\.0"),
        ({"arguments": ["x", "/fsx"]}, r"job\.arguments\.1"),
        ({"environment": {"HF_HOME": "/tmp:/fsx/hf"}}, r"job\.environment\.HF_HOME"),
        ({"inputs": [copied("/fsx/corpus")]}, r"inputs\.0\.path"),
    ],
)
def test_a_path_that_nodes_do_not_have_is_refused_and_never_another_directory(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    given = bundle(**changes)
    with pytest.raises(CommandRefused, match=f"{field}: .*nothing at '/fsx'"):
        bring(tmp_path, Bucket(OBJECTS), given, shared_path="/fsx")


def test_words_that_only_look_like_the_path_are_no_path() -> None:
    given = bundle(arguments=["/fsxy/a", "my/fsx/a"], environment={"A": "s3://b/fsx/x"})
    input_places.check_paths(config(Path("/nowhere"), shared_path="/fsx"), given)


def test_data_on_their_way_leave_threads_for_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)  # the loop has six threads then
    s3, go_on = Bucket(OBJECTS), threading.Event()
    s3.before = lambda key: go_on.wait(30)

    async def story() -> None:
        parts = Inputs(settings(tmp_path), s3)  # type: ignore[arg-type]
        for number in range(8):
            assert parts.bring(asked(copied(str(tmp_path / f"shared/{number}"))), "bucket")
        try:
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 5)
        finally:
            go_on.set()

    asyncio.run(story())


def test_a_submission_is_told_how_far_it_is(tmp_path: Path) -> None:
    parts = Inputs(settings(tmp_path), Bucket(OBJECTS))  # type: ignore[arg-type]

    async def story() -> None:
        coming = parts.bring(asked(copied()), "bucket")
        assert coming is not None
        with pytest.raises(CommandRefused, match=r"inputs\.0: .* after|listed, for") as refused:
            await parts.wait(coming, 0.0)
        assert refused.value.code == "fetching"
        await asyncio.wait({coming.task})

    asyncio.run(story())


def test_a_cancel_stops_the_runs_own_copy_and_a_resume_goes_on_with_it(tmp_path: Path) -> None:
    s3 = Bucket(OBJECTS)
    parts = Inputs(settings(tmp_path), s3)  # type: ignore[arg-type]
    s3.before = lambda key: parts.stop(RUN)

    async def story() -> None:
        coming = parts.bring(asked(copied()), "bucket")
        assert coming is not None
        with pytest.raises(CommandRefused, match="goes on with it"):
            await parts.wait(coming, time.monotonic() + 60)

    asyncio.run(story())
    s3.before = lambda key: None
    bring(tmp_path, s3, asked(copied()))
    assert (work(tmp_path) / "data/b.txt").read_bytes() == b"second\n"


def test_what_a_run_reads_is_never_exported(tmp_path: Path) -> None:
    bring(tmp_path, Bucket(OBJECTS), asked(copied()))
    (work(tmp_path) / "model.pt").write_text("weights")
    found = own_files.working(run_dir(settings(tmp_path), RUN), "checkpoints")
    assert [file.key for file in found.files] == ["working/model.pt"]
    assert found.left_out == 0


def names(paths: Iterable[Path]) -> list[str]:
    return sorted(path.name for path in paths)


def test_a_kill_between_the_note_and_the_rename_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = Bucket(OBJECTS)

    def dies(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dies)
        with pytest.raises(KeyboardInterrupt):
            bring(tmp_path, s3, asked(copied()))
    bring(tmp_path, s3, asked(copied()))
    root = run_dir(settings(tmp_path), RUN)
    assert (work(tmp_path) / "data/b.txt").read_bytes() == b"second\n"
    assert names((root / "inputs").iterdir()) == [".0.trainyard.json", "0", "0.json"]
