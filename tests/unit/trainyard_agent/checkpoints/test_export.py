"""An export's manifest counts what was exported, and tells what was left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.agent import RUN

from trainyard_agent.checkpoints.export import _manifest
from trainyard_agent.checkpoints.own_files import Found


def test_the_manifest_tells_the_output_from_the_working_directories() -> None:
    plan: Any = SimpleNamespace(last_step=20, final_model=True)
    output, working = Found(left_out=1, left_out_bytes=10), Found(left_out=2, left_out_bytes=5)
    found = _manifest(RUN, plan, [], (output, 3), (working, 4))
    assert (found.last_step, found.final_model) == (20, True)
    assert (found.output_files, found.output_left_out) == (3, 1)
    assert (found.working_files, found.working_left_out) == (4, 2)
    assert found.left_out_bytes == 15
