"""Files that are replaced at once, so that a reader, or a crash, finds the old content or the new
one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file's when the block ends.

    If the block raises, the file is what it was and nothing is left beside it. A `durable` content
    is on the disk before it has the name; the name itself is durable by `fsync_directory`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_text(path: Path, text: str, *, durable: bool) -> None:
    """Replace a file by this text in UTF-8."""
    with replacing(path, durable=durable) as stream:
        stream.write(text.encode())


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a JSON file, durably."""
    write_text(path, json.dumps(document, indent=1), durable=True)
