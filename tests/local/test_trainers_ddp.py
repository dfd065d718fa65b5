"""The fast data-parallel job on real ranks has the plain program's sums and weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.support import reduction_ranks
from tests.support.forked_jobs import ForkedJob, running
from tests.support.reduction_ranks import Ranks

from trainyard_trainers.common.failure import Failure
from trainyard_trainers.ddp import train as ddp

STEPS = 530  # the counters of the reduction begin anew every 512


def test_every_rank_gets_the_same_bits_of_the_plain_sum_on_every_placement_of_nodes(
    tmp_path: Path,
) -> None:
    placements = ["0000", "0001", "0112", "0101"]
    found = set()
    for nodes in placements:
        ranks = Ranks(tmp_path / nodes, list(nodes), reduction_ranks.add_up, STEPS)
        assert ranks.wait() == [0] * 4, nodes
        told = [ranks.told(rank) for rank in range(4)]
        assert [one["wrong"] for one in told] == [[]] * 4, nodes
        assert {one["kind"] for one in told} == {"Gathered" if nodes == "0101" else "Shared"}, nodes
        found |= {one["digest"] for one in told}
    assert len(found) == 1
    assert "do not follow each other" in (tmp_path / "0101" / "rank-0.log").read_text()


@pytest.mark.parametrize("lost", [1, 2])
def test_ranks_whose_peer_was_killed_fail_within_seconds_and_say_that_it_was_a_peer(
    tmp_path: Path, lost: int
) -> None:
    ranks = Ranks(tmp_path, list("001"), reduction_ranks.lose_a_rank, lost)
    codes = ranks.wait(20)
    assert codes == [-9 if rank == lost else 1 for rank in range(3)]
    for rank in {0, 1, 2} - {lost}:
        error = ranks.told(rank)["error"]
        assert Failure(1, rank=rank, error=error).kind == "peer", error


def test_the_weights_are_those_of_the_plain_program(tmp_path: Path) -> None:
    arguments = ["--steps", "150", "--noise", "0", "--seed", "3"]
    plain = Ranks(tmp_path, list("00"), reduction_ranks.plain, 150, 3)
    with running(ForkedJob(tmp_path / "run", 1, ddp.main, (arguments,))) as job:
        assert job.wait() == [0, 0], job.log()
        assert "gloo" not in job.log()
    assert plain.wait() == [0, 0]
    expected, found = (
        torch.load(tmp_path / "plain.pt"),
        torch.load(tmp_path / "run" / "final" / "model.pt"),
    )
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].shape == expected[name].shape
        assert float((found[name] - expected[name]).abs().max()) <= 1e-6


def test_a_run_killed_in_the_middle_of_a_block_of_batches_ends_with_the_bits_of_one_that_was_not(
    tmp_path: Path,
) -> None:
    arguments = ["--steps", "200", "--step-seconds", "0.002"]
    often = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "5"}
    with running(ForkedJob(tmp_path / "whole", 1, ddp.main, (arguments,))) as whole:
        assert whole.wait() == [0, 0], whole.log()
    slow = ["--steps", "200", "--step-seconds", "0.03"]
    with running(ForkedJob(tmp_path / "run", 1, ddp.main, (slow,), environment=often)) as killed:
        killed.until(
            "a checkpoint after the first block",
            lambda: [path for path in killed.checkpoints.glob("step-*") if steps_of(path) > 70],
        )
        killed.kill()
    with running(ForkedJob(tmp_path / "run", 2, ddp.main, (arguments,))) as last:
        assert last.wait() == [0, 0], last.log()
        assert "training resumes after step" in last.log()
    assert (tmp_path / "run/final/model.pt").read_bytes() == (
        tmp_path / "whole/final/model.pt"
    ).read_bytes()


def steps_of(checkpoint: Path) -> int:
    return int(checkpoint.name[5:17])
