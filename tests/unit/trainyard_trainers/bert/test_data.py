"""Pairs in MRPC's format: what is read, what is refused, and with which place; rates and scores."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trainyard_trainers.bert.data import Encoded, Pair, read_pairs
from trainyard_trainers.bert.train import BertConfig, Score, rate_factor
from trainyard_trainers.common.config import ConfigError, build

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def file_of(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_quotes_are_data_and_a_byte_order_mark_and_windows_line_ends_are_not(
    tmp_path: Path,
) -> None:
    text = HEADER + '1\t1\t2\t"Yes," he said.\tHe said "yes\n0\t3\t4\tOne\u2028line\ttwo\n'
    path = file_of(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert read_pairs(path, "train") == [
        Pair(1, '"Yes," he said.', 'He said "yes'),
        Pair(0, "One\u2028line", "two"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t1\t2\tonly one", "line 3: 4 columns instead of 5"),
        ("1\t1\t2\ta\tb\tc", "line 3: 6 columns instead of 5"),
        ("", "line 3: 1 columns instead of 5"),
        ("2\t1\t2\ta\tb", "line 3: Quality is '2'; it must be 0 or 1"),
        ("1\t1\t2\ta\t ", "line 3: a sentence is empty"),
    ],
)
def test_a_malformed_line_is_named_with_its_file(tmp_path: Path, line: str, message: str) -> None:
    path = file_of(tmp_path, f"{HEADER}1\t1\t2\ta\tb\n{line}\n0\t1\t2\ta\tb\n")
    with pytest.raises(ConfigError, match=f"^validation: {path}, {message}"):
        read_pairs(path, "validation")


def test_bytes_that_are_not_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, HEADER.encode() + b"1\t1\t2\tna\xefve\tb\n")
    with pytest.raises(ConfigError, match="line 2: byte 9 is not UTF-8"):
        read_pairs(path, "train")


@pytest.mark.parametrize(
    "text", ["", "1\t1\t2\ta\tb\n", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\n"]
)
def test_a_file_without_the_header_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="line 1: it must be the header: Quality, #1 ID"):
        read_pairs(file_of(tmp_path, text), "train")


def test_a_file_that_is_absent_or_holds_no_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^train: .*absent.tsv cannot be read: No such file"):
        read_pairs(tmp_path / "absent.tsv", "train")
    with pytest.raises(ConfigError, match="holds no pair"):
        read_pairs(file_of(tmp_path, HEADER), "train")


def test_a_batch_is_as_long_as_its_longest_pair_and_no_longer() -> None:
    data = Encoded(
        [[5, 6], [7], [1, 2, 3, 4]], [[0, 1], [0], [0, 0, 1, 1]], torch.tensor([1, 0, 1]), pad=9
    )
    inputs, labels = data.batch([1, 0])
    assert inputs["input_ids"].tolist() == [[7, 9], [5, 6]]
    assert inputs["attention_mask"].tolist() == [[1, 0], [1, 1]]
    assert inputs["token_type_ids"].tolist() == [[0, 0], [0, 1]]
    assert labels.tolist() == [0, 1]


def settings(**values: object) -> BertConfig:
    return build(BertConfig, {"model": "m", "train": "t", "validation": "v", **values})


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_rate_rises_to_its_peak_in_the_warm_up_and_falls_towards_0_at_the_last_step(
    schedule: str,
) -> None:
    factors = [
        rate_factor(settings(steps=50, warmup_steps=10, schedule=schedule), step)
        for step in range(1, 51)
    ]
    assert factors[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert factors[9:] == sorted(factors[9:], reverse=True)
    assert 0 < factors[-1] < 0.03
    assert factors[29] == pytest.approx(0.5, abs=0.02)  # halfway down both are at half


def test_a_rate_without_warm_up_begins_near_its_peak() -> None:
    assert rate_factor(settings(steps=100, warmup_steps=0), 1) == pytest.approx(1, abs=0.011)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch": 0}, "^batch: 0 is too small; use 1 or more"),
        (
            {"steps": 10, "warmup_steps": 11},
            "^warmup_steps: 11 are more than all steps; use at most 10",
        ),
        ({"learning_rate": 0}, "^learning_rate: 0.0 must be above 0"),
        ({"learning_rate": "nan"}, "^learning_rate: 'nan' is not a finite number"),
        ({"schedule": "square"}, "^schedule: 'square' is not one of linear, cosine"),
        ({"btach": 3}, "^btach: there is no such key; did you mean batch"),
    ],
)
def test_a_bad_value_is_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(**values)


def test_the_model_has_no_default() -> None:
    with pytest.raises(ConfigError, match=r"^model: it is missing and has no default"):
        build(BertConfig, {"train": "t", "validation": "v"})


def test_accuracy_and_f1_agree_with_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score, f1_score

    true, said = [1, 1, 1, 0, 0, 1, 0, 1], [1, 0, 1, 1, 0, 1, 0, 0]
    right = sum(a == b for a, b in zip(true, said, strict=True))
    hits = sum(a == b == 1 for a, b in zip(true, said, strict=True))
    score = Score.of(7, torch.tensor([8, right, hits, 8 - right, 4.0], dtype=torch.float64))
    assert (score.accuracy, score.f1) == (
        accuracy_score(true, said),
        pytest.approx(f1_score(true, said)),
    )
    assert (score.step, score.pairs, score.loss) == (7, 8, 0.5)


def test_f1_is_0_where_no_paraphrase_is_found() -> None:
    assert Score.of(1, torch.tensor([2, 1, 0, 1, 1.0], dtype=torch.float64)).f1 == 0.0
