"""Beam search: greedy at width 1, better where greedy is caught, exhaustive when wide enough."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainyard_trainers.translate.model import Decoding, ModelConfig, Transformer
from trainyard_trainers.translate.search import Hypothesis, beam_search, penalty
from trainyard_trainers.translate.vocabulary import BEGIN, END, PAD

#: What a model of the tests says after a beginning: probabilities of the tokens.
Table = Callable[[tuple[int, ...]], list[float]]


class TableStep:
    """A language model of one sentence: all words so far look up what may come next."""

    def __init__(self, table: Table, width: int, sentences: int = 1) -> None:
        self.table = table
        self.said: list[tuple[int, ...]] = [()] * (width * sentences)

    def __call__(self, tokens: Tensor, parents: Tensor) -> Tensor:
        self.said = [
            (*self.said[parent], token)
            for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True)
        ]
        return torch.tensor([self.table(said[1:]) for said in self.said]).log()


def trap(said: tuple[int, ...]) -> list[float]:
    """Token 3 looks better than token 4 at first, but only 4 leads to a sure end."""
    after: dict[tuple[int, ...], list[float]] = {
        (): [0, 0, 0, 0.6, 0.4],
        (3,): [0, 0, 0.36, 0.34, 0.3],
        (4,): [0, 0, 1, 0, 0],
    }
    return after.get(said, [0, 0, 0.4, 0.3, 0.3])


def test_a_beam_of_two_finds_what_greedy_search_misses() -> None:
    greedy = beam_search(TableStep(trap, 1), [6], 1, 0.0)[0]
    wide = beam_search(TableStep(trap, 2), [6], 2, 0.0)[0]
    assert greedy.tokens == [3]
    assert greedy.score == pytest.approx(math.log(0.6 * 0.36))
    assert wide == Hypothesis([4], pytest.approx(math.log(0.4)))


def drawn(seed: int, vocabulary: int) -> Table:
    """A table without rhyme or reason."""
    known: dict[tuple[int, ...], list[float]] = {}

    def table(said: tuple[int, ...]) -> list[float]:
        if said not in known:
            generator = torch.Generator().manual_seed(hash((seed, said)) % 2**31)
            odds = torch.randn(vocabulary, generator=generator).mul(1.5).exp()
            odds[[PAD, BEGIN]] = 0
            known[said] = (odds / odds.sum()).tolist()
        return known[said]

    return table


def best_of_all(table: Table, vocabulary: int, limit: int, strength: float) -> Hypothesis:
    """Every sentence that ends within the limit, looked at."""
    found = []
    for length in range(limit):
        for said in itertools.product(range(END + 1, vocabulary), repeat=length):
            chances = [table(said[:place])[token] for place, token in enumerate((*said, END))]
            found.append(
                Hypothesis(list(said), sum(map(math.log, chances)) / penalty(length + 1, strength))
            )
    return max(found, key=lambda one: one.score)


@pytest.mark.parametrize("strength", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_all_there_is_finds_the_best_of_all(seed: int, strength: float) -> None:
    table, vocabulary, limit = drawn(seed, 6), 6, 4
    width = 4**limit
    found = beam_search(TableStep(table, width), [limit], width, strength)[0]
    best = best_of_all(table, vocabulary, limit, strength)
    assert found.tokens == best.tokens
    assert found.score == pytest.approx(best.score, rel=1e-4)


def test_a_strong_length_penalty_prefers_the_longer_sentence() -> None:
    def table(said: tuple[int, ...]) -> list[float]:
        return {(): [0, 0, 0.5, 0.5], (3,): [0, 0, 0.05, 0.95], (3, 3): [0, 0, 0.9, 0.1]}.get(
            said, [0, 0, 1.0, 0]
        )

    assert beam_search(TableStep(table, 3), [5], 3, 0.0)[0].tokens == []
    assert beam_search(TableStep(table, 3), [5], 3, 2.0)[0].tokens == [3, 3]


def test_a_sentence_that_never_ends_stops_at_its_limit() -> None:
    found = beam_search(TableStep(lambda _: [0, 0, 0, 0.7, 0.3], 2, 2), [3, 5], 2, 0.6)
    assert [one.tokens for one in found] == [[3] * 3, [3] * 5]


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(3)
    made = Transformer(
        ModelConfig(layers=2, width=16, heads=2, feed_forward=32, dropout=0.2), 20
    ).eval()
    with torch.no_grad():
        for (
            name,
            parameter,
        ) in (
            made.named_parameters()
        ):  # as sure of itself as a trained one, and not just repeating its last token
            parameter.mul_(0.7 if name == "embedding.weight" else 2.5)
    return made


SOURCE = torch.tensor([[5, 9, 11, 2, 0, 0], [7, 7, 13, 14, 4, 2], [19, 2, 0, 0, 0, 0]])


def greedy(model: Transformer, source: Tensor, limit: int) -> list[int]:
    """One sentence without a memory: each token decodes the whole beginning again."""
    said: list[int] = []
    while len(said) < limit:
        logits = model(source[None], torch.tensor([[BEGIN, *said]]))[0, -1]
        logits[[PAD, BEGIN]] = -math.inf
        said.append(int(logits.argmax()))
        if said[-1] == END:
            return said[:-1]
    return said


@torch.no_grad()
def test_a_beam_of_width_one_is_greedy_search_and_padding_changes_nothing(
    model: Transformer,
) -> None:
    together = beam_search(Decoding(model, SOURCE, 1), [12, 12, 12], 1, 0.6)
    alone = [greedy(model, source[source != PAD], 12) for source in SOURCE]
    assert [one.tokens for one in together] == alone
    assert len(set(map(tuple, alone))) == 3


@torch.no_grad()
def test_the_decoder_that_keeps_what_was_said_says_what_the_whole_one_says(
    model: Transformer,
) -> None:
    target = torch.tensor([[BEGIN, 8, 3, 17], [BEGIN, 4, 4, 9], [BEGIN, 12, 6, 3]])
    whole = model(SOURCE, target)
    whole[:, :, [PAD, BEGIN]] = -math.inf
    step, parents = Decoding(model, SOURCE, 1), torch.arange(3)
    for place in range(4):
        assert torch.allclose(
            step(target[:, place], parents),
            whole[:, place].log_softmax(dim=-1),
            atol=1e-4,
            rtol=1e-4,
        )


@torch.no_grad()
def test_the_score_of_a_hypothesis_is_what_the_model_gives_its_sentence(model: Transformer) -> None:
    for found, source in zip(
        beam_search(Decoding(model, SOURCE, 4), [14] * 3, 4, 0.8), SOURCE, strict=True
    ):
        said = [*found.tokens, END]
        logits = model(source[source != PAD][None], torch.tensor([[BEGIN, *found.tokens]]))[0]
        logits[:, [PAD, BEGIN]] = -math.inf
        chances = logits.log_softmax(dim=-1)[torch.arange(len(said)), said]
        assert len(found.tokens) < 14
        assert found.score == pytest.approx(
            float(chances.sum()) / penalty(len(said), 0.8), rel=1e-3
        )
