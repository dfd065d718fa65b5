"""The data-parallel job's batches keep the sampler's order; a resume loses or repeats no sample."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from trainyard_trainers.common import seeds
from trainyard_trainers.common.config import ConfigError, build
from trainyard_trainers.ddp.train import BATCH, FEATURES, SAMPLES, Batches, DdpConfig, make_samples


def taken(batches: Batches, steps: int) -> list[torch.Tensor]:
    """What training sees: inputs with the bias's column, and targets as one more."""
    found = []
    for _ in range(steps):
        inputs, transposed, targets = batches.next()
        assert torch.equal(inputs.t(), transposed)
        found.append(torch.cat([inputs, targets[:, None]], dim=1).clone())
    return found


def test_batches_are_those_of_the_distributed_sampler_epoch_after_epoch() -> None:
    inputs, targets = make_samples(5)
    for rank in range(4):
        batches = Batches(5, 0.0, rank, 4)
        sampler: DistributedSampler[int] = DistributedSampler(
            range(SAMPLES), num_replicas=4, rank=rank, seed=5
        )  # type: ignore[arg-type]
        for epoch in range(3):
            sampler.set_epoch(epoch)
            order = torch.tensor(list(sampler)).split(BATCH)
            for chosen, found in zip(order, taken(batches, len(order)), strict=True):
                assert torch.equal(found[:, :FEATURES], inputs[chosen])
                assert torch.equal(found[:, FEATURES], torch.ones(BATCH))
                assert torch.equal(found[:, FEATURES + 1 :], targets[chosen])


@settings(max_examples=15, deadline=None)
@given(before=st.integers(0, 150), world_size=st.integers(1, 5), rank=st.integers(0, 4))
def test_batches_resumed_at_any_step_go_on_with_the_same_bits(
    before: int, world_size: int, rank: int
) -> None:
    rank %= world_size
    seeds.seed_rank(7, rank)
    batches = Batches(7, 0.01, rank, world_size)
    taken(batches, before)
    state = batches.state()
    expected = taken(batches, 80)
    seeds.restore_random_state(state["random"])  # type: ignore[arg-type]
    resumed = Batches(7, 0.01, rank, world_size)
    resumed.restore(state, same_ranks=True)
    assert resumed.state()["position"] == before * BATCH * world_size
    assert all(
        torch.equal(one, other) for one, other in zip(expected, taken(resumed, 80), strict=True)
    )


@settings(max_examples=10, deadline=None)
@given(before=st.integers(0, 100), first=st.integers(1, 4), second=st.integers(1, 4))
def test_batches_resumed_on_other_ranks_neither_repeat_nor_skip_a_sample(
    before: int, first: int, second: int
) -> None:
    batches = [Batches(7, 0.0, rank, first) for rank in range(first)]
    for one in batches:
        taken(one, before)
    state = batches[0].state()
    resumed = [Batches(7, 0.0, rank, second) for rank in range(second)]
    for one in resumed:
        one.restore(state, same_ranks=False)
    found = torch.stack([torch.stack(taken(one, 20)) for one in resumed], dim=2).view(
        -1, FEATURES + 2
    )
    whole = Batches(7, 0.0, 0, 1)
    due = torch.cat(taken(whole, before * first + 20 * second))[before * first * BATCH :]
    assert torch.equal(found, due)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rate": -1}, "^learning_rate: -1.0 must be above 0"),
        ({"momentum": 1}, "^momentum: 1.0 must be at least 0 and below 1"),
        ({"noise": -0.1}, "^noise: -0.1 is negative; use 0 or more"),
    ],
)
def test_a_value_that_cannot_train_is_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(DdpConfig, values)
