"""A job in an image is handed to Slurm with the digest that the run's first attempt had."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.agent_parts import JobParts, job_parts

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import attempt_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs import images
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.bundle_parts import BundleImage
from trainyard_contracts.job_bundle import JobBundle


class Slurm:
    """Takes jobs, on a cluster with Pyxis or without."""

    def __init__(self, pyxis: bool = True) -> None:
        self.pyxis, self.jobs = pyxis, 0

    async def nodes(self) -> dict[str, SlurmNode]:
        return {"ip-1": SlurmNode("ip-1", "idle", "10.0.0.1", 6818, architecture="aarch64")}

    async def has_pyxis(self) -> bool:
        return self.pyxis

    async def submit(self, options: list[str], script: str, environment: dict[str, str]) -> str:
        self.jobs += 1
        return str(100 + self.jobs)

    async def job(self, job_id: str) -> None:
        await asyncio.Event().wait()

    async def cancel(self, job_id: str, *options: str) -> None:
        pass

    async def kill(self, run_id: str, number: int, jobs: list[str]) -> dict[str, int]:
        return {}


def uri(number: int) -> str:
    return f"s3://data/runs/{RUN}/attempts/{number}/bundle.json"


def body(number: int) -> bytes:
    bundle = JobBundle(
        run_id=RUN, attempt=number, cluster_name="c", batch_script="", nodes=1,
        processes_per_node=1, program=["train.py"], image=BundleImage(name="team/train:1"),
    )  # fmt: skip
    return bundle.model_dump_json(by_alias=True).encode()


def start(directory: Path, slurm: Slurm) -> JobParts:
    settings = config(directory)
    reporter: Any = Reporter(settings, Store(directory / "outbox.sqlite"))
    s3 = SimpleNamespace(get=lambda at: body(int(at.key.split("/")[-2])))
    table = NodeTable(reporter)
    return job_parts(settings, reporter, slurm=slurm, table=table, link=slurm, s3=s3)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the registry was asked; its tag moves each time."""
    found: list[str] = []

    def ask(name: str, wanted: str) -> str:
        found.append(wanted)
        return f"sha256:{len(found) * 11:064d}"

    monkeypatch.setattr(images, "_ask", ask)
    return found


def test_a_tag_that_moves_changes_no_attempt_of_the_run(tmp_path: Path, asked: list[str]) -> None:
    async def story() -> list[str]:
        control = start(tmp_path, Slurm()).control
        said = [await control.submit(RUN, number, uri(number)) for number in (1, 1, 2)]
        return [answer.image for answer in said]

    first = f"sha256:{11:064d}"
    assert asyncio.run(asyncio.wait_for(story(), 120)) == [first] * 3
    assert asked == ["arm64"]
    for number in (1, 2):
        directory = attempt_dir(config(tmp_path), RUN, number)
        assert json.loads((directory / "job.json").read_text())["image"]["digest"] == first
        assert first.replace(":", "-") in (directory / "image.txt").read_text()


def test_without_pyxis_slurm_gets_no_job(tmp_path: Path, asked: list[str]) -> None:
    async def story() -> int:
        slurm = Slurm(pyxis=False)
        with pytest.raises(CommandRefused) as refused:
            await start(tmp_path, slurm).control.submit(RUN, 1, uri(1))
        assert refused.value.code == "image-needs-pyxis"
        return slurm.jobs

    assert asyncio.run(asyncio.wait_for(story(), 120)) == 0
    assert asked == []
