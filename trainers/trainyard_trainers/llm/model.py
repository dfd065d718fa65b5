"""The Llama model and its relatives, written once for every parallel backend, with Hugging Face's
names for its weights.


RMSNorm before attention and before SwiGLU (Shazeer 2020), rotary position embeddings (Su et al.
2021), grouped-query attention. Shapes: B sequences of T tokens; a tensor-parallel rank computes its
heads and its part of the intermediate features and of the vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from ..parallel.backend import Layers
from .config import ModelConfig, RopeScaling


def rotary(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines for positions (B or 1, T), each (B or 1, 1, T, head_size / 2), in
    float32.
    """
    angles = positions[:, None, :, None].float() * frequencies
    return angles.cos(), angles.sin()


def frequencies(config: ModelConfig, length: int, device: torch.device) -> Tensor:
    """What a position is multiplied with, for each pair of a head (head_size / 2,), in float32.

    `length`: of the text, which the scaling `dynamic` looks at (as transformers does it).
    """
    scaling, size = config.rope_scaling, config.head_size
    theta = config.rope_theta
    if scaling.rope_type == "dynamic" and length > config.max_position_embeddings:
        longer = scaling.factor * length / config.max_position_embeddings - (scaling.factor - 1)
        theta *= longer ** (size / (size - 2))
    exponents = torch.arange(0, size, 2, dtype=torch.float32, device=device) / size
    found = theta**-exponents
    if scaling.rope_type == "linear":
        return found / scaling.factor
    return _llama3(found, scaling) if scaling.rope_type == "llama3" else found


def _llama3(found: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1's: rotations that the first length saw often stay, those that it saw less than once
    are divided by the factor, and between the two is a straight passage.
    """
    turns = scaling.original_max_position_embeddings * found / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return found * (kept + (1.0 - kept) / scaling.factor)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + head_size / 2) of x (B, heads, T, head_size) by their angles."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def document_mask(positions: Tensor) -> Tensor:
    """What each token may look at: (B, 1, T, T), true for itself and for the tokens before it in
    its document, which begins at position 0.
    """
    documents = (positions == 0).cumsum(1)
    return (documents[:, None, :, None] == documents[:, None, None, :]).tril()


def window_mask(length: int, window: int, device: torch.device) -> Tensor:
    """What each token may look at through a sliding window: (1, 1, T, T), true for itself and for
    the `window` - 1 tokens before it.
    """
    places = torch.arange(length, device=device)
    before = places[:, None] - places[None, :]
    return ((before >= 0) & (before < window))[None, None]


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of q (B, heads, T, head_size) to k and v of as many or fewer heads (B, key heads,
    T, head_size); causal unless there is a mask.
    """
    groups = q.shape[1] // k.shape[1]
    shared = (
        groups > 1 and q.device.type == "cpu"
    )  # elsewhere not every kernel with a mask lets queries share a head
    if groups > 1 and not shared:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=shared
    )


class Attention(nn.Module):
    """Grouped-query attention."""

    def __init__(self, config: ModelConfig, layers: Layers) -> None:
        super().__init__()
        self.head_size = config.head_size
        queries, keys = (
            config.num_attention_heads * config.head_size,
            config.kv_heads * config.head_size,
        )
        bias = config.qkv_bias
        self.q_proj = layers.col(config.hidden_size, queries, bias=bias)
        self.k_proj = layers.col(config.hidden_size, keys, bias=bias)
        self.v_proj = layers.col(config.hidden_size, keys, bias=bias)
        self.o_proj = layers.row(queries, config.hidden_size)
        norms = config.qk_norm
        self.q_norm = layers.norm(config.head_size, config.rms_norm_eps) if norms else None
        self.k_norm = layers.norm(config.head_size, config.rms_norm_eps) if norms else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        # -1: this rank's heads; T is taken after the projection, which may have gathered the
        # sequence
        q = self._heads(self.q_proj(x), self.q_norm)
        k = self._heads(self.k_proj(x), self.k_norm)
        v = self._heads(self.v_proj(x))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        seen = attend(q, k, v.to(q.dtype), mask)
        merged: Tensor = self.o_proj(seen.transpose(1, 2).flatten(2))
        return merged

    def _heads(self, x: Tensor, norm: nn.Module | None = None) -> Tensor:
        """(B, T, heads * head_size) to (B, heads, T, head_size)."""
        heads = x.view(x.shape[0], x.shape[1], -1, self.head_size)
        return (heads if norm is None else norm(heads)).transpose(1, 2)


def gate(x: Tensor) -> Tensor:
    """The sigmoid linear unit.

    Written out where it is compiled: the backward pass then takes one exponential of each number
    and not two.
    """
    return x * x.sigmoid() if torch.compiler.is_compiling() else silu(x)


class SwiGLU(nn.Module):
    """The gated feed-forward layer."""

    def __init__(self, config: ModelConfig, layers: Layers) -> None:
        super().__init__()
        self.gate_proj = layers.col(config.hidden_size, config.intermediate_size)
        self.up_proj = layers.col(config.hidden_size, config.intermediate_size)
        self.down_proj = layers.row(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down_proj(gate(self.gate_proj(x)) * self.up_proj(x))
        return down


class Block(nn.Module):
    """One layer of the decoder."""

    def __init__(self, config: ModelConfig, layers: Layers) -> None:
        super().__init__()
        self.self_attn = Attention(config, layers)
        self.mlp = SwiGLU(config, layers)
        self.input_layernorm = layers.norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = layers.norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Embedding, blocks and the last norm."""

    def __init__(self, config: ModelConfig, layers: Layers) -> None:
        super().__init__()
        self.embed_tokens = layers.emb(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, layers) for _ in range(config.num_hidden_layers))
        self.norm = layers.norm(config.hidden_size, config.rms_norm_eps)


class Llama(nn.Module):
    """The whole model. Tied embeddings have no `lm_head`, as in Hugging Face's files."""

    def __init__(
        self, config: ModelConfig, layers: Layers, *, activation_checkpointing: bool = False
    ) -> None:
        super().__init__()
        self.config = config
        self.activation_checkpointing = activation_checkpointing
        self._loss = layers.loss
        self.model = Decoder(config, layers)
        self.lm_head = (
            None
            if config.tie_word_embeddings
            else layers.col(config.hidden_size, config.vocab_size)
        )

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """Logits (B, T, vocabulary) of tokens (B, T), on one tensor-parallel rank; with `targets`
        the sum of the loss over this batch.

        With `positions` (B, T) several documents share a sequence: each begins at position 0, and
        none sees another.
        """
        hidden = self._hidden(tokens, positions)
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        if targets is None:
            weight: Tensor = head.weight  # type: ignore[assignment]
            return linear(hidden, weight)
        return self._loss(head, hidden, targets)

    def _hidden(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        length, device = tokens.shape[1], tokens.device
        mask = None if positions is None else document_mask(positions)
        if 0 < self.config.sliding_window < length:
            seen = window_mask(length, self.config.sliding_window, device)
            mask = seen if mask is None else mask & seen
        if positions is None:
            positions = torch.arange(length, device=device)[None]
        cos, sin = rotary(positions, frequencies(self.config, length, device))
        x: Tensor = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            if self.activation_checkpointing and torch.is_grad_enabled():
                x = checkpoint(
                    block, x, cos, sin, mask, use_reentrant=False, preserve_rng_state=False
                )  # there is no dropout
            else:
                x = block(x, cos, sin, mask)
        hidden: Tensor = self.model.norm(x)
        return hidden


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every weight's name and whole shape, in the model's order."""
    from ..parallel.layers import PlainLayers

    with torch.device("meta"):
        model = Llama(config, PlainLayers())
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
