"""The encoder-decoder transformer, and its decoder a token at a time.

A. Vaswani et al., "Attention Is All You Need" (2017), with one matrix for all embeddings and the
output (section 3.4), and with the norms before the layers instead of behind them (R. Xiong et al.,
"On Layer Normalization in the Transformer Architecture", 2020): it trains without a long warm-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..common.bounds import Bound, Bounded, at_least
from ..common.meaning import Meaning
from .vocabulary import BEGIN, PAD


@dataclass(frozen=True)
class ModelConfig(Bounded):
    """The shape of the transformer."""

    layers: Annotated[int, at_least(1), Meaning("of the encoder, and as many of the decoder")] = 6
    width: Annotated[int, at_least(1), Meaning("of embeddings and layers")] = 512
    heads: Annotated[int, at_least(1), Meaning("of attention; they share the width")] = 8
    feed_forward: Annotated[int, at_least(1), Meaning("width of the hidden layers")] = 2048
    dropout: Annotated[
        float,
        Bound("is no share of what is dropped; use 0 or more and less than 1", ge=0, lt=1),
        Meaning("share of the activations that are left out in training"),
    ] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % (2 * self.heads):
            fits = [heads for heads in range(1, self.width) if self.width % (2 * heads) == 0]
            raise ValueError(
                f"heads: {self.heads} do not divide width {self.width} into even parts; use one of "
                f"{', '.join(map(str, fits))}"
            )


def positions(first: int, count: int, width: int, device: torch.device) -> Tensor:
    """Sines and cosines of `count` positions from `first` on, shape (count, width)."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(first, first + count, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Attention(nn.Module):
    """Several heads of attention; keys and values are made apart from the queries, so that a
    decoder can keep them.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.query, self.key, self.value, self.out = (
            nn.Linear(config.width, config.width) for _ in range(4)
        )

    def _split(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)

    def keys_values(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of (batch, length, width), each (batch, heads, length, width / heads)."""
        return self._split(self.key(rows)), self._split(self.value(rows))

    def forward(
        self,
        rows: Tensor,
        kept: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """What each of the rows (batch, length, width) gathers; `mask` is true where it may
        look.
        """
        dropout = self.dropout if self.training else 0.0
        gathered = functional.scaled_dot_product_attention(
            self._split(self.query(rows)), *kept, mask, dropout, causal
        )
        out: Tensor = self.out(gathered.transpose(1, 2).flatten(2))
        return out


def feed_forward(config: ModelConfig) -> nn.Sequential:
    """The two linear layers of a block."""
    hidden = nn.Linear(config.width, config.feed_forward)
    return nn.Sequential(
        hidden, nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(config.feed_forward, config.width)
    )


class EncoderLayer(nn.Module):
    """Attention to the source, then the hidden layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention, self.hidden = Attention(config), feed_forward(config)
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        normed = self.norms[0](rows)
        rows = rows + self.dropout(self.attention(normed, self.attention.keys_values(normed), mask))
        out: Tensor = rows + self.dropout(self.hidden(self.norms[1](rows)))
        return out


class DecoderLayer(nn.Module):
    """Attention to what is said so far, attention to the source, then the hidden layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.own, self.cross, self.hidden = (
            Attention(config),
            Attention(config),
            feed_forward(config),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        rows: Tensor,
        said: tuple[Tensor, Tensor] | None,
        source: tuple[Tensor, Tensor],
        mask: Tensor,
    ) -> Tensor:
        """`said`: keys and values of all that was said, these rows included; None: only these rows,
        each of which sees those before it.
        """
        normed = self.norms[0](rows)
        if said is None:
            rows = rows + self.dropout(self.own(normed, self.own.keys_values(normed), causal=True))
        else:
            rows = rows + self.dropout(self.own(normed, said))
        rows = rows + self.dropout(self.cross(self.norms[1](rows), source, mask))
        out: Tensor = rows + self.dropout(self.hidden(self.norms[2](rows)))
        return out


class Transformer(nn.Module):
    """Source tokens and the target's beginning in, logits of its next tokens out."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)

    def decoder_layers(self) -> list[DecoderLayer]:
        """The decoder's layers, first to last."""
        return cast(list[DecoderLayer], list(self.decoder))

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens (batch, length), the first at position `first`, as (batch, length, width)."""
        width = self.config.width
        placed: Tensor = self.embedding(tokens) * math.sqrt(width) + positions(
            first, tokens.shape[1], width, tokens.device
        )
        out: Tensor = self.dropout(placed)
        return out

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """(rows (batch, length, width), mask (batch, 1, 1, length) that is true where there is a
        token).
        """
        rows, mask = self.embed(source), (source != PAD)[:, None, None, :]
        for layer in self.encoder:
            rows = layer(rows, mask)
        return self.norms[0](rows), mask

    def logits(self, rows: Tensor) -> Tensor:
        """Decoder rows (..., width) as logits (..., vocabulary)."""
        return functional.linear(self.norms[1](rows), self.embedding.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, T, vocabulary) of what comes after each token of `target` (batch, T),
        given `source` (batch, S).
        """
        memory, mask = self.encode(source)
        rows = self.embed(target)
        for layer in self.decoder_layers():
            rows = layer(rows, None, layer.cross.keys_values(memory), mask)
        return self.logits(rows)


class Decoding:
    """The decoder a token at a time, as `search.Step`: keys and values of what was said are kept.

    `width` rows for each source sentence.
    """

    def __init__(self, model: Transformer, source: Tensor, width: int) -> None:
        memory, mask = model.encode(source)
        memory = memory.repeat_interleave(width, dim=0)
        self._model, self._mask = model, mask.repeat_interleave(width, dim=0)
        self._source = [layer.cross.keys_values(memory) for layer in model.decoder_layers()]
        self._said: list[tuple[Tensor, Tensor] | None] = [None] * len(model.decoder)
        self._length = 0

    def __call__(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Log-probabilities (rows, vocabulary); a row's parent belongs to the same sentence, so
        what is kept of the source stays.
        """
        rows = self._model.embed(tokens[:, None], self._length)
        self._length += 1
        for place, layer in enumerate(self._model.decoder_layers()):
            said = self._kept(place, layer, rows, parents)
            rows = layer(rows, said, self._source[place], self._mask)
        logits = self._model.logits(rows[:, 0]).float()
        logits[:, [PAD, BEGIN]] = -math.inf  # nothing that could be said
        return logits.log_softmax(dim=-1)

    def _kept(
        self, place: int, layer: DecoderLayer, rows: Tensor, parents: Tensor
    ) -> tuple[Tensor, Tensor]:
        keys, values = layer.own.keys_values(layer.norms[0](rows))
        before = self._said[place]
        if before is not None:
            keys, values = (
                torch.cat([old[parents], new], dim=2)
                for old, new in zip(before, (keys, values), strict=True)
            )
        self._said[place] = (keys, values)
        return keys, values
