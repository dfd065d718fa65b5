"""The shape of a Llama-family model, and how it is read from and written to Hugging Face's
config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..common.bounds import NOT_NEGATIVE, Bounded, at_least
from ..common.config import ConfigError, build

#: What config.json may say that changes the computation, and the only values that this model
#: computes.
_ONLY = {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "quantization_config": None,
}
_DEFAULT_THETA = 10000.0


@dataclass(frozen=True)
class ModelConfig(Bounded):
    """A decoder as Llama has it (Touvron et al. 2023), with grouped-query attention (Ainslie et al.
    2023); names as in config.json.

    vocab_size 0: that of the data. num_key_value_heads 0: as many as num_attention_heads. head_dim
    0: hidden_size / num_attention_heads.
    """

    vocab_size: Annotated[int, NOT_NEGATIVE] = 0
    hidden_size: Annotated[int, at_least(1)] = 512
    intermediate_size: Annotated[int, at_least(1)] = 1408
    num_hidden_layers: Annotated[int, at_least(1)] = 8
    num_attention_heads: Annotated[int, at_least(1)] = 8
    num_key_value_heads: Annotated[int, NOT_NEGATIVE] = 0
    head_dim: Annotated[int, NOT_NEGATIVE] = 0
    max_position_embeddings: Annotated[int, at_least(1)] = 2048
    rms_norm_eps: float = 1e-5
    rope_theta: float = _DEFAULT_THETA
    tie_word_embeddings: bool = False
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_attention_heads % self.kv_heads:
            raise ValueError(
                f"num_key_value_heads: {self.kv_heads} does not divide num_attention_heads "
                f"{self.num_attention_heads}; "
                f"use one of {_listed(divisors(self.num_attention_heads))}"
            )
        if not self.head_dim and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads: {self.num_attention_heads} does not divide hidden_size "
                f"{self.hidden_size}; give head_dim"
            )
        if self.head_size % 2:
            raise ValueError(
                f"head_dim: {self.head_size} is odd; rotary embeddings need an even number"
            )

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def check_tp(self, tp: int) -> None:
        """Raises ConfigError, which names the values that work, when the model cannot be split `tp`
        ways.
        """
        counts = {
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.intermediate_size,
            "vocab_size": self.vocab_size,
        }
        works = [
            way
            for way in divisors(self.kv_heads)
            if all(count % way == 0 for count in counts.values())
        ]
        for name, count in counts.items():
            if count % tp:
                raise ConfigError(
                    f"parallel.tp: {tp} does not divide {name} {count}; for this model use one of "
                    f"{_listed(works)}"
                )


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [one for one in range(1, number + 1) if number % one == 0]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def read_hf(directory: Path, key: str = "weights") -> ModelConfig:
    """The model of a Hugging Face directory that `key` of a configuration names.

    Raises ConfigError for what this model does not compute.
    """
    path = directory / "config.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError("it must hold keys and values")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{key}: {path}: {error}; a Hugging Face directory with config.json and *.safetensors "
            "is wanted"
        ) from error
    return from_hf(document, str(path))


def from_hf(document: Mapping[str, Any], where: str = "config.json") -> ModelConfig:
    """The model of a config.json as transformers 4 or 5 writes it.

    Raises ConfigError that names the key.
    """
    for name, only in _ONLY.items():
        if document.get(name, only) != only:
            raise ConfigError(
                f"{where}: {name} is {document[name]!r}; this trainer computes {only!r} only"
            )
    names = [
        name
        for name in ModelConfig.__dataclass_fields__
        if name != "rope_theta" and document.get(name) is not None
    ]
    missing = {
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    } - set(names)
    if missing:
        raise ConfigError(f"{where}: {min(missing)} is missing")
    try:
        # transformers' own defaults where an older file leaves a key out
        values = {"rms_norm_eps": 1e-6, **{name: document[name] for name in names}}
        return build(ModelConfig, {**values, "rope_theta": _theta(document)})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _theta(document: Mapping[str, Any]) -> float:
    """transformers 5 moved `rope_theta` into `rope_parameters`, and 4 silently takes 10000 for what
    it does not find: look in both.
    """
    scaling = document.get("rope_scaling") or {}
    parameters = document.get("rope_parameters") or {}
    for key, found in (("rope_scaling", scaling), ("rope_parameters", parameters)):
        if not isinstance(found, Mapping):
            raise ConfigError(f"{key}: {found!r} must hold keys and values")
        kind = found.get("rope_type", found.get("type", "default"))
        if kind != "default":
            raise ConfigError(
                f"{key}: it has rope_type {kind!r}; scaled rotary embeddings are not computed "
                "here, only 'default'"
            )
    said = [
        found["rope_theta"]
        for found in (document, parameters, scaling)
        if found.get("rope_theta") is not None
    ]
    try:
        both = [float(theta) for theta in said]
    except (TypeError, ValueError):
        raise ConfigError(f"rope_theta: {said[0]!r} is not a number") from None
    if len(set(both)) > 1:
        raise ConfigError(
            f"rope_theta: it is given twice, as {both[0]} and as {both[1]}; make them equal"
        )
    return both[0] if both else _DEFAULT_THETA


def to_hf(model: ModelConfig, dtype: str = "float32") -> dict[str, Any]:
    """A config.json that transformers 4.48 to 5 read alike: what moved is written in the old place
    and in the new one.
    """
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": model.vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.num_hidden_layers,
        "num_attention_heads": model.num_attention_heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_size,
        "hidden_act": "silu",
        "max_position_embeddings": model.max_position_embeddings,
        "rms_norm_eps": model.rms_norm_eps,
        "rope_theta": model.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_theta},
        "initializer_range": model.initializer_range,
        "tie_word_embeddings": model.tie_word_embeddings,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": dtype,
        "dtype": dtype,
        "use_cache": True,
    }
