"""A file or an index that is not what it should be is a ValueError, whatever is wrong with it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from trainyard_trainers.cli import main
from trainyard_trainers.llm.safetensors_format import INDEX, SINGLE, Directory

ENTRY = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}


def write(directory: Path, header: Any) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (directory / SINGLE).write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))


def read(directory: Path) -> None:
    found = Directory(directory)
    for name in found.names():
        list(found.blocks(name))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b'"x"',
        b"[]",
        b'{"a":' + b"[" * 200_000,
        {"a": None},
        {"a": {}},
        b'{"a":{"dtype":"F32","shape":[1e400],"data_offsets":[0,16]}}',
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[NaN,16]}}',
        {"a": {**ENTRY, "dtype": []}},
        {"a": {**ENTRY, "dtype": {}}},
        {"a": {**ENTRY, "shape": 4}},
        {"a": {**ENTRY, "shape": [-2, -2]}},
        {"a": {**ENTRY, "shape": [10**30]}},
        {"a": {**ENTRY, "shape": [1 << 32, 1 << 32], "data_offsets": [0, 0]}},
        {"a": {**ENTRY, "shape": [1, 0, 10**30], "data_offsets": [0, 0]}},
        {"a": {**ENTRY, "shape": [], "data_offsets": [0, 4]}},
        {"a": {**ENTRY, "data_offsets": [0.0, 16.0]}},
        {"a": {**ENTRY, "data_offsets": ["0", "16"]}},
        {"a": {**ENTRY, "data_offsets": [16]}},
    ],
    ids=lambda header: str(header)[:60],
)
def test_a_header_that_is_not_what_it_should_be_is_a_value_error(
    tmp_path: Path, header: Any
) -> None:
    write(tmp_path, header)
    with pytest.raises(ValueError, match=str(tmp_path)):
        read(tmp_path)


@pytest.mark.parametrize(
    "index",
    [
        None,
        [],
        "x",
        {},
        {"weight_map": []},
        {"weight_map": {"a": 1}},
        {"weight_map": {"a": []}},
        {"weight_map": {"a": "x", "b": 1}},
        {"weight_map": {"a": "\0"}},
        {"weight_map": {"a": ".."}},
        {"weight_map": {"a": "../x"}},
    ],
    ids=str,
)
def test_an_index_that_is_not_what_it_should_be_is_a_value_error(
    tmp_path: Path, index: Any
) -> None:
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=str(tmp_path)):
        read(tmp_path)


def test_a_file_that_is_removed_while_it_is_read_is_a_value_error(tmp_path: Path) -> None:
    write(tmp_path, {"a": ENTRY})
    found = Directory(tmp_path)
    (tmp_path / SINGLE).unlink()
    with pytest.raises(ValueError, match=f"{SINGLE}: a cannot be read"):
        list(found.blocks("a"))


def test_a_tensor_without_rows_has_no_blocks(tmp_path: Path) -> None:
    write(tmp_path, {"a": {**ENTRY, "shape": [0, 5], "data_offsets": [0, 0]}, "b": ENTRY})
    found = Directory(tmp_path)
    assert list(found.blocks("a")) == []
    assert [block.tolist() for block in found.blocks("b")] == [[0.0] * 4]


def test_the_command_says_what_is_wrong_and_shows_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64}
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config | sizes | heads))
    (tmp_path / INDEX).write_text("[]")
    assert main(["from-hf", str(tmp_path), str(tmp_path / "out"), "--tp", "1"]) == 2
    assert f"{tmp_path / INDEX} cannot be read" in capsys.readouterr().err
