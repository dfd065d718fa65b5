"""The order of samples, which is the same on every number of ranks and after every resume."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.loop.data import Stream, check_batch


@given(st.integers(1, 50), st.lists(st.integers(1, 7), min_size=1, max_size=40))
def test_however_many_are_taken_at_a_time_each_sample_comes_once_a_pass(
    length: int, counts: list[int]
) -> None:
    stream = Stream(length, seed=3)
    taken = [int(sample) for count in counts for sample in stream.take(count)]
    assert stream.position == len(taken) == sum(counts)
    for start in range(0, len(taken), length):
        assert max(Counter(taken[start : start + length]).values()) == 1


def test_the_order_is_that_of_torchs_distributed_sampler() -> None:
    stream = Stream(64, seed=5)
    for epoch in range(3):
        shares = [stream.share(8, 0, 1) for _ in range(8)]
        sampler = DistributedSampler(range(64), num_replicas=1, rank=0, seed=5)
        sampler.set_epoch(epoch)
        assert torch.cat(shares).tolist() == list(sampler)


def test_the_ranks_shares_of_a_step_are_the_next_samples_of_the_stream() -> None:
    whole = Stream(100, seed=1).take(12)
    shares = [Stream(100, seed=1).share(4, rank, 3) for rank in range(3)]
    assert sorted(torch.cat(shares).tolist()) == sorted(whole.tolist())


def test_a_stream_goes_on_where_it_stood_and_not_in_the_order_of_another_seed() -> None:
    before, after = Stream(10, seed=1), Stream(10, seed=1)
    before.take(13)
    after.restore(before.state())
    assert after.take(20).tolist() == before.take(20).tolist()
    with pytest.raises(
        ConfigError,
        match=r"^seed: the checkpoint was trained with 1, this run has 2; "
        r"use 1, or start another run",
    ):
        Stream(10, seed=2).restore(before.state())


def test_more_samples_a_step_than_there_are_is_refused_with_what_would_work() -> None:
    check_batch("batch", 32, 8, 256)
    with pytest.raises(
        ValueError,
        match="batch: 32 a rank on 8 ranks need 256 samples a step, but there are 100; "
        "use at most 12",
    ):
        check_batch("batch", 32, 8, 100)
    with pytest.raises(ValueError, match="use at most 5 ranks"):
        check_batch("batch", 1, 8, 5)
