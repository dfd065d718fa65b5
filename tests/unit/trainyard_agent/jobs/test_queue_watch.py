"""When people are told who is in an attempt's way."""

from __future__ import annotations

from tests.support.agent import attempt

from trainyard_agent.jobs.queue_watch import TELL_QUEUE_SECONDS, worth_telling
from trainyard_contracts.attempt_events import JobAhead


def test_who_is_in_the_way_is_told_when_it_changed_and_not_all_the_time() -> None:
    waiting = attempt(state="submitted", queue_told_at=0.0)
    others = [JobAhead(job_id="7", user="a", nodes=[])]
    assert worth_telling(waiting, others, TELL_QUEUE_SECONDS)
    assert not worth_telling(waiting, others, TELL_QUEUE_SECONDS - 1.0)
