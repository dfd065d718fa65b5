"""Which jobs a restart of their node has cut off."""

from __future__ import annotations

from tests.support.agent import attempt

from trainyard_agent.jobs.forced_end import cut_off


def test_a_job_that_began_after_the_node_was_off_is_not_cut_off() -> None:
    assert cut_off(attempt(running_since=1.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=3.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=1.0), "ip-2", 2.0)
    assert not cut_off(attempt(state="submitted", running_since=1.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=1.0, cut_off_from="ip-1"), "ip-1", 2.0)
