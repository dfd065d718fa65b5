"""Rows come from what people have, one after the other, and what does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.common.packages import PackageMissing
from trainyard_trainers.llm import inputs


def test_rows_of_json_lines_are_numbered_and_text_files_are_whole(tmp_path: Path) -> None:
    lines, text = tmp_path / "a.jsonl", tmp_path / "a.txt"
    lines.write_text('{"text": "one"}\n{"text": "two"}\n')
    text.write_text("all\nof it")
    assert list(inputs.rows(lines)) == [(1, {"text": "one"}), (2, {"text": "two"})]
    assert [*inputs.texts(lines, "text"), *inputs.texts(text, "text")] == [
        "one",
        "two",
        "all\nof it",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 of .* is not JSON"),
        (json.dumps({"body": "x"}), "line 1 of .* has no text under 'text', it has body"),
        ("[1]", r"line 1 of .* has no text under 'text', it has \[1\]"),
        (json.dumps({"text": None}), "line 1 of .* has no text under 'text'"),
    ],
)
def test_a_row_without_its_text_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ConfigError, match=message):
        list(inputs.texts(path, "text"))


def test_rows_are_not_taken_from_a_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no rows; give a \.jsonl or \.parquet file"):
        inputs.rows(tmp_path / "a.txt")


def test_rows_of_parquet_are_those_that_were_written(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"messages": [{"role": "user", "content": str(number)}]} for number in range(3000)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [row for _, row in inputs.rows(tmp_path / "a.parquet")] == rows
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ConfigError, match=r"b\.parquet cannot be read"):
        list(inputs.rows(tmp_path / "b.parquet"))


def test_rows_of_a_saved_data_set_are_those_that_were_saved(tmp_path: Path) -> None:
    import datasets

    rows = [{"text": str(number)} for number in range(5)]
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "one"))
    assert [row for _, row in inputs.rows(tmp_path / "one")] == rows
    both = datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)})
    both.save_to_disk(str(tmp_path / "both"))
    with pytest.raises(ConfigError, match=r"holds train; give one of them: .*both/train"):
        list(inputs.rows(tmp_path / "both"))


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for package in ("datasets", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, package, None)
    for path in (tmp_path / "a.parquet", Path("hf:name"), tmp_path):
        with pytest.raises(PackageMissing, match=r"pyarrow|datasets"):
            list(inputs.rows(path))
