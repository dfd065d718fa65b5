"""The nxd backend against a small fake of its calls; no Trainium has ever run these tests."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.support import fake_nxd
from tests.support import nxd_samples as samples

from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.common.packages import PackageMissing
from trainyard_trainers.llm.model import Llama
from trainyard_trainers.parallel import nxd_layout
from trainyard_trainers.parallel.backend import (
    Backend,
    BuildConfig,
    OptimizerConfig,
    ParallelConfig,
)
from trainyard_trainers.parallel.nxd_backend import NxdBackend, require_packages
from trainyard_trainers.parallel.torch_backend import TorchBackend

FULL = samples.weights()
NXD = ParallelConfig(backend="nxd")
OPTIMIZER = OptimizerConfig(learning_rate=0.01, clip=0.5)
TOKENS = torch.randint(64, (2, 17), generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module", autouse=True)
def _group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path_factory.mktemp("store") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def _flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_CC_FLAGS", "--model-type=transformer")


def started(
    backend: Backend, model: Any = samples.TINY, optimizer: OptimizerConfig = OPTIMIZER
) -> Any:
    """A model with the sample's weights."""
    built = backend.build(lambda: Llama(model, backend), BuildConfig(), optimizer)
    full = samples.weights(model)
    backend.initialise(lambda name, tp, size: samples.local(name, full[name], tp, size))
    return built


def stepped(backend: Backend, model: Any, rate: float, *, micro: int = 1) -> tuple[float, float]:
    """(loss, gradient norm) of a step on the same tokens, one of them not counted."""
    total = 0.0
    targets = TOKENS[:, 1:].clone()
    targets[0, 3] = -100
    for number, (tokens, wanted) in enumerate(
        zip(TOKENS[:, :-1].chunk(micro), targets.chunk(micro), strict=True), 1
    ):
        with backend.forwarding(last=number == micro):
            loss = model(tokens, wanted) / 31
        backend.backward(loss, last=number == micro)
        total += float(loss.detach())
    return total, backend.step(rate)


@pytest.mark.parametrize("data", ["ddp", "zero1"])
@pytest.mark.parametrize("tied", [False, True])
def test_one_rank_trains_as_the_torch_backend_does(
    monkeypatch: pytest.MonkeyPatch, data: Any, tied: bool
) -> None:
    """Losses, norms before clipping, learning rates, micro-batches, and targets not counted."""
    world, model = fake_nxd.World(), replace(samples.TINY, tie_word_embeddings=tied)
    fake_nxd.install(monkeypatch, world)
    nxd, plain = NxdBackend(replace(NXD, data=data)), TorchBackend(ParallelConfig(data="ddp"))
    ours, theirs = started(nxd, model), started(plain, model)
    for rate, micro in ((0.01, 1), (0.002, 2), (0.03, 1)):
        marks = world.mark_steps
        assert stepped(nxd, ours, rate, micro=micro) == pytest.approx(
            stepped(plain, theirs, rate, micro=micro), rel=1e-5
        )
        assert world.mark_steps - marks == micro
    assert world.config is not None
    assert world.config["mixed_precision_config"]["use_master_weights"] is False


@pytest.mark.parametrize("data", ["ddp", "zero1"])
def test_clip_zero_still_tells_the_norm(monkeypatch: pytest.MonkeyPatch, data: Any) -> None:
    fake_nxd.install(monkeypatch, fake_nxd.World())
    nxd, plain = NxdBackend(replace(NXD, data=data)), TorchBackend(ParallelConfig())
    free = replace(OPTIMIZER, clip=0.0)
    ours, theirs = started(nxd, optimizer=free), started(plain, optimizer=free)
    for _ in range(2):
        assert stepped(nxd, ours, 0.05) == pytest.approx(stepped(plain, theirs, 0.05), rel=1e-5)


@pytest.mark.parametrize("data", ["ddp", "zero1"])
def test_each_backend_resumes_the_others_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Any
) -> None:
    def made(kind: str) -> Backend:
        if kind == "torch":
            return TorchBackend(ParallelConfig(data=data))
        fake_nxd.install(monkeypatch, fake_nxd.World())
        return NxdBackend(replace(NXD, data=data))

    for writes, reads in (("nxd", "torch"), ("torch", "nxd"), ("nxd", "nxd")):
        backend = made(writes)
        model = started(backend)
        stepped(backend, model, 0.01)
        files = backend.files(1, {"step": 1})
        path = nxd_layout.write(tmp_path / writes / reads, "step_1", iter(files.items()))
        expected = stepped(backend, model, 0.02), stepped(backend, model, 0.02)
        other = made(reads)
        resumed = other.build(
            lambda backend=other: Llama(samples.TINY, backend), BuildConfig(), OPTIMIZER
        )  # type: ignore[misc]
        checkpoint = nxd_layout.Checkpoint(path)
        checkpoint.validate()
        other.restore(checkpoint)
        assert stepped(other, resumed, 0.02) == pytest.approx(expected[0], rel=1e-5)
        assert stepped(other, resumed, 0.02) == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.parametrize("sequence", [False, True])
def test_a_rank_builds_its_part_and_asks_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, sequence: bool
) -> None:
    """Rank 0 of the job is tp rank 1 of 2 here: nothing may be derived from rank % tp."""
    world = fake_nxd.World(dp=0, dp_size=2, tp=1, tp_size=2)
    fake_nxd.install(monkeypatch, world)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 4)
    backend = NxdBackend(replace(NXD, tp=2, data="zero1", sequence=sequence))
    assert (backend.ranks.tp, backend.ranks.dp_size) == (1, 2)
    model = started(backend)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, samples.local(name, FULL[name], 1, 2))
        assert getattr(parameter, "sequence_parallel_enabled", False) is (
            sequence and "norm" in name
        )
    assert world.config is not None
    assert (world.config["tensor_parallel_size"], world.config["sequence_parallel"]) == (
        2,
        sequence,
    )
    loss, norm = stepped(backend, model, 0.01)
    assert loss > 0
    assert norm > 0
    files = backend.files(1, {"step": 1})
    assert set(files) == {
        f"step_1/{kind}/dp_rank_00_tp_rank_01_pp_rank_00.pt" for kind in ("model", "optim")
    }
    base: Any = files["step_1/optim/dp_rank_00_tp_rank_01_pp_rank_00.pt"]
    assert base["base_state"][0]["exp_avg"].shape == (16, 32)  # 64 words, 2 tp ranks, 2 dp ranks


def test_a_checkpoint_of_another_split_is_taken_apart_and_padded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkpoint = samples.write(tmp_path, FULL, 4, 2, zero1=True)
    world = fake_nxd.World(dp=2, dp_size=3, tp=0, tp_size=2)
    fake_nxd.install(monkeypatch, world)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 6)
    backend = NxdBackend(replace(NXD, tp=2, data="zero1", sequence=False))
    model = backend.build(lambda: Llama(samples.TINY, backend), BuildConfig(), OPTIMIZER)
    backend.restore(checkpoint)
    state = samples.adam(FULL)
    restored = world.optimizer.state_dict()["base_state"]
    for index, (name, parameter) in enumerate(model.named_parameters()):
        assert torch.equal(parameter, samples.local(name, FULL[name], 0, 2))
        expected = nxd_layout.chunk(samples.local(name, state[name]["exp_avg"], 0, 2), 2, 3)
        assert torch.equal(restored[index]["exp_avg"], expected)
        assert float(restored[index]["step"]) == 3.0
    assert set(backend.final_files(3, {})) == set()


def test_weights_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nxd.install(monkeypatch, fake_nxd.World())
    backend = NxdBackend(NXD)
    backend.build(lambda: Llama(samples.TINY, backend), BuildConfig(), OPTIMIZER)
    with pytest.raises(
        ConfigError,
        match=r"model\.embed_tokens\.weight: the weight found has shape \(3, 3\), "
        r"this model's has \(64, 32\)",
    ):
        backend.initialise(lambda *_: torch.ones(3, 3))


@pytest.mark.parametrize(
    ("precision", "set_by_user", "flags"),
    [
        ("fp32", "", "--auto-cast=none"),
        ("bf16", "-O1", "-O1 --auto-cast=matmult --auto-cast-type=bf16"),
        ("bf16", "--auto-cast=all", "--auto-cast=all"),
    ],
)
def test_the_compiler_is_told_the_precision_unless_the_user_did(
    monkeypatch: pytest.MonkeyPatch, precision: Any, set_by_user: str, flags: str
) -> None:
    import os

    monkeypatch.setenv("NEURON_CC_FLAGS", set_by_user)
    fake_nxd.install(monkeypatch, fake_nxd.World())
    backend = NxdBackend(NXD)
    backend.build(lambda: Llama(samples.TINY, backend), BuildConfig(precision=precision), OPTIMIZER)
    assert os.environ["NEURON_CC_FLAGS"] == flags


def test_what_the_backend_does_not_have_is_refused_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nxd.install(monkeypatch, fake_nxd.World())
    with pytest.raises(
        ConfigError, match=r"parallel\.data: neuronx-distributed has no fsdp; use ddp or zero1"
    ):
        NxdBackend(replace(NXD, data="fsdp"))
    with pytest.raises(ConfigError, match=r"parallel\.tp: 3 does not divide the 1 ranks"):
        NxdBackend(replace(NXD, tp=3))
    backend = NxdBackend(NXD)
    with pytest.raises(ConfigError, match=r"build\.compile: inductor is for the torch backend"):
        backend.build(
            lambda: Llama(samples.TINY, backend), BuildConfig(compile="inductor"), OPTIMIZER
        )
    with pytest.raises(ConfigError, match=r"build\.activation_checkpointing"):
        backend.build(
            lambda: Llama(samples.TINY, backend),
            BuildConfig(activation_checkpointing=True),
            OPTIMIZER,
        )


def test_without_the_packages_the_error_names_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(
        PackageMissing, match=r"is not installed.*https://pip\.repos\.neuron\.amazonaws\.com"
    ):
        NxdBackend(NXD)
    # the placeholders of PyPI have these versions, and the same names
    placeholders = {"neuronx-distributed": "0.1", "torch-neuronx": "1.0", "libneuronxla": "1.0"}
    monkeypatch.setattr(importlib.metadata, "version", placeholders.__getitem__)
    with pytest.raises(
        PackageMissing, match=r"neuronx-distributed 0\.1 is installed, 0\.15 or later is needed"
    ):
        require_packages()


def test_packages_that_cannot_be_imported_give_the_same_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_nxd.install(monkeypatch, fake_nxd.World())
    monkeypatch.setitem(sys.modules, "neuronx_distributed", None)
    with pytest.raises(PackageMissing, match="neuronx_distributed cannot be imported"):
        NxdBackend(NXD)


def test_collecting_graphs_asks_for_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nxd.install(monkeypatch, fake_nxd.World())
    backend = NxdBackend(NXD)
    assert not backend.is_compile_only
    model = started(backend)
    monkeypatch.setenv("NEURON_EXTRACT_GRAPHS_ONLY", "1")
    assert backend.is_compile_only
    assert stepped(backend, model, 0.01)[1] == 0.0
