"""A run goes on from what was in S3 where its filesystem has nothing of it: whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, commit, config
from tests.support.agent_parts import play
from tests.support.foreign import archive, step_of_archive
from tests.unit.trainyard_agent.checkpoints.test_putting_back import keep
from tests.unit.trainyard_agent.checkpoints.test_sync_pass import PREFIX, Sync, checkpoint
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.checkpoints import restorer
from trainyard_agent.checkpoints.putting_back import put_back
from trainyard_agent.checkpoints.restore_state import State
from trainyard_agent.checkpoints.restorer import Restorer
from trainyard_agent.checkpoints.restoring import Restores, was_here
from trainyard_agent.checkpoints.starting import Starts
from trainyard_agent.checkpoints.verifying import verify
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host import patience
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_contracts.bundle_parts import BundleStart, SyncOrder
from trainyard_contracts.export_manifest import ExportedObject, ExportManifest, KeptLink
from trainyard_contracts.job_bundle import JobBundle

EXPORT = f"runs/{RUN}/export"


class World:
    """A run that was synced from a filesystem that is gone, and another cluster's agent."""

    def __init__(self, directory: Path) -> None:
        lost = directory / "lost"
        lost.mkdir()
        self.sync = Sync(lost)
        self.s3 = self.sync.s3
        self.config = config(directory)
        self.root = run_dir(self.config, RUN)
        self.store = Store(directory / "outbox.sqlite")
        self.reporter = Reporter(self.config, self.store)
        self.told: list[Any] = []
        real = self.reporter.report

        def report(*events: Any, **how: Any) -> None:
            self.told += events
            real(*events, **how)

        self.reporter.report = report  # type: ignore[method-assign]

    def bundle(self, attempt: int = 2) -> JobBundle:
        return bundle(attempt, sync=SyncOrder(every_seconds=5, prefix=PREFIX))

    def restores(self) -> Restores:
        s3: Any = self.s3
        return Restores(self.config, self.reporter, s3)

    def restore(self, attempt: int = 2, given: JobBundle | None = None) -> dict[str, Any] | None:
        s3: Any = self.s3
        given = given or self.bundle(attempt)
        assert given.sync is not None
        return Restorer(s3, self.config, self.root, given, given.sync, State()).run()

    def export(
        self, *, at: datetime, links: Sequence[tuple[str, str]] = (), **files: bytes
    ) -> None:
        objects = []
        for name, body in files.items():
            key = name.replace("__", "/")
            self.s3.objects[f"{EXPORT}/{key}"] = body
            sha256 = hashlib.sha256(body).hexdigest()
            objects.append(ExportedObject(key=key, bytes=len(body), sha256=sha256))
        listed = [KeptLink(key=key, target=target) for key, target in links]
        made = ExportManifest(run_id=RUN, created_at=at, objects=objects, links=listed)
        self.s3.objects[f"{EXPORT}/export-manifest.json"] = made.model_dump_json(
            by_alias=True
        ).encode()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.0)
    return World(tmp_path)


def lay(world: World) -> None:
    commit(world.sync.root, 10)
    commit(world.sync.root, 20, body=b"newer")
    world.sync.write("output/sub/model.pt", b"model")
    world.sync.write("work/snapshot.json", b"{}")
    world.sync.write("work/run.sh", b"#!/bin/sh").chmod(0o755)
    world.sync.write("best.json", b'{"step": 20}')
    world.sync.run()


def test_checkpoint_output_and_work_are_there_as_they_were(world: World) -> None:
    lay(world)
    facts = world.restore()
    assert facts is not None
    assert (facts["source"], facts["step"], facts["checkpoints"]) == ("sync", 20, 1)
    assert (facts["files"], facts["skipped"]) == (4, [])
    assert facts["brought"] == [checkpoint(20)]
    assert 0 <= facts["age_seconds"] < 600
    manifest, _ = verify(world.root / checkpoint(20), RUN)
    assert manifest.step == 20
    assert (world.root / "output/sub/model.pt").read_bytes() == b"model"
    assert (world.root / "work/run.sh").stat().st_mode & 0o777 == 0o755
    assert (world.root / "best.json").is_file()
    left = [path.name for path in world.root.rglob(".*")]
    assert left == []


def test_of_more_checkpoints_than_an_event_holds_none_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restorer, "_MOST_BROUGHT", 0)
    lay(world)
    facts = world.restore()
    assert facts is not None
    assert (facts["checkpoints"], facts["brought"]) == (1, None)


def test_what_the_submission_brought_is_replaced_by_what_the_program_made_of_it(
    world: World,
) -> None:
    lay(world)
    (world.root / "work").mkdir(parents=True)
    (world.root / "work/snapshot.json").write_text("as it came")
    (world.root / "work/train.py").write_text("as it came")
    world.restore()
    assert (world.root / "work/snapshot.json").read_text() == "{}"
    assert (world.root / "work/train.py").read_text() == "as it came"


def test_after_a_kill_at_any_file_the_next_submit_goes_on(world: World) -> None:
    lay(world)
    for dies_at in range(1, 20):
        gets = 0

        def count(verb: str, key: str) -> None:
            nonlocal gets
            gets += verb == "get"
            if gets == dies_at:  # noqa: B023
                raise KeyboardInterrupt

        world.s3.before = count
        try:
            world.restore()
        except KeyboardInterrupt:
            assert not was_here(world.root)
            found = world.root / checkpoint(20)
            assert not found.exists() or verify(found, RUN)
            continue
        break
    assert gets < dies_at
    assert verify(world.root / checkpoint(20), RUN)
    assert (world.root / "output/sub/model.pt").read_bytes() == b"model"


def test_a_checkpoint_that_is_torn_in_s3_is_left_out_and_an_older_one_taken(world: World) -> None:
    commit(world.sync.root, 10)
    world.sync.run()
    commit(world.sync.root, 20, body=b"newer")
    world.sync.run()
    world.s3.objects[f"{PREFIX}/{hashlib.sha256(b'newer').hexdigest()}"] = b"torn!"
    facts = world.restore()
    assert facts is not None
    assert (facts["step"], facts["checkpoints"]) == (10, 1)
    assert checkpoint(20) in facts["skipped"][0]
    assert not (world.root / checkpoint(20)).exists()


def test_a_programs_own_file_that_is_older_than_the_copy_of_it_makes_way(world: World) -> None:
    """Where the last pass met a save, it kept the file of the pass before."""
    sync = world.sync
    sync.write("work/snapshot.pt", archive(1), age=1000)
    sync.run()
    sync.write("work/snapshot.pt", archive(5), age=500)
    keep(sync.root, "work/snapshot.pt", 5)
    sync.write("work/snapshot.pt", archive(6)[:-40], age=0)
    sync.run()
    world.restore()
    assert step_of_archive(world.root / "work/snapshot.pt") == 1
    (done,) = put_back(world.root, ["*.pt"], attempt=1, ranks=2, trusts=lambda _: False)
    assert done.reason == "it is older than the newest whole one"
    assert step_of_archive(world.root / "work/snapshot.pt") == 5
    assert put_back(world.root, ["*.pt"], attempt=1, ranks=2, trusts=lambda _: False) == []


def test_what_the_run_began_with_is_not_asked_for_where_it_goes_on(world: World) -> None:
    """The other run is on the filesystem that is lost."""
    lay(world)
    start = BundleStart(run_id="run-01j0000000000000000000000b", path="checkpoints/x", step=7)
    given = world.bundle().changed(start_from=start)
    assert not Starts.brought(world.root, given)
    world.restore(given=given)
    assert Starts.brought(world.root, given)
    assert not was_here(world.root), "a repetition after a kill brings the rest"


def test_from_then_on_what_was_synced_belongs_to_this_attempt(world: World) -> None:
    lay(world)
    world.restore()
    latest = world.sync.synced.latest(RUN)
    assert latest is not None
    assert latest.attempt == 2
    with pytest.raises(CommandRefused, match="attempt 2 syncs this run") as refused:
        world.restore(1)
    assert refused.value.code == "fenced"


def test_the_newer_of_sync_and_export_is_taken(world: World) -> None:
    lay(world)
    now = datetime.now(timezone.utc)
    world.export(at=now - timedelta(days=1), output__old=b"old")
    facts = world.restore()
    assert facts is not None
    assert facts["source"] == "sync"
    shutil.rmtree(world.root)
    world.export(at=now + timedelta(hours=1), output__final=b"final", final__model=b"model")
    facts = world.restore()
    assert facts is not None
    assert (facts["source"], facts["files"]) == ("export", 1)
    assert [path.name for path in world.root.iterdir()] == ["output"]


def test_where_nothing_is_in_s3_nothing_is_done(world: World) -> None:
    assert world.restore() is None
    assert not world.root.exists()


@pytest.mark.parametrize(
    "key",
    [
        "output/../../../x",
        "run/fence",
        "run/attempts/1/job.json",
        "run/work/x",
        "working//x",
        "elsewhere/x",
        "checkpoints/step-000000000010-attempt-1/../../../../x",
        "checkpoints/evil/x",
    ],
)
def test_a_list_that_a_job_wrote_leads_nowhere_else(world: World, key: str) -> None:
    world.export(at=datetime.now(timezone.utc), **{key.replace("/", "__"): b"evil"})
    world.restore()
    assert [path for path in world.root.rglob("*") if path.is_file()] == []
    assert not any(path.name == "x" for path in world.root.parents[2].rglob("x"))


def test_no_link_is_followed_on_the_way(world: World, tmp_path: Path) -> None:
    world.export(at=datetime.now(timezone.utc), working__data__x=b"evil")
    (world.root / "work").mkdir(parents=True)
    (world.root / "work/data").symlink_to(tmp_path)
    facts = world.restore()
    assert facts is not None
    assert "working/data/x" in facts["skipped"][0]
    assert not (tmp_path / "x").exists()


def test_links_are_there_as_they_were(world: World) -> None:
    world.sync.write("work/runs/7/model.pt", b"m")
    (world.sync.root / "work/latest").symlink_to("runs/7")
    (world.sync.root / "work/later").symlink_to("runs/8")
    world.sync.run()
    (world.root / "work").mkdir(parents=True)
    (world.root / "work/latest").write_text("as the submission brought it")
    for _ in range(2):
        facts = world.restore()
        assert facts is not None
        assert facts["skipped"] == []
        assert (world.root / "work/latest/model.pt").read_bytes() == b"m"
        assert os.readlink(world.root / "work/later") == "runs/8"
    assert [path.name for path in world.root.rglob(".*")] == []


def test_links_of_an_export_are_there_too(world: World) -> None:
    now = datetime.now(timezone.utc)
    world.export(at=now, output__a=b"a", links=[("output/b", "a")])
    world.restore()
    assert (world.root / "output/b").read_bytes() == b"a"


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("working/x", "../output/a"),
        ("working/x", "/etc/passwd"),
        ("working/x", "a/../../../output/a"),
        ("working/x", ""),
        ("working/deep/x", "../../fence"),
        ("working/a", "b"),
        ("working/a/x", "b"),
        ("working/data", "a"),
        ("working/../x", "a"),
        ("run/fence", "a"),
        ("run/attempts/1/x", "a"),
        ("elsewhere/x", "a"),
        ("checkpoints/x", "a"),
    ],
)
def test_a_link_that_a_job_put_on_the_list_leads_nowhere_and_takes_no_files_place(
    world: World, key: str, target: str
) -> None:
    now = datetime.now(timezone.utc)
    files = {"working__a": b"a", "working__data__b": b"b", "output__a": b"a"}
    world.export(at=now, links=[(key, target)], **files)
    facts = world.restore()
    assert facts is not None
    assert facts["files"] == 3
    assert not [path for path in world.root.rglob("*") if path.is_symlink()]
    known = key.startswith("working/") and ".." not in key
    assert [entry.partition(":")[0] for entry in facts["skipped"]] == ([key] if known else [])


def test_a_link_is_made_through_no_other_link(world: World) -> None:
    links = [("working/a", "deep"), ("working/a/x", "y"), ("working/deep/ok", "y")]
    world.export(at=datetime.now(timezone.utc), working__y=b"y", links=links)
    facts = world.restore()
    assert facts is not None
    assert [entry.partition(":")[0] for entry in facts["skipped"]] == ["working/a/x"]
    assert sorted(path.name for path in (world.root / "work/deep").iterdir()) == ["ok"]


def test_of_a_list_with_very_many_links_the_first_are_made_and_the_rest_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restorer, "MOST_LINKS", 2)
    links = [(f"output/{number}", "a") for number in range(3)]
    world.export(at=datetime.now(timezone.utc), output__a=b"a", links=links)
    facts = world.restore()
    assert facts is not None
    assert facts["skipped"] == ["links: the list has 3, at most 2 are made"]
    assert sorted(path.name for path in (world.root / "output").iterdir()) == ["0", "1", "a"]


def test_after_a_kill_amid_a_link_the_next_submit_makes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(timezone.utc)
    world.export(at=now, output__a=b"a", links=[("output/b", "a")])
    real = os.replace

    def dies(source: Any, target: Any) -> None:
        if Path(source).is_symlink():
            os.link(source, Path(source).with_name("kept"), follow_symlinks=False)
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        world.restore()
    monkeypatch.undo()
    mark = hashlib.sha256(b"output/b").hexdigest()[:16]
    (world.root / "output/kept").rename(world.root / f"output/.restoring-{mark}")
    world.restore()
    assert sorted(path.name for path in (world.root / "output").iterdir()) == ["a", "b"]


def test_only_a_later_attempt_on_an_empty_filesystem_is_restored(world: World) -> None:
    async def story() -> None:
        restores = world.restores()
        assert restores.bring(bundle(2)) is None, "not asked for"
        assert restores.bring(world.bundle(1)) is None, "the first attempt"
        (world.root / "attempts/1").mkdir(parents=True)
        assert restores.bring(world.bundle(2)) is None, "its filesystem is there"

    play(story())


def test_a_submit_waits_for_it_and_the_timeline_hears_of_it_once(world: World) -> None:
    async def story() -> None:
        lay(world)
        restores = world.restores()
        first = restores.bring(world.bundle())
        assert first is not None
        assert restores.bring(world.bundle()) is first
        await restores.wait(first, time.monotonic() + 60)
        assert restores.bring(world.bundle()) is None, "the attempt may be submitted"
        again = world.restores()  # after a restart, before the attempt's directory is there
        second = again.bring(world.bundle())
        assert second is not None
        await again.wait(second, time.monotonic() + 60)
        assert [type(event).__name__ for event in world.told] == ["RunRestored"]
        assert (world.told[0].step, world.told[0].attempt) == (20, 2)

    play(story())


def test_a_long_one_is_answered_meanwhile_with_how_far_it_is(world: World) -> None:
    async def story() -> None:
        lay(world)
        restores, gate = world.restores(), asyncio.Event()
        loop = asyncio.get_running_loop()
        world.s3.before = lambda verb, key: asyncio.run_coroutine_threadsafe(
            gate.wait(), loop
        ).result()
        found = restores.bring(world.bundle())
        assert found is not None
        with pytest.raises(CommandRefused, match="still being restored") as refused:
            await restores.wait(found, time.monotonic())
        assert refused.value.code == "fetching"
        gate.set()
        await restores.wait(found, time.monotonic() + 60)

    play(story())


@pytest.mark.parametrize(
    ("error", "code"),
    [(Refused(403, "AccessDenied"), "restore-refused"), (Unreachable("no route"), "unreachable")],
)
def test_a_refusal_is_said_instead_of_a_start_from_the_beginning(
    world: World, error: Exception, code: str
) -> None:
    lay(world)

    def fails(verb: str, key: str) -> None:
        raise error

    world.s3.before = fails
    with pytest.raises(CommandRefused) as refused:
        world.restore()
    assert refused.value.code == code


def test_nothing_is_brought_below_a_mount_point_that_is_empty(world: World) -> None:
    lay(world)
    world.config = world.config.model_copy(update={"mounts": [world.config.shared_root]})

    async def story(restores: Restores) -> None:
        restoring = restores.bring(world.bundle())
        if restoring is not None:
            await Restores.wait(restoring, time.monotonic() + 60)

    with pytest.raises(OSError, match="is not mounted"):
        asyncio.run(story(world.restores()))
    assert (world.root.exists(), world.told) == (False, [])
    world.config = world.config.model_copy(update={"mounts": ["/proc"]})
    asyncio.run(story(world.restores()))
    assert (world.root / checkpoint(20)).is_dir()
