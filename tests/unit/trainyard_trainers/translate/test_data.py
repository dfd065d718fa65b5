"""Parallel text, the vocabulary, batches by tokens, rates and errors of the translation trainer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.repository import ROOT

from trainyard_trainers.common import packages
from trainyard_trainers.common.config import ConfigError, build
from trainyard_trainers.translate.data import Batches, Corpus, ParallelText, Rows
from trainyard_trainers.translate.train import TrainConfig, learning_rate
from trainyard_trainers.translate.vocabulary import BEGIN, END, PAD, Vocabulary

SAMPLE = ROOT / "tests" / "data" / "en-de" / "train"


def text_of(tmp_path: Path, english: str, german: str) -> ParallelText:
    (tmp_path / "corpus.en").write_bytes(english.encode())
    (tmp_path / "corpus.de").write_bytes(german.encode())
    return ParallelText("train", str(tmp_path / "corpus"), "en", "de")


def table_of(tmp_path: Path, content: bytes) -> ParallelText:
    (tmp_path / "corpus.tsv").write_bytes(content)
    return ParallelText("train", str(tmp_path / "corpus.tsv"), "en", "de")


@pytest.fixture(scope="module")
def sample() -> ParallelText:
    return ParallelText("train", str(SAMPLE), "en", "de")


@pytest.fixture(scope="module")
def vocabulary(sample: ParallelText) -> Vocabulary:
    return Vocabulary.train((line for pair in sample.pairs() for line in pair), 400)


def test_two_files_and_one_tab_separated_file_hold_the_same_pairs(
    sample: ParallelText, tmp_path: Path
) -> None:
    pairs = list(sample.pairs())
    table = table_of(
        tmp_path, "".join(f"{english}\t{german}\r\n" for english, german in pairs).encode()
    )
    assert list(table.pairs()) == pairs
    assert len(pairs) == 32


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path: Path) -> None:
    text = text_of(tmp_path, "one\n\n three \n \nfive\u2028six\n", "eins\nzwei\ndrei\n\nfünf\n")
    assert list(text.pairs()) == [("one", "eins"), ("three", "drei"), ("five\u2028six", "fünf")]
    assert text.empty == 2
    assert (len(list(text.pairs())), text.empty) == (3, 2)


@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        ("a\nb\nc\n", "a\n", r"corpus.de has 1 lines, but .*corpus.en has 3"),
        ("a\n", "a\nb", r"corpus.en has 1 lines, but .*corpus.de has 2"),
        ("", "a\nb\nc", r"corpus.en has 0 lines, but .*corpus.de has 3"),
    ],
)
def test_unequal_numbers_of_lines_are_named(
    tmp_path: Path, english: str, german: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^train: .*{message}; each line"):
        list(text_of(tmp_path, english, german).pairs())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nc\n", "line 2: 1 columns instead of 2"),
        (b"a\tb\tc\n", "line 1: 3 columns instead of 2"),
        (b"a\tb\nc\t\xff\n", "line 2: byte 3 is not UTF-8"),
        (b"\t\n\n", "line 2: 1 columns"),
        (b" \t\n", "holds no pair"),
    ],
)
def test_a_bad_line_of_a_table_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^train: .*corpus.tsv.*{message}"):
        list(table_of(tmp_path, content).pairs())


def test_a_text_that_is_absent_is_named_with_both_ways_to_give_one(tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("a\n")
    with pytest.raises(
        ConfigError,
        match=r"^validation: there is no file .*corpus.de; give a file that ends in .tsv, or",
    ):
        ParallelText("validation", str(tmp_path / "corpus"), "en", "de")


@settings(deadline=None, max_examples=60)
@given(text=st.text(max_size=40))
def test_every_text_comes_back_from_its_tokens(vocabulary: Vocabulary, text: str) -> None:
    line = " ".join(text.split())
    tokens = vocabulary.encode([line])[0]
    assert vocabulary.decode([BEGIN, *tokens, PAD]) == line
    assert tokens[-1] == END
    assert not {PAD, BEGIN, END} & set(tokens[:-1])
    assert max(tokens) < len(vocabulary)


def test_the_same_text_gives_the_same_vocabulary(
    sample: ParallelText, vocabulary: Vocabulary
) -> None:
    lines = [line for pair in sample.pairs() for line in pair]
    assert Vocabulary.train(lines, 400).document == vocabulary.document
    assert len(vocabulary) == 400
    assert Vocabulary(vocabulary.document).encode(lines[:2]) == vocabulary.encode(lines[:2])


def test_a_vocabulary_that_has_no_room_for_all_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^vocabulary_size: 200 is too small .* use 259 or more"):
        Vocabulary.train(["a"], 200)


def corpus_of(lengths: list[tuple[int, int]]) -> Corpus:
    sides = [
        Rows([torch.full((sum(side),), 5, dtype=torch.int32)], side)
        for side in (list(one) for one in zip(*lengths, strict=True))
    ]
    return Corpus(sides[0], sides[1], 0, "")


LENGTHS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=60)


@settings(deadline=None)
@given(lengths=LENGTHS, limit=st.integers(20, 100), seed=st.integers(0, 5))
def test_batches_hold_every_pair_once_and_never_more_than_the_limit(
    lengths: list[tuple[int, int]], limit: int, seed: int
) -> None:
    corpus = corpus_of(lengths)
    batches = Batches(corpus, limit, seed)
    found = [batches[place] for place in range(len(batches))]
    assert sorted(torch.cat(found).tolist()) == list(range(len(lengths)))
    for place, indices in enumerate(found):
        source, read, wanted = corpus.batch(indices)
        assert source.numel() <= limit
        assert wanted.shape == read.shape
        assert wanted.numel() <= limit
        assert (
            int(batches.target_tokens[place])
            == int((wanted != PAD).sum())
            == sum(lengths[pair][1] for pair in indices.tolist())
        )


def test_batches_follow_from_the_seed_and_mix_pairs_of_one_length() -> None:
    corpus = corpus_of([(4, 4)] * 40)

    def of(seed: int) -> list[list[int]]:
        batches = Batches(corpus, 32, seed)
        return [batches[place].tolist() for place in range(len(batches))]

    assert of(1) == of(1)
    assert of(1) != of(2)
    assert {len(batch) for batch in of(1)} == {8}


def test_batches_of_like_lengths_are_nearly_full() -> None:
    generator = torch.Generator().manual_seed(0)
    corpus = corpus_of(torch.randint(3, 40, (2000, 1), generator=generator).expand(-1, 2).tolist())
    batches = Batches(corpus, 1000, 1)
    tokens = int(corpus.target.lengths.sum())
    assert int(batches.target_tokens.sum()) == tokens
    assert len(batches) < 1.1 * tokens / 1000


def test_the_tokens_of_a_batch_are_those_of_its_lines(
    sample: ParallelText, vocabulary: Vocabulary
) -> None:
    pairs, corpus = list(sample.pairs()), Corpus.of(sample, vocabulary, 64)
    source, read, wanted = corpus.batch(torch.tensor([30, 2]))
    for row, place in enumerate((30, 2)):
        assert vocabulary.decode(source[row].tolist()) == pairs[place][0]
        assert vocabulary.decode(wanted[row].tolist()) == pairs[place][1]
        assert read[row, 0] == BEGIN
        assert torch.equal(read[row, 1:], wanted[row, :-1])


def test_pairs_that_are_too_long_are_left_out_and_counted(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    text = text_of(tmp_path, "a\nb b b b b b b b b\nc\n", "a\nb\nc c c c c c c c c c\n")
    corpus = Corpus.of(text, vocabulary, 6)
    assert (len(corpus), corpus.too_long) == (1, 2)
    with pytest.raises(ConfigError, match=r"^max_tokens: every pair of .* has more than 1 tokens"):
        Corpus.of(text, vocabulary, 1)


def config_of(**values: object) -> TrainConfig:
    return build(TrainConfig, {"train": "corpus", **values})


def test_the_rate_rises_in_a_line_and_falls_with_the_inverse_square_root() -> None:
    settings_ = config_of(learning_rate=0.5, warmup_steps=100)
    assert [learning_rate(settings_, step) for step in (1, 50, 100, 400, 10_000)] == pytest.approx(
        [0.005, 0.25, 0.5, 0.25, 0.05]
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"tokens_per_batch": 100, "max_tokens": 128},
            "^tokens_per_batch: 100 are too few for a pair of max_tokens 128; use 128 or more",
        ),
        ({"warmup_steps": 0}, "^warmup_steps: 0 is too small; use 1 or more"),
        ({"label_smoothing": 1}, "^label_smoothing: 1.0 is no share"),
        (
            {"model": {"heads": 7}},
            "^model.heads: 7 do not divide width 512 into even parts; use one of 1, 2, 4, 8",
        ),
        ({"model": {"dropout": 1}}, "^model.dropout: 1.0 is no share"),
        ({"model": {"depth": 3}}, "^model.depth: there is no such key; did you mean model.width"),
        ({"search": {"beam": 0}}, "^search.beam: 0 is too small"),
        ({"search": {"length_penalty": -1}}, "^search.length_penalty: -1.0 would prefer"),
    ],
)
def test_a_bad_value_is_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(**values)


def test_a_package_that_is_missing_is_named_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(
        packages.PackageMissing,
        match=r"^validation: BLEU needs the package sacrebleu, .*pip install sacrebleu",
    ):
        packages.needed("sacrebleu", "validation: BLEU")
