"""People's queued jobs are counted and named, never taken for ours; a silent Slurm changes none."""

from __future__ import annotations

import asyncio

from trainyard_agent.host.slurm import SlurmError
from trainyard_agent.jobs.other_jobs import OtherJobsWatch, parse_queue
from trainyard_contracts.heartbeats import OtherJobs

RUN = "run-01j0000000000000000000000a"
QUEUE = f"""RUNNING|None|root|{RUN}-12
PENDING|Resources|root|{RUN}-13
RUNNING|None|alice|train | with a bar
COMPLETING|None|bob|run-me
PENDING|Priority|carol|x
PENDING|JobHeldUser|dora|held by herself
PENDING|DependencyNeverSatisfied|eve|never
SUSPENDED|None|alice|{RUN}-12-mine
"""


def test_everybody_elses_jobs_are_counted_and_ours_and_held_ones_are_not() -> None:
    assert parse_queue(QUEUE) == OtherJobs(running=3, queued=1, users=["alice", "bob", "carol"])
    assert parse_queue("") == OtherJobs()


def test_names_are_as_many_as_a_sentence_holds() -> None:
    text = "".join(f"RUNNING|None|user{number:03d}|x\n" for number in range(5000))
    found = parse_queue(text)
    assert (found.running, found.users[-1], len(found.users)) == (5000, "user009", 10)


def test_a_slurm_that_does_not_answer_leaves_what_it_said_last() -> None:
    class Queue:
        answers = iter(["RUNNING|None|alice|x\n"])

        async def names_in_queue(self) -> str:
            try:
                return next(self.answers)
            except StopIteration:
                raise SlurmError("squeue did not answer within 10 s") from None

    async def go() -> OtherJobs | None:
        watch = OtherJobsWatch(Queue(), 0)  # type: ignore[arg-type]
        assert watch.latest is None
        task = asyncio.create_task(watch.watch())
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        return watch.latest

    assert asyncio.run(go()) == OtherJobs(running=1, users=["alice"])
