"""Ranks of a node share weights and AdamW's state: the same bits for all, as torch's AdamW."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import reduction_ranks
from tests.support.reduction_ranks import Ranks

SHAPES = [
    [300, 257],
    [5],
    [1],
    [64, 3, 2],
]  # more than one slice at once, and not a multiple of anything


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("world", [2, 3])
def test_every_rank_sees_the_weights_that_torch_makes_of_the_mean_gradient(
    tmp_path: Path, world: int, clip: float
) -> None:
    ranks = Ranks(tmp_path, ["0"] * world, reduction_ranks.update, SHAPES, 8, clip)
    assert ranks.wait() == [0] * world, (tmp_path / "rank-0.log").read_text()
    told = [ranks.told(rank) for rank in range(world)]
    assert all(
        one["shared"] and len(one["digests"]) == 8 and one["error"] < 1e-5 and not one["early"]
        for one in told
    ), told
    assert len({tuple(one["digests"]) for one in told}) == 1
    assert len(set(told[0]["digests"])) == 8


def test_fewer_numbers_than_ranks_are_updated_too(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, list("000"), reduction_ranks.update, [[1], [1]], 3, 1.0)
    assert ranks.wait() == [0] * 3, (tmp_path / "rank-0.log").read_text()
    assert [ranks.told(rank)["error"] < 1e-5 for rank in range(3)] == [True] * 3


def test_ranks_of_several_nodes_share_nothing_and_say_nothing_of_it(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, list("0011"), reduction_ranks.update, SHAPES, 2, 1.0)
    assert ranks.wait() == [0] * 4
    assert [ranks.told(rank)["shared"] for rank in range(4)] == [False] * 4
    assert "gloo, which is slower" not in (tmp_path / "rank-0.log").read_text()


def test_a_rank_that_may_not_open_the_memory_sends_all_to_gloo_and_says_so(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, list("000"), reduction_ranks.update, SHAPES, 2, 1.0, 2)
    assert ranks.wait() == [0] * 3
    assert [ranks.told(rank)["shared"] for rank in range(3)] == [False] * 3
    assert (
        "gloo, which is slower: rank 2: not allowed to open it"
        in (tmp_path / "rank-0.log").read_text()
    )
