"""Every parallelism trains alike: one rank's losses and gradient norms, compiled or eager."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_jobs import ForkedJob, running
from tests.support.llm_modes import Mode, run_modes

from trainyard_trainers.parallel.backend import BuildConfig, ParallelConfig

EAGER = BuildConfig()
ONE = {"one": (ParallelConfig(), EAGER), "bf16": (ParallelConfig(), BuildConfig(precision="bf16"))}
TWO = {
    "ddp": (ParallelConfig(), EAGER),
    "zero1": (ParallelConfig(data="zero1"), EAGER),
    "fsdp": (ParallelConfig(data="fsdp"), EAGER),
    "tp": (ParallelConfig(tp=2), EAGER),
    "tp, whole sequences": (ParallelConfig(tp=2, sequence=False), EAGER),
    "tp, zero1": (ParallelConfig(tp=2, data="zero1"), EAGER),
    "tp, activations computed again": (
        ParallelConfig(tp=2),
        BuildConfig(activation_checkpointing=True),
    ),
    "fsdp, activations computed again": (
        ParallelConfig(data="fsdp"),
        BuildConfig(activation_checkpointing=True),
    ),
    "tp, compiled": (ParallelConfig(tp=2), BuildConfig(compile="aot_eager")),
    "fsdp bf16": (ParallelConfig(data="fsdp"), BuildConfig(precision="bf16")),
    "tp bf16": (ParallelConfig(tp=2), BuildConfig(precision="bf16")),
}
FOUR = {
    "tp x ddp": (ParallelConfig(tp=2), EAGER),
    "tp x zero1": (ParallelConfig(tp=2, data="zero1"), EAGER),
    "tp x fsdp": (ParallelConfig(tp=2, data="fsdp"), EAGER),
}


def outcome(directory: Path, modes: dict[str, Mode], world_size: int) -> dict[str, Any]:
    output = directory / f"{world_size}.json"
    with running(
        ForkedJob(directory / str(world_size), 1, run_modes, (modes, str(output)), world_size)
    ) as job:
        assert job.wait(120) == [0] * world_size, job.log()
    found: dict[str, Any] = json.loads(output.read_text())
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("modes")
    return {
        **outcome(directory, ONE, 1),
        **outcome(directory, TWO, 2),
        **outcome(directory, FOUR, 4),
    }


@pytest.mark.parametrize("mode", [name for name in (*TWO, *FOUR) if "bf16" not in name])
def test_losses_and_gradient_norms_are_those_of_one_rank(found: dict[str, Any], mode: str) -> None:
    assert found[mode]["losses"] == pytest.approx(found["one"]["losses"], rel=1e-5)
    assert found[mode]["norms"] == pytest.approx(found["one"]["norms"], rel=1e-4)
    assert found["one"]["norms"][0] > 1.0, "clipping must have something to do"


@pytest.mark.parametrize("mode", ["bf16", "fsdp bf16", "tp bf16"])
def test_bfloat16_stays_close_to_float32_and_is_not_it(found: dict[str, Any], mode: str) -> None:
    assert found[mode]["losses"] == pytest.approx(found["one"]["losses"], rel=5e-3)
    assert found[mode]["losses"] != pytest.approx(found["one"]["losses"], rel=1e-6)


def test_compiled_blocks_have_the_gradients_of_eager_ones_also_under_tensor_parallelism(
    found: dict[str, Any],
) -> None:
    eager, compiled = found["tp"]["gradients"], found["tp, compiled"]["gradients"]
    assert eager.keys() == compiled.keys()
    for name in eager:
        largest = max(abs(value) for value in flat(eager[name]))
        assert largest > 0, name
        assert flat(compiled[name]) == pytest.approx(flat(eager[name]), abs=1e-5 * largest), name


def flat(values: Any) -> list[float]:
    return (
        [number for value in values for number in flat(value)]
        if isinstance(values, list)
        else [values]
    )
