"""When a job is hollow: its launchers are done, and Slurm calls it running; how it ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.agent_parts import NODES, Controller, OneJob, play, write_launch

from trainyard_agent.jobs import hollow_jobs
from trainyard_agent.jobs.hollow_jobs import is_hollow
from trainyard_contracts.files import LaunchReport as Launch

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
