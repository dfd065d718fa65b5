"""The controller's agent keeps its promises when Slurm, itself or the credentials fail between."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN
from tests.support.agent_parts import Controller, node_parts

from trainyard_agent import daemon
from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.commands import job_control as jobs
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.boot import boot_id
from trainyard_agent.host.slurm import Job, SlurmError, SlurmNode
from trainyard_agent.jobs import ending, hollow_jobs
from trainyard_agent.jobs.attempts import Attempt
from trainyard_agent.jobs.ending import EVIDENCE_NODES
from trainyard_agent.jobs.evidence import Diagnosis
from trainyard_agent.jobs.progress import first_step_at
from trainyard_contracts.commands import Cancelling
from trainyard_contracts.files import Progress


class BusySlurm:
    """A slurmctld that answers only from the third call on."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.cancelled = asyncio.Event()

    async def cancel(self, job_id: str, *options: str) -> None:
        self.calls.append((job_id, *options))
        if len(self.calls) < 3:
            raise SlurmError("Unable to contact slurm controller")
        self.cancelled.set()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "FIRST_PAUSE_SECONDS", 0.001)


def test_a_cancel_that_slurm_does_not_take_is_repeated_until_it_does(tmp_path: Path) -> None:
    async def story() -> None:
        slurm = BusySlurm()
        controller = Controller(tmp_path, slurm)
        controller.add(1, "submitted")
        assert await controller.jobs.cancel(RUN) == Cancelling("cancelling")
        await slurm.cancelled.wait()
        assert slurm.calls == [("101",)] * 3

    run(story())


def test_after_a_restart_the_jobs_of_older_attempts_are_still_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        before = Controller(tmp_path)
        before.add(1, "running")
        before.add(2, "submitted")
        before.store.close()
        slurm = BusySlurm()
        after = Controller(tmp_path, slurm)
        after.jobs.resume()
        await slurm.cancelled.wait()
        assert {call[0] for call in slurm.calls} == {"101"}

    run(story())


def on_a_node(
    directory: Path,
    run_id: str,
    number: int,
    state: str,
    *,
    ended: float | None = None,
    job_ended: bool = False,
) -> Attempt:
    attempt = Attempt(
        run_id, number, state, directory / f"{run_id}-{number}", job_id=str(number), nodes=["ip-1"]
    )  # type: ignore[arg-type]
    attempt.ended_at = None if ended is None else time.monotonic() - ended
    attempt.job_ended = job_ended
    return attempt


def test_of_two_runs_the_one_that_was_on_a_node_last_is_what_runs_there(tmp_path: Path) -> None:
    controller, other = Controller(tmp_path), "run-01j0000000000000000000000b"

    def known(*those: Attempt) -> tuple[str, int]:
        controller.attempts.known.clear()
        controller.attempts.known.update({(one.run_id, one.number): one for one in those})
        found = controller.attempts.on_node("ip-1")
        assert found is not None
        return found.run_id, found.attempt

    ended_before = on_a_node(tmp_path, RUN, 9, "ended", ended=30.0)
    assert known(ended_before, on_a_node(tmp_path, other, 1, "ended", ended=1.0)) == (other, 1), (
        "numbers count within a run"
    )
    assert known(ended_before, on_a_node(tmp_path, other, 1, "running")) == (other, 1)
    judged = on_a_node(tmp_path, RUN, 9, "running", job_ended=True)
    assert known(judged, on_a_node(tmp_path, other, 1, "running")) == (other, 1), (
        "the job of the other one has left the node"
    )
    assert known(ended_before, on_a_node(tmp_path, RUN, 10, "running")) == (RUN, 10)


def test_what_follows_the_end_of_an_attempt_is_done_after_a_restart_and_only_once(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        before = Controller(tmp_path)
        before.add(1, "ended")
        before.store.close()
        for expected in ([1], []):
            after = Controller(tmp_path)
            after.follower.resume()
            await asyncio.gather(*after.follower._background.tasks)
            assert after.closed == expected
            assert after.attempts.known[RUN, 1].state == "ended"
            after.store.close()

    run(story())


def test_the_end_of_an_attempt_on_thousands_of_nodes_fits_into_an_event(tmp_path: Path) -> None:
    names = tuple(f"ip-10-{number // 250}-{number % 250}-7" for number in range(6758))
    controller = Controller(tmp_path, None, names[-1])
    attempt = controller.add(1, "running", nodes=names)
    event = controller.ending._event(attempt, Diagnosis("failed"), "x" * 8192)
    assert len(event.nodes) == EVIDENCE_NODES
    assert event.nodes[0].node == names[-1], "those in doubt come first"
    assert len(event.model_dump_json(by_alias=True)) < 128 * 1024


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


def test_a_thread_that_breaks_ends_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(daemon.os, "_exit", ended.append)
    monkeypatch.setattr(threading, "excepthook", daemon.thread_broke)

    def break_down() -> None:
        raise KeyError("a bug")

    thread = threading.Thread(target=break_down)
    thread.start()
    thread.join()
    assert ended == [70]


class OneJob:
    """A job that runs until it is cancelled."""

    def __init__(self) -> None:
        self.state = "RUNNING"
        self.cancelled: list[str] = []

    async def job(self, job_id: str) -> Job:
        return Job(job_id, self.state, 0, 15 if self.state == "CANCELLED" else 0, NODES)

    async def cancel(self, job_id: str, *options: str) -> None:
        self.cancelled.append(job_id)
        self.state = "CANCELLED"


NODES = ("ip-127-0-0-2", "ip-127-0-0-3")


def test_a_job_whose_node_was_off_and_is_back_within_seconds_is_ended_at_once_and_says_why(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        slurm = OneJob()
        controller = Controller(tmp_path, slurm)
        attempt = controller.add(1, "running", nodes=NODES)
        controller.follower.follow(attempt)
        off_at = time.monotonic()
        later = controller.add(2, "running", nodes=NODES)
        for node in ("ip-127-0-0-3", "ip-127-0-0-9"):
            controller.forced_end.restarted(node, off_at)
        await attempt.done.wait()
        assert (slurm.cancelled, controller.killed) == (["101"], [(1, ["101"])])
        assert not later.cut_off_from, "its job began after the node was back"
        query = "SELECT body FROM outbox WHERE kind = 'AttemptEnded'"
        [(body,)] = controller.store.connection.execute(query).fetchall()
        end = json.loads(body)
        assert (end["outcome"], end["errorKind"], end["failedNode"]) == (
            "failed",
            "signal",
            "ip-127-0-0-3",
        )
        assert end["error"] == "ip-127-0-0-3 was restarted"

    run(story())


def test_a_job_that_a_person_ended_and_that_does_not_stop_in_time_is_killed_before_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "EVIDENCE_SECONDS", 0.05)
    monkeypatch.setattr(ending, "STOP_SECONDS", 0.3)

    async def story() -> None:
        slurm = OneJob()
        slurm.state = "COMPLETING"
        controller = Controller(tmp_path, slurm)
        attempt = controller.add(1, "running", nodes=NODES)
        write_launch(attempt.directory, NODES[0], ended=2.0, exitCode=143, kind="stopped")
        write_launch(attempt.directory, NODES[1])
        assert await controller.follower.poll(attempt)
        assert controller.killed == [(1, ["101"])]

    run(story())


def write_launch(directory: Path, node: str, **end: Any) -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"launch-{node}.json").write_text(
        json.dumps({"node": node, "attempt": 1, "pid": 1, "started": 1.0, **end})
    )


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_whose_launchers_ended_well_while_slurm_calls_it_running_is_ended_as_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    monkeypatch.setattr(hollow_jobs, "GRACE_SECONDS", 0.05)

    async def story() -> None:
        slurm = OneJob()
        controller = Controller(tmp_path, slurm)
        attempt = controller.add(1, "running", nodes=NODES)
        write_launch(attempt.directory, NODES[0], ended=2.0, exitCode=0)
        write_launch(attempt.directory, NODES[1])
        for _ in range(3):
            attempt.looked_at = float("-inf")
            assert not await controller.follower.poll(attempt)
        assert slurm.cancelled == [], "one launcher goes on"
        write_launch(attempt.directory, NODES[1], ended=3.0, exitCode=0)
        while not slurm.cancelled:
            assert not await controller.follower.poll(attempt)
            await asyncio.sleep(0.01)
        assert controller.killed == [(1, ["101"])], (
            "what its launchers left does not wait for Slurm's KillWait"
        )
        if restarted:  # between our scancel and the report
            attempt.hollow = False
        assert await controller.follower.poll(attempt)
        [(body,)] = controller.store.connection.execute(
            "SELECT body FROM outbox WHERE kind = 'AttemptEnded'"
        ).fetchall()
        assert json.loads(body)["outcome"] == "succeeded"

    run(story())


def test_a_node_says_with_its_first_beat_which_boot_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_ROOT", str(tmp_path))
    first = boot_id()
    assert boot_id() == first
    shutil.rmtree(tmp_path / "var/run")  # what a reboot does
    second = boot_id()
    assert second != first

    async def story() -> None:
        controller, restarted = Controller(tmp_path), []
        registry = node_parts(
            controller.config,
            controller.reporter,
            on_restarted=lambda node, off_at: restarted.append(node),
        ).registry
        for boot in (first, first, second):
            registry.linked("ip-127-0-0-2", "i-2", "127.0.0.2")
            registry.beat("ip-127-0-0-2", {"is": "beat", "boot": boot})
            registry.beat("ip-127-0-0-2", {"is": "beat"})
        assert restarted == ["ip-127-0-0-2"]

    run(story())


def test_a_new_job_that_has_the_older_ones_number_is_not_cancelled_with_it(tmp_path: Path) -> None:
    """A slurmctld that crashed before it saved its state counts on from an older job."""

    async def story() -> None:
        slurm = OneJob()
        controller = Controller(tmp_path, slurm)
        for number in (1, 2):
            controller.attempts.save(
                Attempt(RUN, number, "submitted", tmp_path / str(number), job_id="8")
            )
        await controller.jobs._cancel_older(RUN)
        assert slurm.cancelled == []

    run(story())


def test_another_runs_job_that_got_the_number_of_ours_neither_ends_nor_is_killed_as_ours(
    tmp_path: Path,
) -> None:
    """A slurmctld that crashed before it saved its state gave our job's number to the next one."""

    class Others(OneJob):
        async def job(self, job_id: str) -> Job:
            return Job(job_id, "COMPLETED", 0, 0, NODES, name="run-other-1")

    async def story() -> None:
        controller = Controller(tmp_path, Others())
        ours = controller.add(1, "running", nodes=NODES)
        controller.attempts.save(
            Attempt("run-other", 1, "running", tmp_path / "other", job_id=ours.job_id)
        )
        controller.follower.follow(ours)
        await ours.done.wait()
        [(body,)] = controller.store.connection.execute(
            "SELECT body FROM outbox WHERE kind = 'AttemptEnded'"
        ).fetchall()
        assert (json.loads(body)["outcome"], json.loads(body)["errorKind"]) == ("failed", "unknown")
        assert "does not know the job" in json.loads(body)["error"]
        await controller.jobs._end_older(RUN, 2)
        assert controller.killed == [(1, [])]

    run(story())


@pytest.mark.parametrize(("state", "reason", "given_back"), [
    ("idle+drain", "Duplicate jobid [root@2026-11-21T03:50:17]", True),
    ("down+drain", "Duplicate jobid", True),
    ("mixed+drain", "Duplicate jobid", False),
    ("idle+drain", "a person's own reason", False),
])  # fmt: skip
def test_only_what_slurm_drained_for_a_number_given_out_twice_is_given_back(
    tmp_path: Path, state: str, reason: str, given_back: bool
) -> None:
    class Drained:
        def __init__(self) -> None:
            self.resumed: list[tuple[str, str]] = []

        async def nodes(self) -> dict[str, SlurmNode]:
            return {
                name: SlurmNode(name, state, "127.0.0.2", 6818, reason)
                for name in ("ip-127-0-0-2", "ip-127-0-0-3")
            }

        async def set_node(self, name: str, state: str) -> None:
            self.resumed.append((name, state))

    async def story() -> None:
        controller, slurm = Controller(tmp_path), Drained()
        parts = node_parts(controller.config, controller.reporter, slurm=slurm)
        parts.registry.linked("ip-127-0-0-2", "i-2", "127.0.0.2")
        refresh = asyncio.create_task(parts.members.refresh())
        while not parts.table.slurm_nodes:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        refresh.cancel()
        assert slurm.resumed == ([("ip-127-0-0-2", "resume")] if given_back else []), (
            "the other node's agent is not linked"
        )

    run(story())


def test_a_persons_scancel_that_is_seen_while_the_job_completes_is_one(tmp_path: Path) -> None:
    class Completing(OneJob):
        """Its batch script ended with 143 on SIGTERM; Slurm says why only once it is through."""

        looks = 0

        async def job(self, job_id: str) -> Job:
            self.looks += 1
            return Job(job_id, "COMPLETING" if self.looks < 3 else "CANCELLED", 143, 0, NODES)

    async def story() -> None:
        controller = Controller(tmp_path, Completing())
        attempt = controller.add(1, "running", nodes=NODES)
        controller.follower.follow(attempt)
        await attempt.done.wait()
        [(body,)] = controller.store.connection.execute(
            "SELECT body FROM outbox WHERE kind = 'AttemptEnded'"
        ).fetchall()
        assert json.loads(body)["outcome"] == "cancelled"

    run(story())


def test_when_training_stands_still_its_nodes_are_asked_at_once_and_once_a_standstill(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        controller = Controller(tmp_path)
        asked = controller.asked
        attempt = controller.add(1, "running", nodes=("ip-1", "ip-2"), step_seconds=0.1)
        attempt.stepped_at = time.monotonic() - 0.3
        controller.follower._look_at_steps(attempt)
        assert attempt.doubted_at is None, (
            "three steps of 0.1 s are not yet more than a pause may take"
        )
        attempt.stepped_at -= 0.2
        for _ in range(3):
            controller.follower._look_at_steps(attempt)
            await asyncio.sleep(0)
        assert asked == [("ip-1", "ip-2")]
        attempt.stepped_at += 0.01
        controller.follower._look_at_steps(attempt)
        await asyncio.sleep(0)
        assert len(asked) == 2, "it stepped, and stands still again"
        attempt.job_ended, attempt.doubted_at = True, None
        controller.follower._look_at_steps(attempt)
        await asyncio.sleep(0)
        assert len(asked) == 2

    run(story())


@pytest.mark.parametrize("wrong", [-3600.0, 0.0, 3600.0])
def test_the_first_step_is_dated_rightly_also_where_the_clock_of_its_node_is_an_hour_off(
    tmp_path: Path, wrong: float
) -> None:
    attempt = Controller(tmp_path).add(1, "running")
    attempt.directory.mkdir()
    (attempt.directory / "bundle.json").write_text("{}")
    now = time.time()
    progress = Progress(
        step=9,
        loss=None,
        at=now + wrong,
        resumed_from=None,
        first_step_at=now + wrong - 2.0,
        world_size=2,
    )
    assert first_step_at(attempt, progress) == pytest.approx(now - 2.0, abs=1.0)
