"""The next agent finishes what was cut short: a submission, and the cancel of older jobs."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.agent_parts import (
    Controller,
    OneJob,
    job_parts,
    play,
)
from tests.support.repositories import Repository
from tests.support.trees import TreeS3, packed

from trainyard_agent.commands import job_control as jobs
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import attempt_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.job_secrets import SecretRefused
from trainyard_agent.host.slurm import SlurmError
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs import unpacker, unpacking
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempt_files import BadBundle
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.bundle_parts import BundleCode, BundleGit
from trainyard_contracts.commands import Cancelling
from trainyard_contracts.job_bundle import JobBundle


class Slurm:
    """Has the job that the interrupted agent submitted."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def nodes(self) -> dict[str, SlurmNode]:
        return {name: SlurmNode(name, "allocated", "10.0.0.1", 6818) for name in ("ip-1", "ip-2")}

    async def set_node(self, name: str, state: str, reason: str | None = None) -> None:
        self.calls.append(("set", name, state))

    async def jobs_named(self, name: str) -> list[str]:
        self.calls.append(("look for", name))
        return ["42"]

    async def job(self, job_id: str) -> None:
        await asyncio.sleep(60)


class ServingNodes(NodeTable):
    """Those that serve are the test's."""

    def __init__(self, reporter: Reporter, serving: tuple[str, ...]) -> None:
        super().__init__(reporter)
        self._serving = serving

    def serving(self, name: str) -> bool:
        return name in self._serving


def after_a_crash(
    directory: Path, *serving: str, remembered: bool = True
) -> tuple[list[tuple[str, ...]], Attempt]:
    """What a new agent does about attempt 2, which the old agent was submitting; ip-1 is lost."""
    settings = config(directory)
    attempt = Attempt(RUN, 2, "submitting", attempt_dir(settings, RUN, 2))
    attempt.directory.mkdir(parents=True)
    bundle = JobBundle(
        run_id=RUN,
        attempt=2,
        cluster_name="c",
        batch_script="",
        nodes=1,
        processes_per_node=1,
        program=["x"],
        down_nodes=["ip-1"],
    )
    (attempt.directory / "bundle.json").write_text(bundle.model_dump_json(by_alias=True))

    async def story() -> list[tuple[str, ...]]:
        slurm: Any = Slurm()
        table = ServingNodes(Reporter(settings, Store(directory / "nodes.sqlite")), serving)
        reporter = Reporter(settings, Store(directory / "outbox.sqlite"))
        parts = job_parts(settings, reporter, slurm=slurm, table=table)
        attempts = parts.attempts
        if remembered:
            first = attempt_dir(settings, RUN, 1)
            attempts.save(Attempt(RUN, 1, "ended", first, nodes=("ip-1",)))
            attempts.save(attempt)
        parts.control.resume()
        while attempts.known[RUN, 2].state == "submitting":
            await asyncio.sleep(0)
        attempt.state, attempt.job_id = attempts.known[RUN, 2].state, attempts.known[RUN, 2].job_id
        return list(slurm.calls)

    return asyncio.run(asyncio.wait_for(story(), 60)), attempt


def test_its_lost_node_is_set_down_before_its_job_is_taken_up(tmp_path: Path) -> None:
    calls, attempt = after_a_crash(tmp_path)
    assert calls[:2] == [("set", "ip-1", "down"), ("look for", f"{RUN}-2")]
    assert (attempt.state, attempt.job_id) == ("submitted", "42")


def test_a_node_that_serves_again_by_then_stays_up(tmp_path: Path) -> None:
    calls, attempt = after_a_crash(tmp_path, "ip-1")
    assert calls[:1] == [("look for", f"{RUN}-2")]
    assert attempt.state == "submitted"


def test_an_agent_that_lost_its_memory_finds_the_job_of_each_runs_newest_attempt(
    tmp_path: Path,
) -> None:
    older = attempt_dir(config(tmp_path), RUN, 1)
    older.mkdir(parents=True)
    (older / "bundle.json").write_text("{}")
    calls, attempt = after_a_crash(tmp_path, "ip-1", remembered=False)
    assert calls == [("look for", f"{RUN}-2")]
    assert (attempt.state, attempt.job_id) == ("submitted", "42")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "FIRST_PAUSE_SECONDS", 0.001)


class BusySlurm:
    """A slurmctld that answers only from the third call on."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.cancelled = asyncio.Event()

    async def cancel(self, job_id: str, *options: str) -> None:
        self.calls.append((job_id, *options))
        if len(self.calls) < 3:
            raise SlurmError("Unable to contact slurm controller")
        self.cancelled.set()


def test_a_cancel_that_slurm_does_not_take_is_repeated_until_it_does(tmp_path: Path) -> None:
    async def story() -> None:
        slurm = BusySlurm()
        controller = Controller(tmp_path, slurm)
        controller.add(1, "submitted")
        assert await controller.jobs.cancel(RUN) == Cancelling("cancelling")
        await slurm.cancelled.wait()
        assert slurm.calls == [("101",)] * 3

    play(story())


def test_a_job_whose_nodes_are_powered_up_is_cancelled_at_once(tmp_path: Path) -> None:
    """It has no process yet that a signal could reach, and its nodes may take half an hour."""

    async def story() -> None:
        slurm = BusySlurm()
        controller = Controller(tmp_path, slurm)
        controller.add(1, "running")
        controller.attempts.known[RUN, 1].job_state = "CONFIGURING"
        assert await controller.jobs.cancel(RUN) == Cancelling("cancelling")
        await slurm.cancelled.wait()
        assert set(slurm.calls) == {("101",)}

    play(story())


def test_after_a_restart_the_jobs_of_older_attempts_are_still_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        before = Controller(tmp_path)
        before.add(1, "running")
        before.add(2, "submitted")
        before.store.close()
        slurm = BusySlurm()
        after = Controller(tmp_path, slurm)
        after.jobs.resume()
        await slurm.cancelled.wait()
        assert {call[0] for call in slurm.calls} == {"101"}

    play(story())


def test_a_new_job_that_has_the_older_ones_number_is_not_cancelled_with_it(tmp_path: Path) -> None:
    """A slurmctld that crashed before it saved its state counts on from an older job."""

    async def story() -> None:
        slurm = OneJob()
        controller = Controller(tmp_path, slurm)
        for number in (1, 2):
            controller.attempts.save(
                Attempt(RUN, number, "submitted", tmp_path / str(number), job_id="8")
            )
        await controller.jobs._cancel_older(RUN)
        assert slurm.cancelled == []

    play(story())


def test_a_submit_that_comes_while_the_upload_is_fetched_waits_for_it_and_hands_in_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacker, "sync", lambda directory: None)
    tree, packs = packed({"train.py": b"print()\n"})
    s3: Any = TreeS3(tree, packs, prefix="runs/r/code")
    may, handed_in = threading.Event(), []
    s3.before = lambda key: may.wait(60)
    bundle = JobBundle(
        run_id=RUN, attempt=1, cluster_name="c", batch_script="", nodes=1, processes_per_node=1,
        program=["train.py"], code=BundleCode(tree=s3.id, prefix="runs/r/code"),
    )  # fmt: skip
    s3.get = lambda at: bundle.model_dump_json(by_alias=True).encode()

    class Takes(Slurm):
        async def submit(self, *given: Any) -> str:
            work = tmp_path / "shared/trainyard/runs" / RUN / "work/train.py"
            handed_in.append(work.read_bytes())
            return "7"

    async def story() -> None:
        settings, slurm = config(tmp_path), Takes()
        reporter = Reporter(settings, Store(tmp_path / "outbox.sqlite"))
        control = job_parts(
            settings, reporter, slurm=slurm, table=NodeTable(reporter), s3=s3
        ).control
        uri = f"s3://data/runs/{RUN}/attempts/1/bundle.json"
        with pytest.raises(BadBundle, match="another code"):
            await control.submit(RUN, 1, uri)
        monkeypatch.setattr(unpacking, "WAIT_SECONDS", 0.0)
        with pytest.raises(CommandRefused, match="is still being fetched"):
            await control.submit(RUN, 1, uri, code=s3.id)
        assert (await control.cancel(RUN)).state == "none", "a cancel does not wait for it"
        monkeypatch.setattr(unpacking, "WAIT_SECONDS", 60.0)
        both = [asyncio.create_task(control.submit(RUN, 1, uri, code=s3.id)) for _ in range(2)]
        may.set()
        assert [(await one).job_id for one in both] == ["7", "7"]

    play(story())
    assert handed_in == [b"print()\n"]


@pytest.mark.real
def test_a_commit_is_fetched_as_the_bundle_says_that_was_written(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "shared/r.git")
    commit = repository.commit({"train.py": b"print()\n"})
    asked = BundleGit(url=str(repository.path), ref="main", prefix="runs/r/fetched")
    bundle = JobBundle(
        run_id=RUN, attempt=1, cluster_name="c", batch_script="", nodes=1, processes_per_node=1,
        program=["train.py"], git=asked,
    )  # fmt: skip
    body = bundle.model_dump_json(by_alias=True).encode()
    sent: list[str] = []
    s3: Any = SimpleNamespace(
        get=lambda at: body,
        head=lambda at: None,
        put_file=lambda at, path, known: sent.append(at.key),
    )

    async def story() -> None:
        settings = config(tmp_path)
        reporter = Reporter(settings, Store(tmp_path / "outbox.sqlite"))
        control = job_parts(settings, reporter, table=NodeTable(reporter), s3=s3).control
        uri = f"s3://data/runs/{RUN}/attempts/1/bundle.json"
        with pytest.raises(CommandRefused, match="was overwritten"):
            await control.checkout(RUN, 1, uri, "0" * 64)
        found = await control.checkout(RUN, 1, uri, hashlib.sha256(body).hexdigest())
        assert (found.commit, found.files, found.bytes) == (commit, 1, 8)
        assert sorted(sent)[0].startswith("runs/r/fetched/")
        assert f"runs/r/fetched/{found.tree}" in sent

    play(story())


def test_a_job_whose_secret_cannot_be_read_is_not_submitted(tmp_path: Path) -> None:
    class Bucket:
        def get(self, _: object) -> bytes:
            bundle = JobBundle(
                run_id=RUN,
                attempt=1,
                cluster_name=config(tmp_path).cluster_name,
                batch_script="",
                nodes=1,
                processes_per_node=1,
                program=["x"],
                secrets={"TOKEN": "jobs/x"},
            )
            return bundle.model_dump_json(by_alias=True).encode()

    class NoSecret:
        def read(self, wanted: dict[str, str]) -> dict[str, str]:
            raise SecretRefused(f"there is no secret '{wanted['TOKEN']}'")

    async def story() -> None:
        reporter = Reporter(config(tmp_path), Store(tmp_path / "outbox.sqlite"))
        parts = job_parts(config(tmp_path), reporter, s3=Bucket(), secrets=NoSecret())
        with pytest.raises(CommandRefused, match="there is no secret 'jobs/x'") as no:
            await parts.control.submit(RUN, 1, "s3://bucket/bundle.json")
        assert no.value.code == "secret-refused"
        assert parts.attempts.known == {}

    asyncio.run(asyncio.wait_for(story(), 60))
    assert not attempt_dir(config(tmp_path), RUN, 1).exists()
