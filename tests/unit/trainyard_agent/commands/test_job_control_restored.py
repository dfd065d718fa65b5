"""Before a job is handed to Slurm on an empty filesystem, what was in S3 is in its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, commit, config
from tests.support.agent_parts import JobParts, job_parts
from tests.support.foreign import archive, bundle, step_of_archive
from tests.unit.trainyard_agent.checkpoints.test_sync_pass import PREFIX, Sync, checkpoint
from tests.unit.trainyard_agent.commands.test_job_control_watched import Slurm

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused
from trainyard_agent.jobs.fence import read_fence
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.bundle_parts import SyncOrder

KEY = f"runs/{RUN}/attempts/2/bundle.json"


class Cluster(Slurm):
    """Notes what the job would find."""

    async def submit(self, options: list[str], script: str, environment: dict[str, str]) -> str:
        there = (self.root / checkpoint(20) / "manifest.json").exists()
        step = step_of_archive(self.root / "work/snapshot.pt")
        self.found.append((step, read_fence(self.root), [int(there)]))
        return "102"


def start(directory: Path, sync: Sync, slurm: Cluster) -> JobParts:
    settings = config(directory)
    reporter: Any = Reporter(settings, Store(directory / "outbox.sqlite"))
    order = SyncOrder(every_seconds=5, prefix=PREFIX)
    given = bundle(2).changed(sync=order)
    sync.s3.objects[KEY] = given.model_dump_json(by_alias=True).encode()
    table = NodeTable(reporter)
    return job_parts(settings, reporter, slurm=slurm, table=table, link=slurm, s3=sync.s3)


@pytest.fixture
def sync(tmp_path: Path) -> Sync:
    """What a lost cluster had copied."""
    (tmp_path / "lost").mkdir()
    found = Sync(tmp_path / "lost")
    commit(found.root, 20)
    found.write("work/snapshot.pt", archive(5))
    found.run()
    return found


def test_an_attempt_on_an_empty_filesystem_begins_with_what_was_in_s3(
    tmp_path: Path, sync: Sync
) -> None:
    slurm = Cluster(tmp_path / "new")
    (tmp_path / "new").mkdir()

    async def story() -> None:
        parts = start(tmp_path / "new", sync, slurm)
        uri = f"s3://data/{KEY}"
        assert (await parts.control.submit(RUN, 2, uri)).job_id == "102"
        (slurm.root / "work/snapshot.pt").write_bytes(archive(9))
        await parts.control.submit(RUN, 2, uri)

    asyncio.run(asyncio.wait_for(story(), 120))
    assert slurm.found == [(5, 2, [1])]
    assert step_of_archive(slurm.root / "work/snapshot.pt") == 9, "nothing is brought twice"


def test_nothing_is_submitted_while_s3_refuses_what_the_run_should_begin_with(
    tmp_path: Path, sync: Sync
) -> None:
    slurm = Cluster(tmp_path / "new")
    (tmp_path / "new").mkdir()

    def denied(verb: str, key: str) -> None:
        if key.startswith("sync/"):
            raise Refused(403, "AccessDenied")

    async def story() -> None:
        parts = start(tmp_path / "new", sync, slurm)
        sync.s3.before = denied
        with pytest.raises(CommandRefused, match="refuses to give back") as refused:
            await parts.control.submit(RUN, 2, f"s3://data/{KEY}")
        assert refused.value.code == "restore-refused"

    asyncio.run(asyncio.wait_for(story(), 120))
    assert slurm.found == []
