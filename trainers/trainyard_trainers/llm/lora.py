"""Low-rank adapters (LoRA, Hu et al. 2021): of a large model stays all as it is, and two thin
matrices beside some of its layers are trained, saved and merged.

Names and files are those of the package peft, which loads the final model's directory as it is.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from ..common.bounds import NOT_NEGATIVE, POSITIVE, Bounded
from ..common.config import ConfigError
from ..common.meaning import Meaning
from ..parallel.backend import Reader, Weights
from ..parallel.layers import Linear, PlainLayers
from ..parallel.nxd_layout import Checkpoint
from . import safetensors_format
from .config import ModelConfig
from .model import Llama
from .safetensors_format import Directory, Entry

Target = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
#: The names that peft reads in a directory.
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
_PREFIX = "base_model.model."
_DOWN, _UP = "lora_A", "lora_B"
_LOOKED_AT = 1 << 20


@dataclass(frozen=True)
class LoraConfig(Bounded):
    """Which layers get an adapter, and how wide it is."""

    rank: Annotated[
        int, NOT_NEGATIVE, Meaning("width of the adapters; 0: none, all weights are trained")
    ] = 0
    alpha: Annotated[
        float, POSITIVE, Meaning("what an adapter adds is multiplied with alpha / rank")
    ] = 16.0
    targets: Annotated[
        tuple[Target, ...],
        Meaning(
            "layers with an adapter, with commas between them: q_proj, k_proj, v_proj, o_proj, "
            "gate_proj, up_proj, down_proj"
        ),
    ] = ("q_proj", "v_proj")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank and not self.targets:
            raise ValueError("targets: no layer is named, so there is nothing to train")

    @property
    def scale(self) -> float:
        """What an adapter's output is multiplied with."""
        return self.alpha / self.rank


class Adapted(Linear):
    """A linear layer with an adapter; its own weights are not trained."""

    def __init__(self, inputs: int, outputs: int, config: LoraConfig, *, bias: bool) -> None:
        super().__init__(inputs, outputs, bias=bias)
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        self.lora_A = Linear(inputs, config.rank)
        self.lora_B = Linear(config.rank, outputs)
        self.scale = config.scale

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.lora_B(self.lora_A(x))
        return super().forward(x) + self.scale * added


def adapt(model: nn.Module, config: LoraConfig) -> nn.Module:
    """Put an adapter beside each target layer of a model without weights, and let nothing else be
    trained.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in config.targets and isinstance(child, Linear):
                bias = child.bias is not None
                adapted = Adapted(child.in_features, child.out_features, config, bias=bias)
                setattr(module, name, adapted)
    return model


def shapes(model: ModelConfig, config: LoraConfig) -> dict[str, tuple[int, ...]]:
    """Of every weight, those of the adapters among them."""
    with torch.device("meta"):
        adapted = adapt(Llama(model, PlainLayers()), config)
    return {name: tuple(parameter.shape) for name, parameter in adapted.named_parameters()}


def is_adapter(name: str) -> bool:
    """Whether a weight of this name belongs to an adapter."""
    return f".{_DOWN}." in name or f".{_UP}." in name


class FirstAdapters:
    """`Weights` of a model that begins: `lora_B` is zero, so it computes what its base computes."""

    def __init__(self, base: Weights, shapes: Mapping[str, tuple[int, ...]], seed: int) -> None:
        self._base, self._shapes, self._seed = base, shapes, seed

    def __call__(self, name: str, tp: int, tp_size: int) -> Tensor:
        if not is_adapter(name):
            return self._base(name, tp, tp_size)
        drawn = torch.zeros(self._shapes[name])
        if f".{_DOWN}." in name:
            generator = torch.Generator().manual_seed(self._seed << 32 ^ zlib.crc32(name.encode()))
            bound = drawn.shape[1] ** -0.5  # as peft and nn.Linear begin
            drawn.uniform_(-bound, bound, generator=generator)
        return drawn


class OnBase:
    """`Reader` of a checkpoint that holds adapters only: the rest is read where training began."""

    def __init__(self, checkpoint: Checkpoint, base: Weights) -> None:
        self._checkpoint, self._base = checkpoint, base
        self.tp_size, self.dp_size = checkpoint.tp_size, checkpoint.dp_size
        self.sharded = False

    def piece(self, name: str, dp_rank: int, tp_rank: int) -> Tensor:
        return self._checkpoint.piece(name, dp_rank, tp_rank)

    def model(self, tp_rank: int) -> Mapping[str, Tensor]:
        return _Both(self._checkpoint.model(tp_rank), self._base)

    def optimizer(self, dp_rank: int, tp_rank: int) -> Mapping[str, Any]:
        return self._checkpoint.optimizer(dp_rank, tp_rank)

    def full(self, name: str) -> Tensor:
        return self._checkpoint.full(name) if is_adapter(name) else self._base(name, 0, 1)

    def full_optimizer(self, name: str, key: str) -> Tensor:
        return self._checkpoint.full_optimizer(name, key)


class _Both(Mapping[str, Tensor]):
    def __init__(self, adapters: Mapping[str, Tensor], base: Weights) -> None:
        self._adapters, self._base = adapters, base

    def __getitem__(self, name: str) -> Tensor:
        return self._adapters[name] if is_adapter(name) else self._base(name, 0, 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._adapters)

    def __len__(self) -> int:
        return len(self._adapters)


def on_base(checkpoint: Checkpoint, base: Weights) -> Reader:
    """What a backend restores from."""
    return OnBase(checkpoint, base)


# -- the base ------------------------------------------------------------------------------------
def identity(directory: Path) -> list[str]:
    """Of the weights that adapters belong to: names and sizes of the files, and sums of their
    beginnings and ends, good enough to notice that they were replaced.
    """
    found = []
    for path in sorted(directory.glob("*.safetensors")):
        size = path.stat().st_size
        with open(path, "rb") as stream:
            first = zlib.crc32(stream.read(_LOOKED_AT))
            stream.seek(max(0, size - _LOOKED_AT))
            last = zlib.crc32(stream.read(_LOOKED_AT))
        found.append(f"{path.name} {size} {first:08x} {last:08x}")
    return found


def check_base(directory: Path, saved: Sequence[str]) -> None:
    """Raises ConfigError unless these are the weights that the adapters were trained beside."""
    if identity(directory) != list(saved):
        raise ConfigError(
            f"weights: {directory} does not hold the files that the checkpoint's adapters were "
            f"trained beside ({'; '.join(saved)}); give their directory"
        )


# -- files ---------------------------------------------------------------------------------------
def peft_files(
    config: LoraConfig, weights: str, adapters: Mapping[str, Tensor]
) -> dict[str, object]:
    """What peft loads: PeftModel.from_pretrained(base, DIRECTORY)."""
    document = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": weights,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(config.targets),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    named = {_PREFIX + name: tensor for name, tensor in adapters.items()}
    entries = [Entry(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in named.items()]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, ADAPTER)
        safetensors_format.write(path, entries, lambda name: iter([named[name].cpu()]))
        content = path.read_bytes()
    return {ADAPTER: content, ADAPTER_CONFIG: (json.dumps(document, indent=2) + "\n").encode()}


# -- merging -------------------------------------------------------------------------------------
class Merged:
    """The whole weights of a checkpoint with adapters: base + scale * B A, block by block.

    Raises ValueError where the two do not belong together.
    """

    def __init__(self, checkpoint: Checkpoint, base: Path, scale: float) -> None:
        self.path = checkpoint.path
        self._checkpoint, self._base, self._scale = checkpoint, Directory(base), scale
        self._adapted = {
            name.replace(f".{_DOWN}.", ".") for name in checkpoint.names() if f".{_DOWN}." in name
        }
        if missing := self._adapted - set(self._base.names()):
            raise ValueError(f"{base} has no {min(missing)}, which the checkpoint adapts")

    def names(self) -> list[str]:
        return [name for name in self._base.names() if not name.endswith("rotary_emb.inv_freq")]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._base.entry(name).shape

    def dtype(self, name: str) -> torch.dtype:
        return self._base.entry(name).dtype

    def full(self, name: str) -> Tensor:
        """A whole weight."""
        return torch.cat(list(self.blocks(name)))

    def blocks(self, name: str) -> Iterator[Tensor]:
        """A whole weight in consecutive blocks of rows."""
        if name not in self._adapted:
            yield from self._base.blocks(name)
            return
        down = self._checkpoint.full(name.replace(".weight", f".{_DOWN}.weight")).float()
        up = self._checkpoint.full(name.replace(".weight", f".{_UP}.weight")).float()
        start = 0
        for block in self._base.blocks(name):
            added = self._scale * (up[start : start + len(block)] @ down)
            yield (block.float() + added).to(block.dtype)
            start += len(block)


def merged(checkpoint: Checkpoint, base: Path | None) -> Checkpoint | Merged:
    """The checkpoint, or, where it holds adapters only, what it makes of its base.

    `base`: where that lies now, if not where it lay. Raises ConfigError and ValueError.
    """
    content = checkpoint.user_content()
    said = content.get("lora") if isinstance(content, dict) else None
    if not said:
        if base is not None:
            raise ConfigError(f"base: {checkpoint.path} is a whole model; leave --base out")
        return checkpoint
    place = base or Path(str(said["weights"]))
    if not place.is_dir():
        raise ConfigError(
            f"base: {checkpoint.path} holds adapters of {place}, which is not here; give --base "
            "DIRECTORY, where the model lies that they were trained beside"
        )
    check_base(place, said["base"])
    return Merged(checkpoint, place, float(said["alpha"]) / int(said["rank"]))
