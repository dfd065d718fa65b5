"""The parts of the shared loop by themselves: the order of samples, staging, the interval between saves, configurations."""

from __future__ import annotations

import io
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from trainyard_trainers.checkpoints import interval
from trainyard_trainers.checkpoints.staging import SharedMemory, Staged, replaced
from trainyard_trainers.checkpoints.writer import content_writer
from trainyard_trainers.common import config, seeds
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.loop.data import Stream, check_batch


# -- the order of samples ------------------------------------------------------------------------
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
        match=r"^seed: the checkpoint was trained with 1, this run has 2; use 1, or start another run",
    ):
        Stream(10, seed=2).restore(before.state())


def test_more_samples_a_step_than_there_are_is_refused_with_what_would_work() -> None:
    check_batch("batch", 32, 8, 256)
    with pytest.raises(
        ValueError,
        match="batch: 32 a rank on 8 ranks need 256 samples a step, but there are 100; use at most 12",
    ):
        check_batch("batch", 32, 8, 100)
    with pytest.raises(ValueError, match="use at most 5 ranks"):
        check_batch("batch", 1, 8, 5)


# -- staging -------------------------------------------------------------------------------------
def test_a_staged_copy_stays_what_it_was_and_tied_tensors_are_copied_once() -> None:
    weight = torch.arange(12.0).view(3, 4)
    content = {
        "tied": [weight, weight],
        "turned": weight.t(),
        "half": torch.ones(5, dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "number": torch.tensor(7),
        "plain": (1, "two", None),
    }
    memory = SharedMemory()
    staged, sent = Staged(memory, content), []
    staged.start(lambda: sent.append(True))
    staged.wait()
    weight.zero_()
    found = replaced(
        staged.skeleton, lambda leaf: memory.tensor(leaf) if hasattr(leaf, "offset") else leaf
    )
    assert sent == [True]
    assert found["tied"][0].tolist() == torch.arange(12.0).view(3, 4).tolist()
    assert found["tied"][0].data_ptr() == found["tied"][1].data_ptr()
    assert found["turned"].tolist() == torch.arange(12.0).view(3, 4).t().tolist()
    assert found["half"].dtype == torch.bfloat16
    assert found["empty"].shape == (0, 3)
    assert (int(found["number"]), found["plain"]) == (7, (1, "two", None))


def test_a_checkpoint_that_does_not_fit_into_memory_is_an_error_and_not_a_crash() -> None:
    huge = torch.empty(1, dtype=torch.uint8).expand(1 << 46)
    with pytest.raises(OSError, match="bytes are needed to stage the checkpoint"):
        Staged(SharedMemory(), {"huge": huge})


# -- random numbers ------------------------------------------------------------------------------
def test_random_states_survive_a_checkpoint(tmp_path: Path) -> None:
    import random

    seeds.seed_rank(1, 2)
    torch.save(seeds.random_state(), tmp_path / "state.pt")
    drawn = (random.random(), torch.rand(3).tolist())
    seeds.restore_random_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (random.random(), torch.rand(3).tolist()) == drawn


# -- the interval between saves ------------------------------------------------------------------
@given(st.floats(0.001, 100), st.floats(10, 1e7))
def test_the_interval_is_about_youngs_and_loses_less_than_its_neighbours(
    cost: float, between: float
) -> None:
    chosen = interval.young_daly(cost, between)
    if cost > between / 10:
        assert 0 < chosen <= between * 2
        return

    def lost(seconds: float) -> float:
        """Share of time that is lost: Daly's full model, equation 20, with no time to restart."""
        return between / seconds * math.expm1((seconds + cost) / between) - 1

    assert chosen == pytest.approx(math.sqrt(2 * cost * between), rel=0.35)
    assert lost(chosen) <= lost(chosen * 1.3)
    assert lost(chosen) <= lost(chosen / 1.3)


def test_auto_begins_short_then_follows_what_saves_cost_and_never_crowds_the_writer() -> None:
    auto = interval.Interval(None, between_failures=7200)
    assert auto.seconds() == interval.FIRST_AUTO_SECONDS
    for _ in range(3):
        auto.stalled(0.25)
        auto.written(1.0)
    assert auto.seconds() == pytest.approx(60, rel=0.05)  # sqrt(2 * 0.25 * 7200)
    auto.written(500.0)
    assert auto.seconds() == 1000
    assert interval.Interval(5.0).seconds() == 5.0
    assert interval.Interval(None).seconds() is None


# -- configurations ------------------------------------------------------------------------------
@dataclass(frozen=True)
class Inner:
    layers: int = 2
    kind: Literal["mlp", "conv"] = "mlp"


@dataclass(frozen=True)
class Outer:
    data: str
    rate: float = 0.1
    limit: float | None = None
    fast: bool = False
    sizes: tuple[int, ...] = (1, 2)
    every: int | Literal["auto"] = 1
    model: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError(f"rate: {self.rate} is not above 0; use for example 0.1")


def read(*words: str) -> Outer:
    return config.build(Outer, config.read_words(Outer, words))


def test_a_configuration_comes_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", '{"data": "d", "rate": 0.5, "model": {"layers": 3}}'),
        ("a.toml", 'data = "d"\nrate = 0.5\n[model]\nlayers = 3\n'),
        ("a.yaml", "data: d\nrate: 0.5\nmodel:\n  layers: 3\n"),
    ):
        (tmp_path / name).write_text(text)
        found = read(
            "--rate",
            "0.7",
            "--config",
            str(tmp_path / name),
            "--model.kind=conv",
            "--fast",
            "--sizes",
            "4,5",
            "--every",
            "auto",
        )
        assert found == Outer("d", 0.7, None, True, (4, 5), "auto", Inner(3, "conv"))
    assert read("--data=x", "--limit", "none", "--fast", "false").limit is None
    assert read("--data=x", "--limit", "-1.5").limit == -1.5


def test_toml_on_python_3_10_takes_tomli_and_says_so_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tomllib

    (tmp_path / "a.toml").write_text("data = 'd'\n")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", tomllib)
    assert read("--config", str(tmp_path / "a.toml")).data == "d"
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(
        config.ConfigError,
        match=r"a\.toml needs Python 3\.11 or the package tomli, .* give a \.json file",
    ):
        read("--config", str(tmp_path / "a.toml"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--data", "d", "--ratte", "1"],
            "ratte: there is no such key; did you mean rate? Keys: data, every, fast",
        ),
        (
            ["--data", "d", "--model.layer", "1"],
            "model.layer: there is no such key; did you mean model.layers?",
        ),
        (["--data", "d", "--rate", "much"], "rate: 'much' is not a finite number"),
        (["--data", "d", "--model.layers", "1.5"], "model.layers: '1.5' is not a whole number"),
        (["--data", "d", "--model.kind", "cnn"], "model.kind: 'cnn' is not one of mlp, conv"),
        (["--data", "d", "--fast", "perhaps"], "fast: 'perhaps' is neither true nor false"),
        (["--data", "d", "--rate", "0"], "rate: 0.0 is not above 0; use for example 0.1"),
        (["--rate", "1"], "data: it is missing and has no default; give --data"),
        (["--data", "d", "--rate"], "rate: the value is missing; give --rate VALUE"),
        (["data"], "'data' is no option; options are --key value"),
        (["--config", "nowhere.json"], "No such file or directory: 'nowhere.json'"),
    ],
)
def test_a_key_or_value_that_does_not_fit_is_named_with_what_would(
    words: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(*words)
    assert message in str(caught.value)


# -- what is written -----------------------------------------------------------------------------
def test_of_a_view_only_its_own_numbers_are_written_and_tied_ones_once() -> None:
    whole = torch.arange(100_000.0)
    content = {
        "part": whole[10:20],
        "column": whole.view(1000, 100)[:, 3],
        "tied": whole[10:20],
        "empty": whole[:0],
    }
    alone = {
        "part": whole[10:20].clone(),
        "column": whole.view(1000, 100)[:, 3].clone(),
        "empty": torch.empty(0),
    }
    written, expected = io.BytesIO(), io.BytesIO()
    content_writer(content)(written)
    content_writer(
        {
            "part": alone["part"],
            "column": alone["column"],
            "tied": alone["part"],
            "empty": alone["empty"],
        }
    )(expected)
    assert written.getvalue() == expected.getvalue()
    assert len(written.getvalue()) < 10_000
    written.seek(0)
    found = torch.load(written, weights_only=True)
    assert all(torch.equal(found[name], tensor) for name, tensor in content.items())
    assert found["tied"].data_ptr() == found["part"].data_ptr()
