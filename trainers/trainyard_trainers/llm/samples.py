"""Texts that the model writes while it trains, so that people see what the loss means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..common.bounds import NOT_NEGATIVE, Bounded, at_least
from ..common.meaning import Meaning
from ..parallel.backend import Backend
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class SamplesConfig(Bounded):
    """Which texts, how long, and how often."""

    prompts: Annotated[
        tuple[str, ...],
        Meaning(
            "beginnings that the model goes on from, with commas between them; one that has commas "
            "itself goes into a list in a file (--config)",
            free=True,
        ),
    ] = ()
    every: Annotated[
        int, NOT_NEGATIVE, Meaning("steps between two looks; 0: one, after the last", free=True)
    ] = 0
    tokens: Annotated[int, at_least(1), Meaning("tokens of a text, at most", free=True)] = 48
    temperature: Annotated[
        float,
        NOT_NEGATIVE,
        Meaning("0: always the likeliest token; 1: as the model has it", free=True),
    ] = 0.0
    tokenizer: Annotated[
        str,
        Meaning("that of the data: a Hugging Face directory, or 'bytes'", free=True),
    ] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompts and not self.tokenizer:
            raise ValueError(
                "tokenizer: it is missing, and prompts need it; give the directory that the data "
                "were packed with, or 'bytes'"
            )

    def due(self, step: int, steps: int) -> bool:
        """Whether texts are written after `step` of `steps`."""
        if not self.prompts:
            return False
        return step == steps or bool(self.every and step % self.every == 0)


@torch.no_grad()
def written(
    config: SamplesConfig,
    tokenizer: Tokenizer,
    model: Any,
    backend: Backend,
    *,
    seed: int,
    spread: bool,
) -> list[str]:
    """What the model makes of each prompt. Draws nothing of the training's random numbers.

    `spread`: the model lies over all ranks, so all of them call it, and go on with the first one's
    tokens.
    """
    texts = []
    for prompt in config.prompts:
        given = tokenizer.encode(prompt) or [tokenizer.end]
        made = _tokens(config, given, tokenizer.end, model, backend, seed, spread)
        texts.append(tokenizer.decode(made))
    return texts


def _tokens(
    config: SamplesConfig,
    given: list[int],
    end: int,
    model: Any,
    backend: Backend,
    seed: int,
    spread: bool,
) -> list[int]:
    longest: int = model.config.max_position_embeddings
    given = given[-max(1, longest - config.tokens) :]
    length = min(longest, len(given) + config.tokens)
    # One length for all looks, so that compiled blocks are compiled once: no token sees what
    # follows it.
    text = torch.zeros((1, length), dtype=torch.int64)
    text[0, : len(given)] = torch.tensor(given)
    generator = torch.Generator().manual_seed(seed)
    made: list[int] = []
    for place in range(len(given), length):
        with backend.forwarding(last=True):
            logits = model(text.to(backend.device))[0, place - 1].float().cpu()
        token = _chosen(logits, config.temperature, generator)
        if spread:
            dist.broadcast(token, 0)
        if int(token) == end:
            break
        made.append(int(token))
        text[0, place] = token
    return made


def _chosen(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if not temperature:
        return logits.argmax()
    return torch.multinomial((logits / temperature).softmax(0), 1, generator=generator)[0]
