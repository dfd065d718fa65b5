"""Gradients averaged in the memory of a node are the mean, the same bits on every rank, whoever is late."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import reduction_ranks
from tests.support.reduction_ranks import Ranks

pytestmark = pytest.mark.local
SHAPES = [[300, 257], [5], [1], [64, 3, 2]]  # more than one slice at once, and not a multiple of anything


@pytest.mark.parametrize("groups", [[[0, 1, 2]], [[0, 2], [1, 3]], [[0], [1]]])
def test_every_rank_of_a_group_has_the_mean_for_itself(tmp_path: Path, groups: list[list[int]]) -> None:
    world = sum(map(len, groups))
    ranks = Ranks(tmp_path, ["0"] * world, reduction_ranks.average, SHAPES, groups, 8)
    assert ranks.wait() == [0] * world, (tmp_path / "rank-0.log").read_text()
    told = [ranks.told(rank) for rank in range(world)]
    assert all(one["shared"] and len(one["digests"]) == 8 and one["error"] < 1e-6 for one in told), told
    for members in groups:
        assert len({tuple(told[rank]["digests"]) for rank in members}) == 1


def test_fewer_numbers_than_ranks_are_averaged_too(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, list("000"), reduction_ranks.average, [[1], [1]], [[0, 1, 2]], 3)
    assert ranks.wait() == [0] * 3, (tmp_path / "rank-0.log").read_text()
    assert [ranks.told(rank)["error"] < 1e-6 for rank in range(3)] == [True] * 3


def test_ranks_of_several_nodes_share_nothing_and_say_nothing_of_it(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, list("0011"), reduction_ranks.average, SHAPES, [[0, 1], [2, 3]], 2)
    assert ranks.wait() == [0] * 4
    assert [ranks.told(rank)["shared"] for rank in range(4)] == [True] * 4  # each group is on one node
    ranks = Ranks(tmp_path, list("0011"), reduction_ranks.average, SHAPES, [[0, 2], [1, 3]], 2)
    assert ranks.wait() == [0] * 4
    assert [ranks.told(rank)["shared"] for rank in range(4)] == [False] * 4
    assert "gloo, which is slower" not in (tmp_path / "rank-0.log").read_text()


def test_a_rank_that_may_not_open_the_memory_sends_its_group_to_gloo_and_says_so(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, list("0000"), reduction_ranks.average, SHAPES, [[0, 1], [2, 3]], 2, 3)
    assert ranks.wait() == [0] * 4
    assert [ranks.told(rank)["shared"] for rank in range(4)] == [True, True, False, False]
    assert "gloo, which is slower: rank 3: not allowed to open it" in (tmp_path / "rank-2.log").read_text()
