"""When a job is hollow: its launchers are done, and Slurm calls it running."""

from __future__ import annotations

from trainyard_agent.jobs.evidence import Launch
from trainyard_agent.jobs.hollow_jobs import is_hollow

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
