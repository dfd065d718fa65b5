"""The shape of a Llama-family model, and how it is read from and written to Hugging Face's
config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ..common.bounds import NOT_NEGATIVE, POSITIVE, Bounded, at_least
from ..common.config import ConfigError, build
from ..common.meaning import Meaning

Family = Literal["llama", "mistral", "qwen2", "qwen3"]
#: What config.json may say that changes the computation, and the only values that this model
#: computes.
_ONLY = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "quantization_config": None,
    "use_sliding_window": False,
}
_CLASSES: dict[Family, str] = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_DEFAULT_THETA = 10000.0
#: What transformers takes where a Mistral's config.json does not name a window.
_MISTRAL_WINDOW = 4096
#: Ids of tokens that a model's config.json names. Training needs none of them, generation does.
TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True)
class RopeScaling(Bounded):
    """How rotary embeddings are stretched to longer texts than a model was first trained on; names
    as in config.json.
    """

    rope_type: Annotated[
        Literal["default", "linear", "dynamic", "llama3"],
        Meaning(
            "default: not at all; linear: all positions are divided by the factor; dynamic: only "
            "for texts longer than max_position_embeddings; llama3: slow rotations only (Llama 3.1)"
        ),
    ] = "default"
    factor: Annotated[float, POSITIVE, Meaning("how much longer the texts are")] = 1.0
    low_freq_factor: Annotated[
        float,
        POSITIVE,
        Meaning("llama3: rotations slower than this in the first length are divided"),
    ] = 1.0
    high_freq_factor: Annotated[
        float, POSITIVE, Meaning("llama3: rotations faster than this in the first length stay")
    ] = 4.0
    original_max_position_embeddings: Annotated[
        int, at_least(1), Meaning("llama3: the length that the model was first trained on")
    ] = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rope_type == "llama3" and self.low_freq_factor >= self.high_freq_factor:
            raise ValueError(
                f"high_freq_factor: {self.high_freq_factor} must be above low_freq_factor "
                f"{self.low_freq_factor}"
            )

    def in_words_of_hf(self) -> dict[str, Any]:
        """The keys that transformers has for this kind, and no others."""
        if self.rope_type == "llama3":
            return asdict(self)
        return {"rope_type": self.rope_type, "factor": self.factor}


@dataclass(frozen=True)
class ModelConfig(Bounded):
    """A decoder as Llama has it (Touvron et al. 2023), with grouped-query attention (Ainslie et al.
    2023), or as its relatives have it; names as in config.json.
    """

    vocab_size: Annotated[int, NOT_NEGATIVE, Meaning("0: that of the data")] = 0
    hidden_size: Annotated[int, at_least(1), Meaning("width between the layers")] = 512
    intermediate_size: Annotated[int, at_least(1), Meaning("width of the feed-forward layers")] = (
        1408
    )
    num_hidden_layers: Annotated[int, at_least(1), Meaning("blocks")] = 8
    num_attention_heads: Annotated[int, at_least(1), Meaning("heads of the queries")] = 8
    num_key_value_heads: Annotated[
        int, NOT_NEGATIVE, Meaning("heads of keys and values; 0: as many as of the queries")
    ] = 0
    head_dim: Annotated[
        int, NOT_NEGATIVE, Meaning("width of a head; 0: hidden_size / num_attention_heads")
    ] = 0
    max_position_embeddings: Annotated[
        int, at_least(1), Meaning("longest text that the model is meant for")
    ] = 2048
    rms_norm_eps: Annotated[float, Meaning("added under the root in each norm")] = 1e-5
    rope_theta: Annotated[float, Meaning("base of the rotary embeddings")] = _DEFAULT_THETA
    tie_word_embeddings: Annotated[bool, Meaning("the embedding is the output layer, too")] = False
    initializer_range: Annotated[float, Meaning("standard deviation of random first weights")] = (
        0.02
    )
    model_type: Annotated[
        Family,
        Meaning(
            "llama, and what differs from it: mistral may have a sliding window, qwen2 has biases "
            "of q, k and v, qwen3 norms of q and k"
        ),
    ] = "llama"
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    sliding_window: Annotated[
        int,
        NOT_NEGATIVE,
        Meaning("mistral: a token sees itself and so many less one before it; 0: all"),
    ] = 0

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
        if self.sliding_window and self.model_type != "mistral":
            raise ValueError(
                f"sliding_window: {self.sliding_window} is for model_type mistral; use 0"
            )

    @property
    def qkv_bias(self) -> bool:
        """Whether the projections of queries, keys and values have biases."""
        return self.model_type == "qwen2"

    @property
    def qk_norm(self) -> bool:
        """Whether each head's queries and keys go through a norm."""
        return self.model_type == "qwen3"

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
    family = document.get("model_type", "llama")
    if family not in get_args(Family):
        raise ConfigError(
            f"{where}: model_type is {family!r}; this trainer computes "
            f"{', '.join(get_args(Family))}"
        )
    for name, only in _ONLY.items():
        if document.get(name, only) != only:
            raise ConfigError(
                f"{where}: {name} is {document[name]!r}; this trainer computes {only!r} only"
            )
    names = [
        name
        for name in ModelConfig.__dataclass_fields__
        if name not in _READ_APART and document.get(name) is not None
    ]
    if missing := _needed(family) - set(names):
        raise ConfigError(f"{where}: {min(missing)} is missing")
    try:
        # transformers' own defaults where an older file leaves a key out
        values = {"rms_norm_eps": 1e-6, **{name: document[name] for name in names}}
        if family == "mistral":
            values["sliding_window"] = document.get("sliding_window", _MISTRAL_WINDOW) or 0
        return build(
            ModelConfig,
            {**values, "rope_theta": _theta(document), "rope_scaling": _scaling(document)},
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


#: Lies in several places, or means something only in some families: Qwen's files name a window that
#: use_sliding_window switches off.
_READ_APART = {"rope_theta", "rope_scaling", "sliding_window"}


def _needed(family: str) -> set[str]:
    """Keys without which transformers would take the shape of some model of its own."""
    needed = {
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    }
    if family != "llama":
        needed |= {"num_key_value_heads"}
    return needed | ({"head_dim"} if family == "qwen3" else set())


def _rotary(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """transformers 5 moved what it says of rotary embeddings into `rope_parameters`, and 4 silently
    takes a default for what it does not find: look in both.
    """
    found = [(key, document.get(key) or {}) for key in ("rope_scaling", "rope_parameters")]
    for key, value in found:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key}: {value!r} must hold keys and values")
    return found


def _scaling(document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of RopeScaling; where both places scale, they must scale alike."""
    ways: list[dict[str, Any]] = []
    for key, found in _rotary(document):
        kind = found.get("rope_type", found.get("type", "default"))
        if kind == "default":
            continue
        if kind not in ("linear", "dynamic", "llama3"):
            raise ConfigError(
                f"{key}: it has rope_type {kind!r}; computed here are default, linear, dynamic and "
                "llama3"
            )
        names = ["factor"]
        if kind == "llama3":
            names += ["low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]
        if missing := [name for name in names if found.get(name) is None]:
            raise ConfigError(f"{key}: {missing[0]} is missing, which {kind} needs")
        if found.get("partial_rotary_factor", 1.0) != 1.0:
            raise ConfigError(f"{key}: partial_rotary_factor is not computed here; leave it out")
        ways.append({"rope_type": kind, **{name: found[name] for name in names}})
    if len(ways) == 2 and ways[0] != ways[1]:
        raise ConfigError(
            f"rope_scaling: it says {ways[0]}, and rope_parameters {ways[1]}; make them equal"
        )
    return ways[0] if ways else {}


def _theta(document: Mapping[str, Any]) -> float:
    places = [document, *(found for _, found in reversed(_rotary(document)))]
    said = [found["rope_theta"] for found in places if found.get("rope_theta") is not None]
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
    scaling = model.rope_scaling.in_words_of_hf()
    scaled = model.rope_scaling.rope_type != "default"
    return {
        "architectures": [_CLASSES[model.model_type]],
        "model_type": model.model_type,
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
        "rope_parameters": {
            **(scaling if scaled else {"rope_type": "default"}),
            "rope_theta": model.rope_theta,
        },
        **({"rope_scaling": scaling} if scaled else {}),
        **({"sliding_window": model.sliding_window or None} if _has_window(model) else {}),
        "initializer_range": model.initializer_range,
        "tie_word_embeddings": model.tie_word_embeddings,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": dtype,
        "dtype": dtype,
        "use_cache": True,
    }


def _has_window(model: ModelConfig) -> bool:
    """Whether config.json must say what the window is: transformers takes one where it does not."""
    return model.model_type == "mistral"
