"""Rows of what people have their texts in, one after the other, so that any amount goes through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.config import ConfigError
from ..common.packages import needed

#: What --input names of Hugging Face's hub: hf:NAME or hf:NAME:SPLIT.
_HUB = "hf:"


def texts(path: Path, key: str) -> Iterator[str]:
    """The documents of what --input names: under `key` of each row, or a whole text file.

    Raises ConfigError.
    """
    if not _has_rows(path):
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"input: {path}: {error}") from error
        return
    for number, row in rows(path):
        if not isinstance(row, Mapping) or not isinstance(row.get(key), str):
            found = ", ".join(map(str, row)) if isinstance(row, Mapping) else repr(row)
            raise ConfigError(
                f"input: line {number} of {path} has no text under '{key}', it has {found}"
            )
        yield row[key]


def _has_rows(path: Path) -> bool:
    return path.suffix in (".jsonl", ".parquet") or str(path).startswith(_HUB) or path.is_dir()


def rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Each row of what --input names, with its number from 1. Raises ConfigError."""
    if str(path).startswith(_HUB):
        found = _of_the_hub(str(path).removeprefix(_HUB))
    elif path.is_dir():
        found = _saved_by_datasets(path)
    elif path.suffix == ".parquet":
        found = _parquet(path)
    elif path.suffix == ".jsonl":
        found = _lines(path)
    else:
        raise ConfigError(f"input: {path} has no rows; give a .jsonl or .parquet file")
    return enumerate(found, 1)


def _lines(path: Path) -> Iterator[Any]:
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ConfigError(
                        f"input: line {number} of {path} is not JSON: {error}"
                    ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"input: {path}: {error}") from error


def _parquet(path: Path) -> Iterator[Any]:
    parquet = needed("pyarrow.parquet", f"reading {path}", "pyarrow")
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are among these
        raise ConfigError(f"input: {path} cannot be read: {error}") from error


def _saved_by_datasets(path: Path) -> Iterator[Any]:
    datasets = needed("datasets", f"reading the directory {path}")
    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"input: {path} is no directory that the package datasets saved: {error}"
        ) from error
    if isinstance(found, Mapping):
        raise ConfigError(
            f"input: {path} holds {', '.join(map(str, found))}; give one of them: "
            f"{path / str(next(iter(found)))}"
        )
    yield from found


def _of_the_hub(name: str) -> Iterator[Any]:
    datasets = needed("datasets", f"reading {name} from Hugging Face's hub")
    dataset, _, split = name.partition(":")
    try:
        found = datasets.load_dataset(dataset, split=split or "train", streaming=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"input: {_HUB}{name} cannot be read: {error}") from error
    yield from found
