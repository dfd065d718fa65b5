"""A job powers no node up while enough others are up, and does not wait for those for ever."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, attempt

from trainyard_agent.host.slurm import SlurmError
from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt_files import sbatch_options
from trainyard_agent.jobs.powered_down import HOLD_SECONDS, PoweredDown, not_needed
from trainyard_contracts.job_bundle import JobBundle

STATIC = ("q-st-nodes-1", "q-st-nodes-2", "q-st-nodes-3")
OFF, COMING = "q-dy-nodes-1", "q-dy-nodes-2"


def bundle(**changes: Any) -> JobBundle:
    values: dict[str, Any] = {
        "run_id": RUN, "attempt": 2, "cluster_name": "c", "batch_script": "", "nodes": 2,
        "processes_per_node": 1, "program": ["x"], "partition": "q",
    }  # fmt: skip
    return JobBundle(**(values | changes))


def node(name: str, state: str) -> SlurmNode:
    return SlurmNode(name, state, "10.0.0.1", 6818, partitions=("q",))


def cluster(*states: str) -> dict[str, SlurmNode]:
    """Three static nodes in these states, one that is powered down and one on its way up."""
    pairs = [*zip(STATIC, states, strict=True)]
    pairs += [(OFF, "idle+cloud+powered_down"), (COMING, "allocated+cloud+powering_up")]
    return {name: node(name, state) for name, state in pairs}


def test_after_a_lost_node_its_survivor_and_the_spare_are_enough() -> None:
    """As Slurm has them when the next job is submitted: the survivor still ends the older one."""
    known = cluster("allocated+cloud+completing", "down+cloud", "idle+cloud")
    lost = bundle(down_nodes=[STATIC[1]])
    asked = sbatch_options(lost, Path("/a"), known, freed=STATIC[:2])
    assert f"--exclude={OFF},{COMING},{STATIC[1]}" in asked


@pytest.mark.parametrize(
    ("states", "freed"),
    [
        (("allocated+cloud", "allocated+cloud", "idle+cloud"), ()),
        (("mixed+cloud", "idle+cloud", "idle*+cloud"), ()),
        (("idle+cloud+drain", "idle+cloud", "down+cloud"), (STATIC[0],)),
    ],
)
def test_where_others_hold_the_nodes_that_are_up_machines_boot_for_the_job(
    states: tuple[str, ...], freed: tuple[str, ...]
) -> None:
    assert not_needed(bundle(), cluster(*states).values(), freed) == set()


def test_nodes_of_other_queues_are_no_reason_to_wait() -> None:
    known = cluster("down+cloud", "down+cloud", "idle+cloud")
    known["p-st-nodes-1"] = SlurmNode("p-st-nodes-1", "idle+cloud", "10.0.0.2", 6818)
    assert not any(
        option.startswith("--exclude") for option in sbatch_options(bundle(), Path("/a"), known)
    )


class Slurm:
    """Notes what a waiting job must not use."""

    def __init__(self, *, answers: bool = True) -> None:
        self.told: list[list[str]] = []
        self._answers = answers

    async def exclude(self, job_id: str, nodes: list[str]) -> bool:
        if not self._answers:
            raise SlurmError("timed out")
        self.told.append(nodes)
        return True


WAITING = Job("7", "PENDING", 0, 0, (), "Resources", excluded=(COMING, OFF, STATIC[1]))


def let_wait(slurm: Slurm, seconds: float, job: Job = WAITING, **fields: Any) -> None:
    known = cluster("allocated+cloud", "down+cloud", "idle+cloud")
    waiting = attempt(
        2,
        "submitted",
        followed_since=time.monotonic() - seconds,
        **{"bundle": bundle(down_nodes=[STATIC[1]]), **fields},
    )
    table: Any = SimpleNamespace(slurm_nodes=known)
    asyncio.run(PoweredDown(slurm, table).look_at(waiting, job))  # type: ignore[arg-type]


def test_a_job_that_waits_for_long_may_use_them_but_not_the_node_that_is_lost() -> None:
    slurm = Slurm()
    let_wait(slurm, 0)
    assert slurm.told == []
    let_wait(slurm, HOLD_SECONDS + 1)
    assert slurm.told == [[STATIC[1]]]


def test_a_node_that_slurm_does_not_know_any_more_is_not_named_to_it() -> None:
    """An update of the cluster took its queue: Slurm would refuse the whole list."""
    slurm = Slurm()
    gone = Job("7", "PENDING", 0, 0, (), "Resources", excluded=(OFF, STATIC[1], "old-st-1"))
    let_wait(slurm, HOLD_SECONDS + 1, job=gone)
    assert slurm.told == [[STATIC[1]]]


def test_what_the_control_plane_has_set_since_stays() -> None:
    slurm = Slurm()
    let_wait(slurm, HOLD_SECONDS + 1, exclusion_set=True)
    assert slurm.told == []


def test_a_slurm_that_does_not_answer_is_asked_at_the_next_look() -> None:
    let_wait(Slurm(answers=False), HOLD_SECONDS + 1)
