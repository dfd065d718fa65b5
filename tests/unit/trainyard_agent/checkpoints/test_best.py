"""The best checkpoint is neither pruned nor left out of an export; a bad file keeps nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, commit

from trainyard_agent.checkpoints import best
from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.export_plan import make_plan
from trainyard_contracts import places
from trainyard_job.checkpoints.checkpoint import checkpoint_name
from trainyard_job.common import places as trainers_places

BEST = checkpoint_name(10, 1)


def say(root: Path, *names: object) -> None:
    (root / places.BEST).write_text(json.dumps({"best": {}, "keep": list(names)}))


def surplus(root: Path, *old: str) -> list[str]:
    agent: Any = SimpleNamespace(_pool=None)
    return asyncio.run(Checkpoints._surplus(agent, root, list(old)))


def test_the_trainer_and_the_agent_mean_the_same_file() -> None:
    assert trainers_places.BEST == places.BEST


def test_the_best_checkpoint_is_not_pruned(tmp_path: Path) -> None:
    old = [f"checkpoints/{checkpoint_name(step, 1)}" for step in (20, 10)]
    assert surplus(tmp_path, *old) == old
    say(tmp_path, BEST)
    assert surplus(tmp_path, *old) == old[:1]


@pytest.mark.parametrize(
    "content",
    ["", "7", "{}", '{"keep": 5}', '{"keep": [1, null, "../../etc"]}', "[" * 5000, '{"keep": {}}'],
)
def test_a_file_that_is_no_such_file_keeps_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / places.BEST).write_text(content)
    assert best.names(tmp_path) == frozenset()


def test_no_more_than_two_can_be_kept_and_no_link_is_followed(tmp_path: Path) -> None:
    say(tmp_path, *(checkpoint_name(step, 1) for step in range(5)))
    assert best.names(tmp_path) == {checkpoint_name(0, 1), checkpoint_name(1, 1)}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / places.BEST).symlink_to(tmp_path / places.BEST)
    assert best.names(tmp_path / "run") == frozenset()


def test_while_the_file_cannot_be_read_nothing_is_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(best, "read_small", fails)
    assert surplus(tmp_path, "checkpoints/" + BEST) == []


def test_an_export_of_the_last_checkpoint_has_the_best_one_too(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        commit(tmp_path, step)
    assert set(make_plan(tmp_path, RUN, "checkpoints", "last").steps.values()) == {30}
    say(tmp_path, BEST)
    plan = make_plan(tmp_path, RUN, "checkpoints", "last")
    assert set(plan.steps.values()) == {10, 30}
    assert plan.last_step == 30
