"""Which jobs a restart of their node has cut off, and how these end."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.support.agent import attempt
from tests.support.agent_parts import NODES, Controller, OneJob, play

from trainyard_agent.jobs.forced_end import cut_off


def test_a_job_that_began_after_the_node_was_off_is_not_cut_off() -> None:
    assert cut_off(attempt(running_since=1.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=3.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=1.0), "ip-2", 2.0)
    assert not cut_off(attempt(state="submitted", running_since=1.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=1.0, cut_off_from="ip-1"), "ip-1", 2.0)


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

    play(story())
