"""An export's manifest counts what was exported, and tells what was left out."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, commit, config
from tests.support.agent_s3 import AgentS3

from trainyard_agent.checkpoints import export, export_plan
from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.export import Exports, _manifest
from trainyard_agent.checkpoints.own_files import Found
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.locations import Location
from trainyard_agent.jobs.attempts import Attempts


def test_the_manifest_tells_the_output_from_the_working_directories() -> None:
    plan: Any = SimpleNamespace(last_step=20, final_model=True)
    output, working = Found(left_out=1, left_out_bytes=10), Found(left_out=2, left_out_bytes=5)
    found = _manifest(RUN, plan, [], (output, 3), (working, 4))
    assert (found.last_step, found.final_model) == (20, True)
    assert (found.output_files, found.output_left_out) == (3, 1)
    assert (found.working_files, found.working_left_out) == (4, 2)
    assert found.left_out_bytes == 15


def test_an_export_waits_for_what_cannot_be_read_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "READ_PAUSES", (0.0, 0.0))
    commit(tmp_path, 10)
    commit(tmp_path, 20).rename(tmp_path / "final")
    exports = Exports(*[None] * 5)  # type: ignore[arg-type]
    real, looks = export_plan.verify, []

    def sometimes(path: Path, run_id: str) -> Any:
        looks.append(path.name)
        if len(looks) <= 2:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(path, run_id)

    monkeypatch.setattr(export_plan, "verify", sometimes)
    plan = asyncio.run(exports._planned(tmp_path, RUN, "checkpoints", "all"))
    assert (plan.last_step, plan.final_model, len(plan.items)) == (10, True, 4)

    def never(path: Path, run_id: str) -> Any:
        if path.name == "final":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, run_id)

    monkeypatch.setattr(export_plan, "verify", never)
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(exports._planned(tmp_path, RUN, "checkpoints", "all"))


def test_an_export_goes_on_without_a_checkpoint_that_cannot_be_read_for_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "READ_PAUSES", (0.0,))
    for step in (10, 20):
        commit(tmp_path, step)
    real = export_plan.verify

    def bad_sector(path: Path, run_id: str) -> Any:
        if "20" in path.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, run_id)

    monkeypatch.setattr(export_plan, "verify", bad_sector)
    plan = asyncio.run(Exports(*[None] * 5)._planned(tmp_path, RUN, "checkpoints", "last"))  # type: ignore[arg-type]
    assert plan.last_step == 10


class Synced:
    """A sync that holds some objects, and hears how the export went."""

    def __init__(self, *bodies: bytes) -> None:
        names = [hashlib.sha256(body).hexdigest() for body in bodies]
        self.held = {name: Location("data", f"sync/c/{RUN}/{name}") for name in names}
        self.calls: list[Any] = []

    async def hold(self, run_id: str) -> dict[str, Location]:
        self.calls.append("hold")
        return self.held

    async def release(self, run_id: str, exported: Any) -> None:
        self.calls.append(exported and exported.last_step)


def an_export(directory: Path, s3: AgentS3, synced: Synced) -> None:
    async def story() -> None:
        settings = config(directory)
        store = Store(directory / "outbox.sqlite")
        reporter = Reporter(settings, store)
        attempts = Attempts(settings, reporter)
        checkpoints = Checkpoints(settings, attempts, reporter)
        asked: Any = s3
        exports = Exports(settings, attempts, checkpoints, reporter, asked, syncing=synced)
        exports.start(RUN, "e-1", f"s3://data/runs/{RUN}/export", "all")
        while exports._running:
            await asyncio.wait(list(exports._running.values()))
            await asyncio.sleep(0)
        checkpoints.close()
        store.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_was_synced_is_copied_by_s3_and_the_rest_is_sent(tmp_path: Path) -> None:
    root, s3, synced = run_dir(config(tmp_path), RUN), AgentS3(), Synced(b"weights", b"is lost")
    commit(root, 10)
    (root / "output").mkdir()
    (root / "output/lost").write_bytes(b"is lost")
    (root / "output/new").write_bytes(b"new")
    s3.objects[synced.held[hashlib.sha256(b"weights").hexdigest()].key] = b"weights"
    an_export(tmp_path, s3, synced)
    top = f"runs/{RUN}/export"
    step = f"{top}/checkpoints/step-000000000010-attempt-1"
    assert s3.copied == [f"{step}/rank-0/model.pt"]
    assert {f"{top}/output/lost", f"{top}/output/new", f"{step}/manifest.json"} <= {*s3.puts}
    assert s3.puts[-1] == f"{top}/export-manifest.json"
    assert s3.objects[f"{step}/rank-0/model.pt"] == b"weights"
    assert synced.calls == ["hold", 10]


def test_an_export_that_fails_lets_the_sync_go_on_with_what_it_has(tmp_path: Path) -> None:
    def denied(verb: str, key: str) -> None:
        raise Refused(403, "AccessDenied")

    commit(run_dir(config(tmp_path), RUN), 10)
    s3, synced = AgentS3(), Synced()
    s3.before = denied
    an_export(tmp_path, s3, synced)
    assert synced.calls == ["hold", None]
