"""Checkpoints: verified once, rejected with a reason, pruned but for the last one; the fence."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tests.support.agent import RUN, commit, config
from tests.support.agent_parts import Controller

from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.findings import signature
from trainyard_agent.checkpoints.names import order
from trainyard_agent.checkpoints.scanning import scan
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.jobs.attempt import Attempt
from trainyard_contracts.job_bundle import JobBundle

names = st.builds(
    lambda step, attempt: f"checkpoints/step-{step:012d}-attempt-{attempt}",
    st.integers(0, 50),
    st.integers(1, 3),
)


class Watch:
    """One life of the agent's checkpoints, on a store file that outlives it.

    `told` is what its outbox holds of all lives.
    """

    def __init__(self, directory: Path, keep: int = 100) -> None:
        settings = config(directory)
        self.root = directory / "shared/trainyard/runs" / RUN
        self.store = Store(directory / "outbox.sqlite")
        self.checkpoints = Checkpoints(settings, None, Reporter(settings, self.store))  # type: ignore[arg-type]
        bundle = JobBundle(
            run_id=RUN, attempt=1, cluster_name="c", batch_script="", nodes=1, processes_per_node=1,
            program=["x"], checkpoint_keep=keep
        )  # fmt: skip
        self.attempt = Attempt(RUN, 1, "running", directory, bundle=bundle)

    def look(self) -> None:
        asyncio.run(self.checkpoints.look_at(self.attempt))

    def told(self) -> list[str]:
        rows = self.store.connection.execute(
            "SELECT kind, body FROM outbox ORDER BY seq"
        ).fetchall()
        return [
            f"{kind.removeprefix('Checkpoint')} {json.loads(body)['step']}" for kind, body in rows
        ]

    def there(self) -> list[int]:
        return sorted(order(path.name)[0] for path in (self.root / "checkpoints").glob("step-*"))

    def ends(self) -> None:
        self.checkpoints.close()
        self.store.close()


def test_what_the_agent_pruned_is_told(tmp_path: Path) -> None:
    watch = Watch(tmp_path, keep=2)
    for step in (10, 20, 30):
        commit(watch.root, step)
    watch.look()
    watch.look()
    assert watch.told() == ["Committed 10", "Committed 20", "Committed 30", "Pruned 10"]
    assert watch.there() == [20, 30]
    watch.ends()


def test_what_the_trainer_pruned_is_told_once_also_when_the_agent_was_away(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    for step in (10, 20):
        commit(watch.root, step)
    watch.look()
    watch.ends()
    commit(watch.root, 30)
    for step in (10, 20):
        shutil.rmtree(watch.root / f"checkpoints/step-{step:012d}-attempt-1")
    for _ in range(2):
        watch = Watch(tmp_path)
        watch.look()
        assert watch.told() == [
            "Committed 10",
            "Committed 20",
            "Committed 30",
            "Pruned 10",
            "Pruned 20",
        ]
        watch.ends()


@pytest.mark.parametrize(
    "left", ["nothing", "an empty mount point", "an empty directory of checkpoints"]
)
def test_nothing_is_told_of_checkpoints_while_the_shared_filesystem_is_away(
    tmp_path: Path, left: str
) -> None:
    watch = Watch(tmp_path, keep=2)
    for step in (10, 20):
        commit(watch.root, step)
    watch.look()
    shared, away = tmp_path / "shared", tmp_path / "away"
    shared.rename(away)
    if left != "nothing":
        (watch.root / "checkpoints" if left.startswith("an empty directory") else shared).mkdir(
            parents=True
        )
    watch.look()
    shutil.rmtree(shared, ignore_errors=True)
    away.rename(shared)
    watch.look()
    assert watch.told() == ["Committed 10", "Committed 20"]
    assert watch.there() == [10, 20]
    watch.ends()


def test_a_newest_one_that_is_missing_is_not_told_and_does_not_count_as_kept(
    tmp_path: Path,
) -> None:
    watch = Watch(tmp_path, keep=1)
    commit(watch.root, 10)
    watch.look()
    newest = commit(watch.root, 20)
    watch.checkpoints.exporting[RUN] += 1
    watch.look()
    shutil.rmtree(newest)
    watch.checkpoints.exporting[RUN] -= 1
    watch.look()
    assert watch.there() == [10]
    assert watch.told() == ["Committed 10", "Committed 20"]
    commit(watch.root, 30)
    watch.look()
    assert watch.told()[2:] == ["Committed 30", "Pruned 20", "Pruned 10"]
    watch.ends()


def test_a_rejected_one_that_is_gone_stays_rejected_for_everyone(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    torn = commit(watch.root, 10)
    (torn / "manifest.json").unlink()
    commit(watch.root, 20)
    watch.look()
    shutil.rmtree(torn)
    watch.look()
    assert watch.told() == ["Rejected 10", "Committed 20"]
    watch.ends()


def test_one_that_cannot_be_removed_is_not_told_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(tmp_path, keep=1)
    for step in (10, 20):
        commit(watch.root, step)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("trainyard_agent.checkpoints.pruning.os.rename", refuse)
    for _ in range(3):
        watch.look()
    assert watch.told() == ["Committed 10", "Committed 20"]
    watch.ends()


def failing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Every file fails with this error, as when descriptors lack or a file system fails over."""

    def refuse(root: Path, path: Path) -> None:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr("trainyard_agent.host.s3.open_inside", refuse)
    monkeypatch.setattr("trainyard_agent.host.job_files.open_inside", refuse)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE, errno.ENOMEM])
@pytest.mark.parametrize("ended", [False, True])
def test_what_cannot_be_read_now_is_not_torn_and_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, ended: bool
) -> None:
    monkeypatch.setattr("trainyard_agent.checkpoints.checkpoints.FIRST_RETRY_SECONDS", 0.0)
    watch = Watch(tmp_path)
    for step in (10, 20):
        commit(watch.root, step)
    (commit(watch.root, 30) / "rank-0/model.pt").write_bytes(b"WEIGHTS")
    with monkeypatch.context() as trouble:
        failing(trouble, code)
        watch.look()
        watch.look()
        assert watch.told() == []
        assert watch.checkpoints.known(RUN) == []
    if ended:  # the last checkpoint is often committed with the job's end
        watch.attempt.state = "ended"
        watch.checkpoints._attempts = Ended(watch.attempt)  # type: ignore[assignment]
        assert watch.checkpoints._with_unread() == [watch.attempt]
    watch.look()
    assert watch.told() == ["Committed 10", "Committed 20", "Rejected 30"]
    assert watch.checkpoints._with_unread() == []
    watch.ends()


class Ended:
    """attempts.Attempts, with one attempt that has ended."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def newest(self, run_id: str) -> Attempt:
        return self._attempt


def test_a_whole_checkpoint_that_cannot_be_read_for_a_while_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(tmp_path)
    directory = commit(watch.root, 10)
    watch.look()
    os.utime(directory / "rank-0/model.pt")
    with monkeypatch.context() as trouble:
        failing(trouble, errno.EIO)
        watch.look()
    watch.look()
    assert watch.told() == ["Committed 10"]
    watch.ends()


def test_between_two_looks_at_what_cannot_be_read_the_pause_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(tmp_path)
    commit(watch.root, 10)
    failing(monkeypatch, errno.EIO)
    finding = scan(watch.root, "checkpoints", RUN, {})[0][0]
    pauses = []
    for _ in range(9):
        before = time.monotonic()
        watch.checkpoints._look_again(RUN, finding)
        pauses.append(watch.checkpoints._unread[RUN, finding.path][1] - before)
    assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    watch.look()
    assert watch.checkpoints._unread[RUN, finding.path][0] == 9, "its time has not come"
    watch.ends()


def test_what_an_older_agent_rejected_for_a_read_error_is_looked_at_once_more(
    tmp_path: Path,
) -> None:
    watch = Watch(tmp_path)
    directory = commit(watch.root, 10)
    sign = signature(directory)
    watch.store.connection.execute("DELETE FROM flags WHERE name = 'rejects-content-only'")
    row = (RUN, f"checkpoints/{directory.name}", 10, 1, "rejected", sign)
    watch.store.connection.execute("INSERT INTO checkpoints VALUES(?, ?, ?, ?, ?, ?)", row)
    watch.ends()
    watch = Watch(tmp_path)
    watch.look()
    assert watch.told() == ["Committed 10"]
    (directory / "rank-0/model.pt").write_bytes(b"WEIGHTS")
    watch.look()
    watch.ends()
    watch = Watch(tmp_path)
    watch.look()
    assert watch.told() == ["Committed 10", "Rejected 10"], (
        "what was rejected for what it holds stays so, and is told once"
    )
    watch.ends()


def test_no_checkpoint_is_pruned_while_any_export_of_its_run_goes_on(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    checkpoints = Checkpoints(
        controller.config, controller.attempts, Reporter(controller.config, controller.store)
    )
    path = tmp_path / "step-000000000001-attempt-1"
    path.mkdir()
    checkpoints.exporting[RUN] += 2
    checkpoints.exporting[RUN] -= 1
    assert not checkpoints._remove(RUN, path)
    assert path.is_dir()
    checkpoints.exporting[RUN] -= 1
    assert checkpoints._remove(RUN, path)
    assert not path.exists()
    checkpoints.close()
