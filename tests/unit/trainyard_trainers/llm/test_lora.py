"""Adapters begin as nothing, are all that is trained and saved, and merge into their base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.support import nxd_samples
from torch import Tensor

from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_trainers import loop
from trainyard_trainers.checkpoints.writer import content_writer
from trainyard_trainers.common import config
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.llm import convert, lora
from trainyard_trainers.llm.config import ModelConfig, to_hf
from trainyard_trainers.llm.safetensors_format import Directory
from trainyard_trainers.llm.tokens import write_shard
from trainyard_trainers.llm.train import Llm, LlmConfig
from trainyard_trainers.parallel import nxd_layout

MODEL = replace(nxd_samples.TINY, model_type="qwen2", num_key_value_heads=2)
TARGETS = "q_proj,down_proj"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch.set_num_threads(threads)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A Hugging Face directory."""
    return made(tmp_path / "base", MODEL)


def made(directory: Path, model: ModelConfig, scale: float = 1.0) -> Path:
    weights = {name: scale * tensor for name, tensor in nxd_samples.weights(model).items()}
    place = directory.with_name(f"{directory.name}-nxd")
    written = nxd_samples.write(place, weights, 1, config=to_hf(model))
    convert.to_hf(written.path, directory, check="never")
    return directory


def settings(base: Path, **more: object) -> LlmConfig:
    data = base.with_name("tokens")
    data.mkdir(exist_ok=True)
    if not (data / "a.tokens").exists():
        write_shard(data / "a.tokens", [[number % 60 for number in range(300)]], 64)
    values: dict[str, object] = {
        "data": str(data),
        "weights": str(base),
        "sequence": 16,
        "batch": 4,
        "steps": 10,
        "warmup": 0,
        "optimizer": {"learning_rate": 0.02},
        "lora": {"rank": 3, "alpha": 6.0, "targets": TARGETS},
        **more,
    }
    return config.build(LlmConfig, values)


def stepped(task: Llm, steps: int) -> list[float]:
    return [float(task.train_step(loop.Turn([0.0] * 5, lambda: None)).loss) for _ in range(steps)]


def saved(task: Llm, directory: Path, *, final: bool = False) -> Saved:
    for name, content in (task.final_files() if final else task.files()).items():
        checkpoint.write_file(directory, name, content_writer(content))
    return Saved(directory, task.step, 1, 1)


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(torch.arange(20)[None])
    return found


def test_the_first_step_is_that_of_the_base_and_only_adapters_change(base: Path) -> None:
    whole = stepped(Llm(settings(base, lora={"rank": 0})), 1)
    task = Llm(settings(base))
    assert stepped(task, 1) == pytest.approx(whole, rel=1e-6)
    before = {name: one.detach().clone() for name, one in task.model.named_parameters()}
    losses = stepped(task, 6)
    assert losses[-1] < losses[0]
    changed = {
        name
        for name, parameter in task.model.named_parameters()
        if not torch.equal(parameter, before[name])
    }
    assert changed == {
        f"model.layers.0.{layer}.lora_{which}.weight"
        for layer in ("self_attn.q_proj", "mlp.down_proj")
        for which in "AB"
    }


def test_a_checkpoint_holds_the_adapters_only_and_resumes_to_the_bit(
    base: Path, tmp_path: Path
) -> None:
    task = Llm(settings(base))
    stepped(task, 3)
    place = saved(task, tmp_path / "step")
    found = nxd_layout.Checkpoint(place.path / "step_3")
    assert {name.split(".")[-2] for name in found.names()} == {"lora_A", "lora_B"}
    expected = stepped(task, 3)
    again = Llm(settings(base))
    again.restore(place)
    assert stepped(again, 3) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lora": {"rank": 0}}, "lora.rank: the checkpoint holds adapters, this run has 0"),
        (
            {"lora": {"rank": 2, "targets": TARGETS}},
            "lora.rank: the checkpoint was trained with 3, this run has 2",
        ),
        (
            {"lora": {"rank": 3, "targets": "q_proj"}},
            r"lora.targets: the checkpoint was trained with \['q_proj', 'down_proj'\]",
        ),
    ],
)
def test_adapters_of_another_shape_are_refused(
    base: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    task = Llm(settings(base))
    stepped(task, 1)
    place = saved(task, tmp_path / "step")
    with pytest.raises(ConfigError, match=message):
        Llm(settings(base, **change)).restore(place)


def test_adapters_do_not_go_on_another_base(base: Path, tmp_path: Path) -> None:
    task = Llm(settings(base))
    stepped(task, 1)
    place = saved(task, tmp_path / "step")
    other = made(tmp_path / "other", MODEL, scale=1.5)
    with pytest.raises(ConfigError, match="does not hold the files that the checkpoint's adapters"):
        Llm(settings(base, weights=str(other))).restore(place)


def test_merged_weights_compute_what_the_adapted_model_computes(base: Path, tmp_path: Path) -> None:
    import transformers

    task = Llm(settings(base))
    stepped(task, 5)
    place = saved(task, tmp_path / "final", final=True)
    converted = convert.to_hf(place.path / "step_5", tmp_path / "hf", check="always")
    assert converted.tensors == len(Directory(base).names())
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    with torch.no_grad():
        reference = theirs(torch.arange(20)[None]).logits
    assert torch.allclose(logits(task.model), reference, atol=1e-5)
    base.rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match="which is not here; give --base DIRECTORY"):
        convert.to_hf(place.path / "step_5", tmp_path / "hf2")
    again = convert.to_hf(place.path / "step_5", tmp_path / "hf2", base=tmp_path / "moved")
    assert again.difference is not None


def test_the_final_model_has_the_names_and_files_of_peft(base: Path, tmp_path: Path) -> None:
    task = Llm(settings(base))
    stepped(task, 2)
    place = saved(task, tmp_path / "final", final=True)
    described = json.loads((place.path / lora.ADAPTER_CONFIG).read_text())
    assert described["peft_type"] == "LORA"
    assert (described["r"], described["lora_alpha"]) == (3, 6.0)
    assert described["target_modules"] == ["q_proj", "down_proj"]
    assert described["base_model_name_or_path"] == str(base)
    from safetensors.torch import load_file

    content = load_file(place.path / lora.ADAPTER)
    prefix = "base_model.model.model.layers.0."
    assert content[f"{prefix}self_attn.q_proj.lora_A.weight"].shape == (3, 32)
    assert content[f"{prefix}mlp.down_proj.lora_B.weight"].shape == (32, 3)
    assert len(content) == 4


def test_peft_computes_with_the_final_model_what_we_do(base: Path, tmp_path: Path) -> None:
    import peft
    import transformers

    task = Llm(settings(base))
    stepped(task, 5)
    place = saved(task, tmp_path / "final", final=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    theirs = peft.PeftModel.from_pretrained(model, str(place.path)).eval()
    with torch.no_grad():
        reference = theirs(torch.arange(20)[None]).logits
    assert torch.allclose(logits(task.model), reference, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lora.rank", "2"], "lora.rank: adapters are trained beside a model that is there"),
        (
            ["--lora.rank", "2", "--weights", "w", "--parallel.tp", "2"],
            "lora.rank: adapters are trained with parallel.tp 1",
        ),
        (
            ["--lora.rank", "2", "--weights", "w", "--lora.targets", "heads"],
            "lora.targets: 'heads' is not one of q_proj",
        ),
        (
            ["--lora.rank", "2", "--weights", "w", "--lora.targets", ""],
            "lora.targets: no layer is named",
        ),
    ],
)
def test_adapters_that_cannot_be_trained_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config.build(LlmConfig, config.read_words(LlmConfig, ["--data", "x", *words]))
    assert str(refused.value).startswith(message)
