"""Where a model's first weights come from: random numbers, or a Hugging Face directory of which
each rank reads only its part.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..common.config import ConfigError
from ..common.packages import needed
from ..parallel.partition import tp_dim
from .config import ModelConfig
from .model import parameter_shapes

INDEX = "model.safetensors.index.json"


def tp_slice(length: int, tp: int, tp_size: int) -> slice:
    """The part of a dimension that a tensor-parallel rank holds."""
    return slice(tp * length // tp_size, (tp + 1) * length // tp_size)


class RandomWeights:
    """Normal with the config's standard deviation, ones for norms, zeros for biases: the same
    weights however many ranks there are.

    Every weight has a generator of its own, so a rank draws the weights it needs and no others;
    projections back into the residual are scaled by 1 / sqrt(2 layers) (GPT-2, Radford et al.
    2019).
    """

    def __init__(self, config: ModelConfig, seed: int) -> None:
        self._config, self._seed = config, seed
        self._shapes = parameter_shapes(config)

    def __call__(self, name: str, tp: int, tp_size: int) -> Tensor:
        shape = self._shapes[name]
        dim = tp_dim(name)
        if dim is None:
            return torch.ones(shape)
        if name.endswith(".bias"):
            return torch.zeros(shape).chunk(tp_size, dim)[tp]
        deviation = self._config.initializer_range / (
            (2 * self._config.num_hidden_layers) ** 0.5 if dim == 1 else 1.0
        )
        generator = torch.Generator().manual_seed(self._seed << 32 ^ zlib.crc32(name.encode()))
        whole = torch.empty(shape).normal_(0.0, deviation, generator=generator)
        return whole.chunk(tp_size, dim)[tp]


class HuggingFaceWeights:
    """The safetensors of a directory, mapped into memory.

    Raises ConfigError. Needs the package safetensors.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = _files(directory)
        self._open: dict[Path, Any] = {}

    def __call__(self, name: str, tp: int, tp_size: int) -> Tensor:
        if name not in self._files:
            raise ConfigError(
                f"weights: {self._directory} has no weight {name}; are tie_word_embeddings and "
                "num_hidden_layers right?"
            )
        part = self._file(self._files[name]).get_slice(name)
        shape, dim = part.get_shape(), tp_dim(name)
        if dim is None or tp_size == 1:
            whole: Tensor = part[:]
            return whole
        wanted = tp_slice(shape[dim], tp, tp_size)
        some: Tensor = part[wanted] if dim == 0 else part[:, wanted]
        return some

    def _file(self, path: Path) -> Any:
        if path not in self._open:
            safetensors = needed("safetensors", "reading a Hugging Face directory")
            try:
                self._open[path] = safetensors.safe_open(path, framework="pt")
            except (OSError, safetensors.SafetensorError) as error:
                raise ConfigError(f"weights: {path} cannot be read: {error}") from error
        return self._open[path]


def _files(directory: Path) -> Mapping[str, Path]:
    """Which file holds which weight."""
    index = directory / INDEX
    if index.is_file():
        return {
            name: directory / file
            for name, file in json.loads(index.read_text(encoding="utf-8"))["weight_map"].items()
        }
    single = directory / "model.safetensors"
    if not single.is_file():
        raise ConfigError(f"weights: {directory} has neither {INDEX} nor model.safetensors")
    return _AnyName(single)


class _AnyName(dict[str, Path]):
    """One file for every name that it holds."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length))
        super().__init__({name: path for name in header if name != "__metadata__"})
