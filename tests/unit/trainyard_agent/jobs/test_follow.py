"""How often the controller looks after a job, when training stands still, and what an end was."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, attempt
from tests.support.agent_parts import NODES, Controller, OneJob, play

from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.follow import (
    EAGER_POLL_SECONDS,
    POLL_SECONDS,
    poll_seconds,
    stands_still,
)


@pytest.mark.parametrize(
    ("state", "job_ended", "now", "eager"),
    [
        ("submitted", False, 9.0, True),
        ("submitted", False, 11.0, False),
        ("running", False, 9.0, False),
        ("running", True, 9.0, True),
    ],
)
def test_slurm_is_asked_often_until_the_job_runs_and_while_it_ends(
    state: str, job_ended: bool, now: float, eager: bool
) -> None:
    found = poll_seconds(attempt(1, state, eager_until=10.0, job_ended=job_ended), now)
    assert found == (EAGER_POLL_SECONDS if eager else POLL_SECONDS)


def test_a_standstill_is_one_of_a_job_that_runs_and_has_stepped() -> None:
    fields: dict[str, Any] = {"stepped_at": 10.0, "step_seconds": 1.0}
    assert stands_still(attempt(**fields), 14.0)
    assert not stands_still(attempt(**fields), 12.0)
    assert not stands_still(attempt(**fields, doubted_at=10.0), 14.0)
    assert not stands_still(attempt(**fields, job_ended=True), 14.0)
    assert not stands_still(attempt(state="submitted", **fields), 14.0)
    assert not stands_still(attempt(), 14.0)


def test_of_a_program_whose_log_says_the_steps_a_standstill_takes_longer() -> None:
    fields: dict[str, Any] = {"said_at": 10.0, "said_every": 30.0}
    assert not stands_still(attempt(**fields), 99.0)
    assert stands_still(attempt(**fields), 101.0)
    assert not stands_still(attempt(**fields, doubted_at=10.0), 101.0)
    assert not stands_still(attempt(said_at=10.0), 29.0)
    assert stands_still(attempt(said_at=10.0), 31.0)


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

    play(story())


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

    play(story())


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

    play(story())


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

    play(story())
