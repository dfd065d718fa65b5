"""Beam search: keeps the best few beginnings of every sentence and adds a token at a time, for any
model that can say what comes next.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .vocabulary import BEGIN, END


class Step(Protocol):
    """A model that continues rows of text."""

    def __call__(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Log-probabilities (rows, vocabulary) of what comes next, when row i is what row
        parents[i] was before, and tokens[i].
        """


class Hypothesis(NamedTuple):
    """A sentence without END, and its log-probability divided by the penalty of its length (END
    counted).
    """

    tokens: list[int]
    score: float


def penalty(length: int, strength: float) -> float:
    """What a log-probability is divided by.

    Y. Wu et al., "Google's Neural Machine Translation System" (2016), equation 14.
    """
    return float(((5 + length) / 6) ** strength)


@torch.no_grad()
def beam_search(
    step: Step, limits: list[int], width: int, strength: float, device: torch.device | None = None
) -> list[Hypothesis]:
    """The best hypothesis found for each of the sentences, whose rows are `width` each in `step`.

    A hypothesis ends with END when that is among the `width` best continuations. A sentence is done
    when `width` hypotheses have ended, when no open one can still beat the best, or at its limit of
    tokens (END counted); there the best open one is taken if none has ended. `strength` of the
    length penalty is 0 or more. With width 1 this is greedy search.
    """
    return _Search(step, limits, width, strength, device).run()


class _Search:
    def __init__(
        self,
        step: Step,
        limits: list[int],
        width: int,
        strength: float,
        device: torch.device | None,
    ) -> None:
        self.step, self.limits, self.width, self.strength = step, limits, width, strength
        sentences = len(limits)
        # At first all rows of a sentence are alike, so only one of them counts.
        self.scores = torch.full((sentences, width), -math.inf, device=device)
        self.scores[:, 0] = 0
        self.tokens = torch.full((sentences, width), BEGIN, device=device)
        self.parents = torch.arange(sentences * width, device=device).view(sentences, width)
        self.said = torch.empty((sentences, width, 0), dtype=torch.int64, device=device)
        self.ended: list[list[Hypothesis]] = [[] for _ in limits]
        self.chosen: dict[int, Hypothesis] = {}

    def run(self) -> list[Hypothesis]:
        length = 0
        while len(self.chosen) < len(self.limits):
            length += 1
            self._advance(length)
            self._choose(length)
        return [self.chosen[sentence] for sentence in range(len(self.limits))]

    def _advance(self, length: int) -> None:
        """One token more: note what ends, go on with the `width` best that do not."""
        found = self.step(self.tokens.flatten(), self.parents.flatten())
        vocabulary = found.shape[1]
        totals = (self.scores.flatten()[:, None] + found).view(len(self.limits), -1)
        # Each row can end in one way only, so twice the width holds `width` that go on.
        best, places = totals.topk(min(2 * self.width, totals.shape[1]), dim=1)
        rows, tokens = places // vocabulary, places % vocabulary
        self._note(best, rows, tokens, length)
        going_on = (tokens == END).long().argsort(dim=1, stable=True)[:, : self.width]
        self.scores, rows, self.tokens = (of.gather(1, going_on) for of in (best, rows, tokens))
        self.scores = self.scores.masked_fill(
            self.tokens == END, -math.inf
        )  # a vocabulary so small that too few go on
        self.said = torch.cat(
            [
                self.said.gather(1, rows[:, :, None].expand(-1, -1, length - 1)),
                self.tokens[:, :, None],
            ],
            dim=2,
        )
        self.parents = (
            rows + torch.arange(len(self.limits), device=rows.device)[:, None] * self.width
        )

    def _note(self, best: Tensor, rows: Tensor, tokens: Tensor, length: int) -> None:
        among = (tokens[:, : self.width] == END) & best[:, : self.width].isfinite()
        for sentence, place in among.nonzero().tolist():
            said = self.said[sentence, rows[sentence, place]].tolist()
            self.ended[sentence].append(
                Hypothesis(said, float(best[sentence, place]) / penalty(length, self.strength))
            )

    def _choose(self, length: int) -> None:
        hopes = self.scores.max(
            dim=1
        ).values.tolist()  # log-probabilities only fall: the best that can still come
        for sentence, limit in enumerate(self.limits):
            if sentence in self.chosen:
                continue
            ended = self.ended[sentence]
            best = max(ended, key=lambda one: one.score, default=None)
            if length >= limit and best is None:
                self.chosen[sentence] = self._open(sentence, length)
            elif best and (
                length >= limit
                or len(ended) >= self.width
                or best.score >= hopes[sentence] / penalty(limit, self.strength)
            ):
                self.chosen[sentence] = best

    def _open(self, sentence: int, length: int) -> Hypothesis:
        row = int(self.scores[sentence].argmax())
        score = float(self.scores[sentence, row]) / penalty(length, self.strength)
        return Hypothesis(self.said[sentence, row].tolist(), score)
