"""When a job is hollow: its launchers are done, and Slurm calls it running; how it ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.agent_parts import NODES, Controller, OneJob, play, write_launch

from trainyard_agent.jobs import hollow_jobs
from trainyard_agent.jobs.hollow_jobs import is_hollow
from trainyard_contracts.launch_report import LaunchReport as Launch

A, B = "ip-10-0-0-1", "ip-10-0-0-2"


def test_a_job_is_hollow_when_all_its_launchers_have_ended_or_one_failed() -> None:
    nodes, well, runs = (A, B), Launch(node=A, ended=2.0), Launch(node=B, ended=None)
    failed = Launch(node=A, ended=2.0, exit_code=1, kind="peer")
    stopped = Launch(node=A, ended=2.0, exit_code=143, kind="stopped")
    assert is_hollow(nodes, [well, Launch(node=B, ended=9.0)])
    assert is_hollow(nodes, [failed, runs])
    assert not is_hollow(nodes, [well, runs]), "the other one may still write the final model"
    assert not is_hollow(nodes, [stopped, runs])
    assert not is_hollow(nodes, [well]), "the other launcher has not written its first word yet"
    assert not is_hollow(nodes, [well, Launch(node="ip-of-nobody", ended=1.0, kind="signal")])
    assert not is_hollow((), [well])


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

    play(story())


def test_a_job_without_a_process_on_any_node_is_ended_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hollow_jobs, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(hollow_jobs, "quiet_needed", lambda seconds: 0.01)

    async def story() -> None:
        slurm = OneJob()
        controller = Controller(tmp_path, slurm)
        attempt = controller.add(1, "running", nodes=NODES)

        async def looks() -> None:
            for _ in range(4):
                attempt.looked_at = attempt.counted_at = float("-inf")
                assert not await controller.follower.poll(attempt)
                await asyncio.sleep(0.03)

        controller.processes = dict.fromkeys(NODES, 0)
        write_launch(attempt.directory, NODES[0])
        await looks()
        assert slurm.cancelled == [], "the step is still being started on the other node"
        write_launch(attempt.directory, NODES[1])
        controller.processes = {NODES[0]: 0}
        await looks()
        assert slurm.cancelled == [], "one node does not answer: unreachable is not dead"
        controller.processes = {NODES[0]: 0, NODES[1]: 1}
        await looks()
        assert slurm.cancelled == []
        controller.processes = dict.fromkeys(NODES, 0)
        attempt.stepped_at = asyncio.get_running_loop().time() + 3600
        await looks()
        assert slurm.cancelled == [], "it steps, whatever the nodes count"
        attempt.stepped_at = None
        while not slurm.cancelled:
            attempt.looked_at = float("-inf")
            assert not await controller.follower.poll(attempt)
            await asyncio.sleep(0.01)
        assert await controller.follower.poll(attempt)
        [(body,)] = controller.store.connection.execute(
            "SELECT body FROM outbox WHERE kind = 'AttemptEnded'"
        ).fetchall()
        told = json.loads(body)
        assert (told["outcome"], told["errorKind"], told["signal"]) == ("failed", "signal", 9)
        assert "every process of the job is gone" in told["error"]

    play(story())


def test_nodes_are_asked_now_and_then_and_again_once_they_counted_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hollow_jobs, "GRACE_SECONDS", 3600.0)

    async def story() -> None:
        controller = Controller(tmp_path, OneJob())
        attempt = controller.add(1, "running", nodes=NODES)
        for node in NODES:
            write_launch(attempt.directory, node)
        asked: list[int] = []
        processes = [1]

        async def alive(nodes: object, run_id: str, number: int) -> int:
            asked.append(number)
            return processes[0]

        monkeypatch.setattr(controller.follower._hollow, "_alive", alive)
        for there, times in ((1, 1), (0, 4)):
            asked.clear()
            processes[0] = there
            attempt.counted_at = float("-inf")
            for _ in range(4):
                attempt.looked_at = float("-inf")
                await controller.follower.poll(attempt)
            assert len(asked) == times

    play(story())
