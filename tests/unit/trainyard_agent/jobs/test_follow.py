"""How often the controller looks after a job, and when training stands still."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.agent import attempt

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
