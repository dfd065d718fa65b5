"""Before a job is handed to Slurm its program's newest whole checkpoint is in its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.agent import RUN, config
from tests.support.agent_parts import JobParts, job_parts
from tests.support.foreign import archive, bundle, step_of_archive

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import attempt_dir, run_dir
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.fence import read_fence
from trainyard_agent.nodes.node_table import NodeTable


class Slurm:
    """Looks at what a job would find when it is submitted; `killed`: what was ended before."""

    def __init__(self, directory: Path) -> None:
        self.root = run_dir(config(directory), RUN)
        self.killed: list[int] = []
        self.found: list[tuple[int, int, list[int]]] = []

    async def nodes(self) -> dict[str, SlurmNode]:
        return {"ip-1": SlurmNode("ip-1", "idle", "10.0.0.1", 6818)}

    async def submit(self, options: list[str], script: str, environment: dict[str, str]) -> str:
        step = step_of_archive(self.root / "work/snapshot.pt")
        self.found.append((step, read_fence(self.root), list(self.killed)))
        return "102"

    async def job(self, job_id: str) -> None:
        await asyncio.Event().wait()

    async def cancel(self, job_id: str, *options: str) -> None:
        pass

    async def kill(self, run_id: str, number: int, jobs: list[str]) -> dict[str, int]:
        self.killed.append(number)
        return {}


def start(directory: Path, slurm: Slurm) -> JobParts:
    settings = config(directory)
    reporter: Any = Reporter(settings, Store(directory / "outbox.sqlite"))
    body = bundle(2).model_dump_json(by_alias=True).encode()
    s3 = SimpleNamespace(get=lambda _: body)
    table = NodeTable(reporter)
    return job_parts(settings, reporter, slurm=slurm, table=table, link=slurm, s3=s3)


def test_a_torn_checkpoint_is_mended_after_the_fence_and_before_sbatch(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)
    snapshot = slurm.root / "work/snapshot.pt"
    snapshot.parent.mkdir(parents=True)

    async def story() -> None:
        parts = start(tmp_path, slurm)
        first = Attempt(RUN, 1, "running", attempt_dir(config(tmp_path), RUN, 1), job_id="101")
        first.bundle = bundle(1)
        parts.attempts.save(first)
        snapshot.write_bytes(archive(5))
        await parts.control._watching.look_at(first)
        snapshot.write_bytes(archive(6)[:-9])
        uri = f"s3://data/runs/{RUN}/attempts/2/bundle.json"
        assert (await parts.control.submit(RUN, 2, uri)).job_id == "102"
        await parts.control.submit(RUN, 2, uri)

    asyncio.run(asyncio.wait_for(story(), 120))
    assert slurm.found == [(5, 2, [1])]
    assert (slurm.root / "work/.torn-attempt-1.snapshot.pt").exists()
