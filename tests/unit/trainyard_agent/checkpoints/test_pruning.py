"""What is removed leaves nothing, and the newest whole ones stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent import commit
from tests.unit.trainyard_agent.checkpoints.test_checkpoints import names

from trainyard_agent.checkpoints.names import order
from trainyard_agent.checkpoints.pruning import remove, removed, to_prune
from trainyard_agent.checkpoints.verifying import NotWhole, verify


def test_a_removed_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    directory = commit(tmp_path, 10)
    assert remove(directory)
    assert not remove(directory)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    with pytest.raises(NotWhole):
        verify(directory)


@given(st.dictionaries(names, st.sampled_from(["whole", "rejected"])), st.integers(0, 6))
def test_pruning_keeps_the_newest_whole_ones_and_every_rejected_one(
    known: dict[str, str], keep: int
) -> None:
    gone = to_prune(known, keep)
    whole = sorted(
        (path for path, status in known.items() if status == "whole"), key=order, reverse=True
    )
    assert all(known[path] == "whole" for path in gone)
    assert [path for path in whole if path not in gone] == whole[: max(1, keep)]


def test_a_filesystem_that_answers_with_an_error_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, gone = (
        "checkpoints/step-000000000020-attempt-1",
        "checkpoints/step-000000000010-attempt-1",
    )
    assert removed(tmp_path, {gone}, {newer}) == [gone]
    assert removed(tmp_path, {newer}, {gone}) == []

    def stale(_: Path) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(Path, "lstat", stale)
    assert removed(tmp_path, {gone}, {newer}) == []
