"""An export's manifest counts what was exported, and tells what was left out."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, commit

from trainyard_agent.checkpoints import export
from trainyard_agent.checkpoints.export import Exports, _manifest
from trainyard_agent.checkpoints.own_files import Found


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
    real, looks = export.verify, []

    def sometimes(path: Path, run_id: str) -> Any:
        looks.append(path.name)
        if len(looks) <= 2:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(path, run_id)

    monkeypatch.setattr(export, "verify", sometimes)
    plan = asyncio.run(exports._planned(tmp_path, RUN, "checkpoints", "all"))
    assert (plan.last_step, plan.final_model, len(plan.items)) == (10, True, 4)

    def never(path: Path, run_id: str) -> Any:
        if path.name == "final":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, run_id)

    monkeypatch.setattr(export, "verify", never)
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(exports._planned(tmp_path, RUN, "checkpoints", "all"))


def test_an_export_goes_on_without_a_checkpoint_that_cannot_be_read_for_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "READ_PAUSES", (0.0,))
    for step in (10, 20):
        commit(tmp_path, step)
    real = export.verify

    def bad_sector(path: Path, run_id: str) -> Any:
        if "20" in path.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, run_id)

    monkeypatch.setattr(export, "verify", bad_sector)
    plan = asyncio.run(Exports(*[None] * 5)._planned(tmp_path, RUN, "checkpoints", "last"))  # type: ignore[arg-type]
    assert plan.last_step == 10
