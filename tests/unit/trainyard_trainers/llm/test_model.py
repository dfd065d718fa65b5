"""The Llama model computes what Hugging Face's does; packing a document changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.llm import convert
from trainyard_trainers.llm.config import ModelConfig, RopeScaling, from_hf, read_hf, to_hf
from trainyard_trainers.llm.model import Llama, parameter_shapes
from trainyard_trainers.llm.weights import HuggingFaceWeights, RandomWeights
from trainyard_trainers.parallel import cross_entropy as chunked
from trainyard_trainers.parallel.layers import PlainLayers

SMALL = ModelConfig(
    vocab_size=160,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    rope_theta=5e5,
)


def plain(config: ModelConfig, weights: Any) -> Llama:
    model = Llama(config, PlainLayers())
    model.load_state_dict({name: weights(name, 0, 1) for name in parameter_shapes(config)})
    return model


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, SMALL.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "config", [SMALL, replace(SMALL, tie_word_embeddings=True, head_dim=16, num_key_value_heads=0)]
)
def test_logits_are_those_of_transformers_from_its_own_directory(
    tmp_path: Path, config: ModelConfig
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    theirs = LlamaForCausalLM(LlamaConfig(**to_hf(config))).eval()
    theirs.save_pretrained(tmp_path, max_shard_size="60KB")
    read = read_hf(tmp_path)
    assert (read.rope_theta, read.kv_heads, read.head_size) == (
        config.rope_theta,
        config.kv_heads,
        config.head_size,
    )
    inputs = tokens(2, 40)
    with torch.no_grad():
        ours, reference = plain(read, HuggingFaceWeights(tmp_path))(inputs), theirs(inputs).logits
    assert reference.std() > 0.05
    assert torch.allclose(ours, reference, atol=2e-6)


def test_a_rank_reads_its_part_of_a_weight_only(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    whole = {
        "model.layers.0.self_attn.q_proj.weight": torch.randn(8, 6),
        "model.layers.0.mlp.down_proj.weight": torch.randn(6, 8),
    }
    save_file(whole, tmp_path / "model.safetensors")
    weights = HuggingFaceWeights(tmp_path)
    q_proj, down_proj = whole
    assert torch.equal(weights(q_proj, 1, 2), whole[q_proj][4:])
    assert torch.equal(weights(down_proj, 1, 2), whole[down_proj][:, 4:])
    with pytest.raises(ConfigError, match=r"has no weight lm_head.weight"):
        weights("lm_head.weight", 0, 1)
    with pytest.raises(
        ConfigError, match=r"neither model.safetensors.index.json nor model.safetensors"
    ):
        HuggingFaceWeights(tmp_path / "empty")


def test_random_weights_are_the_same_however_they_are_split() -> None:
    weights = RandomWeights(SMALL, 7)
    for name, shape in parameter_shapes(SMALL).items():
        whole, halves = weights(name, 0, 1), [weights(name, part, 2) for part in (0, 1)]
        assert tuple(whole.shape) == shape
        assert any(
            torch.equal(torch.cat(halves, dim), whole) for dim in range(whole.dim())
        ) or torch.equal(halves[0], whole)


def test_a_document_that_is_packed_with_others_has_the_logits_it_has_alone() -> None:
    model, text = (
        plain(
            replace(SMALL, initializer_range=0.2),
            RandomWeights(replace(SMALL, initializer_range=0.2), 1),
        ),
        tokens(1, 30),
    )
    positions = torch.cat((torch.arange(12), torch.arange(18)))[None]
    with torch.no_grad():
        packed, first, second = (
            model(text, positions=positions),
            model(text[:, :12]),
            model(text[:, 12:]),
        )
        unmasked = model(text)
    assert torch.allclose(packed[:, :12], first, atol=1e-5)
    assert torch.allclose(packed[:, 12:], second, atol=1e-5)
    assert not torch.allclose(packed[:, 12:], unmasked[:, 12:], atol=1e-2)


def test_the_chunked_loss_has_the_value_and_the_gradients_of_plain_cross_entropy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunked, "_CPU_BYTES", 7 * 4 * 50)  # seven rows a chunk, the last one short
    hidden, weight = (
        torch.randn(30, 12, requires_grad=True),
        torch.randn(50, 12, requires_grad=True),
    )
    targets = torch.randint(0, 50, (30,))
    targets[[3, 29]] = -100
    loss = chunked.head_loss(hidden, weight, targets)
    found = torch.autograd.grad(loss * 0.5, (hidden, weight))
    reference = cross_entropy(hidden @ weight.T, targets, reduction="sum")
    expected = torch.autograd.grad(reference * 0.5, (hidden, weight))
    assert torch.allclose(loss, reference, rtol=1e-6)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert torch.equal(found[0][3], torch.zeros(12))


def test_activation_checkpointing_changes_no_gradient() -> None:
    gradients = []
    for checkpointing in (False, True):
        model = Llama(SMALL, PlainLayers(), activation_checkpointing=checkpointing)
        model.load_state_dict(
            {name: RandomWeights(SMALL, 1)(name, 0, 1) for name in parameter_shapes(SMALL)}
        )
        model(tokens(2, 16), tokens(2, 16, seed=1)).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))  # type: ignore[arg-type]


def document(**changes: object) -> dict[str, Any]:
    return {name: value for name, value in {**to_hf(SMALL), **changes}.items() if value != "absent"}


@pytest.mark.parametrize(
    ("changes", "theta"),
    [
        ({"rope_theta": "absent"}, 5e5),  # as transformers 5 writes it
        ({"rope_parameters": "absent", "rope_scaling": None}, 5e5),  # as 4 does
        ({"rope_parameters": "absent", "rope_theta": "absent"}, 10000.0),
    ],
)
def test_the_rotary_base_is_found_where_either_version_of_transformers_writes_it(
    changes: dict[str, Any], theta: float
) -> None:
    assert from_hf(document(**changes)).rope_theta == theta


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_theta": 10000.0}, "rope_theta: it is given twice, as 10000.0 and as 500000.0"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            "rope_scaling: low_freq_factor is missing, which llama3 needs",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5}},
            "rope_parameters: it has rope_type 'yarn'",
        ),
        ({"rope_theta": "abc"}, "rope_theta: 'abc' is not a number"),
        ({"rope_parameters": 5}, "rope_parameters: 5 must hold keys and values"),
        ({"hidden_size": "wide"}, "hidden_size: 'wide' is not a whole number"),
        (
            {"tie_word_embeddings": "perhaps"},
            "tie_word_embeddings: 'perhaps' is neither true nor false",
        ),
        (
            {"model_type": "mixtral"},
            "model_type is 'mixtral'; this trainer computes llama, mistral",
        ),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        (
            {"num_key_value_heads": 4},
            "num_key_value_heads: 4 does not divide num_attention_heads 6; use one of 1, 2, 3, 6",
        ),
    ],
)
def test_a_config_that_is_not_computed_here_is_refused_by_its_key(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        from_hf(document(**changes), "dir/config.json")


def test_a_directory_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config.json.*a Hugging Face directory .* is wanted"):
        read_hf(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(to_hf(SMALL)))
    assert to_hf(read_hf(tmp_path)) == to_hf(SMALL)


@pytest.mark.parametrize(
    ("tp", "name"), [(3, "num_key_value_heads 4"), (8, "num_key_value_heads 4")]
)
def test_a_tensor_parallel_size_that_does_not_divide_is_refused_with_those_that_do(
    tp: int, name: str
) -> None:
    model = replace(
        SMALL, num_attention_heads=24, num_key_value_heads=4, hidden_size=48, intermediate_size=96
    )
    with pytest.raises(
        ConfigError,
        match=rf"parallel.tp: {tp} does not divide {name}; for this model use one of 1, 2, 4",
    ):
        model.check_tp(tp)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModelConfig(num_attention_heads=7),
        lambda: ModelConfig(head_dim=5),
        lambda: ModelConfig(num_hidden_layers=0),
    ],
)
def test_impossible_shapes_are_refused(make: Callable[[], ModelConfig]) -> None:
    with pytest.raises(ValueError, match=r"does not divide|is odd|too small"):
        make()


SCALINGS = [
    RopeScaling("linear", 4.0),
    RopeScaling("dynamic", 2.0),
    RopeScaling("llama3", 8.0, 1.0, 4.0, 16),
]
FAMILIES = [
    *(replace(SMALL, rope_scaling=scaling) for scaling in SCALINGS),
    replace(SMALL, model_type="qwen2", tie_word_embeddings=True),
    replace(SMALL, model_type="qwen3", head_dim=12, num_key_value_heads=3),
    replace(SMALL, model_type="qwen3", rope_scaling=SCALINGS[2]),
    replace(SMALL, model_type="mistral", head_dim=16),
    replace(SMALL, model_type="mistral", sliding_window=8),
]


def random_model_of_transformers(config: ModelConfig) -> Any:
    """With biases and norms that are not what they begin with."""
    import transformers

    torch.manual_seed(3)
    document = to_hf(config)
    made = transformers.AutoConfig.for_model(document.pop("model_type"), **document)
    model = transformers.AutoModelForCausalLM.from_config(made).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias") or "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(
    "config",
    FAMILIES,
    ids=lambda config: f"{config.model_type} {config.rope_scaling.rope_type}",
)
def test_logits_of_each_family_and_scaling_are_those_of_transformers_in_both_directions(
    tmp_path: Path, config: ModelConfig
) -> None:
    from transformers import AutoModelForCausalLM

    theirs = random_model_of_transformers(config)
    theirs.save_pretrained(tmp_path / "theirs")
    read = read_hf(tmp_path / "theirs")
    assert (read.model_type, read.rope_scaling, read.sliding_window, read.head_size) == (
        config.model_type,
        config.rope_scaling,
        config.sliding_window,
        config.head_size,
    )
    inputs, ours = tokens(2, 40), plain(read, HuggingFaceWeights(tmp_path / "theirs"))
    with torch.no_grad():
        reference = theirs(inputs).logits
        assert reference.std() > 0.05
        assert torch.allclose(ours(inputs), reference, atol=1e-5)
    converted = convert.from_hf(tmp_path / "theirs", tmp_path / "ours", tp=1, check="never")
    assert convert.to_hf(converted.path, tmp_path / "back", check="always").difference is not None
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        assert torch.equal(back(inputs).logits, reference)


def test_a_text_longer_than_the_model_was_meant_for_is_scaled_as_transformers_does_it(
    tmp_path: Path,
) -> None:
    config = replace(SMALL, rope_scaling=RopeScaling("dynamic", 2.0), max_position_embeddings=24)
    theirs = random_model_of_transformers(config)
    theirs.save_pretrained(tmp_path)
    with torch.no_grad():
        ours = plain(read_hf(tmp_path), HuggingFaceWeights(tmp_path))(tokens(2, 40))
        assert torch.allclose(ours, theirs(tokens(2, 40)).logits, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gemma"}, "model_type is 'gemma'; this trainer computes llama, mistral"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling: it has rope_type"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling: factor is missing"),
        (
            {
                "rope_scaling": {"type": "linear", "factor": 2.0},
                "rope_parameters": {"rope_type": "linear", "factor": 4.0},
            },
            "make them equal",
        ),
        (
            {"model_type": "qwen2", "num_key_value_heads": 2, "use_sliding_window": True},
            "use_sliding_window is True; this trainer computes False only",
        ),
        ({"model_type": "qwen3", "num_key_value_heads": 2}, "head_dim is missing"),
        ({"model_type": "mistral", "num_key_value_heads": None}, "num_key_value_heads is missing"),
    ],
)
def test_a_model_that_is_not_computed_is_refused_by_the_key(
    changes: dict[str, Any], message: str
) -> None:
    shape = {
        "vocab_size": 96,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    }
    with pytest.raises(ConfigError, match=message):
        from_hf({**shape, **changes})


def test_a_window_that_is_left_out_is_the_one_that_transformers_takes() -> None:
    document = to_hf(replace(SMALL, model_type="mistral", sliding_window=6))
    assert from_hf(document).sliding_window == 6
    assert from_hf({**document, "sliding_window": None}).sliding_window == 0
    del document["sliding_window"]
    assert from_hf(document).sliding_window == 4096
    qwen = to_hf(replace(SMALL, model_type="qwen2"))
    assert from_hf({**qwen, "sliding_window": 4096}).sliding_window == 0


def test_a_packed_document_sees_through_the_window_what_it_sees_alone() -> None:
    config = replace(SMALL, model_type="mistral", sliding_window=4, initializer_range=0.2)
    model, text = plain(config, RandomWeights(config, 1)), tokens(1, 30)
    positions = torch.cat((torch.arange(12), torch.arange(18)))[None]
    with torch.no_grad():
        packed = model(text, positions=positions)
        assert torch.allclose(packed[:, 12:], model(text[:, 12:]), atol=1e-5)
