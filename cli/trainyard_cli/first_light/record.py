"""The one file that first-light writes: atomic, redacted, and so often that a kill loses little."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..problems import InvalidInput
from .redaction import Redactor

Json = dict[str, Any]
FORMAT = 1
#: What --clean goes by is nobody's secret, and stays as it is whatever it looks like.
PLAIN = ("cluster", "stack", "region", "run", "api")
#: What `--clean` lives on.
_NEEDED = {
    "region": str,
    "stack": str,
    "api": str,
    "spec": dict,
    "verdict": str,
    "stages": list,
    "assumptions": dict,
}


class Record:
    """`document` is what will be written; `redactor` takes out what must not be."""

    def __init__(self, path: Path, document: Json, redactor: Redactor) -> None:
        self.path, self.document, self.redactor = path, document, redactor

    @classmethod
    def new(cls, path: Path, redactor: Redactor, **facts: Any) -> Record:
        """Raises InvalidInput where the file holds a run whose machines may still be there."""
        try:
            before = read(path) if path.exists() else None
        except InvalidInput as error:
            raise InvalidInput(
                "That file is something else",
                f"--output: {error.detail}",
                "Give the name of a new file",
            ) from None
        if before is not None and not before.get("nothingLeft"):
            raise InvalidInput(
                "An earlier first light is not cleaned up",
                (
                    f"--output: {path} tells of cluster {before['cluster']}, of which something "
                    "may be left"
                ),
                f"Run: trainyard first-light --clean {path}; or give another --output",
            )
        document = {
            "format": FORMAT,
            **facts,
            "verdict": "running",
            "words": "It is under way, or was killed.",
            "firstBroken": None,
            "startedAt": now_text(),
            "stages": [],
            "assumptions": {},
            "nothingLeft": False,
        }
        return cls(path, document, redactor)

    @classmethod
    def of(cls, path: Path, known: Iterable[tuple[str, str]] = ()) -> Record:
        """An earlier record, to be continued. Raises InvalidInput."""
        if not path.exists():
            raise InvalidInput(
                "There is no such file",
                f"--clean: {path}",
                "Give the file that first-light wrote, such as first-light.json",
            )
        document = read(path)
        if lacking := [
            name for name, kind in _NEEDED.items() if not isinstance(document.get(name), kind)
        ]:
            raise InvalidInput(
                "first-light's file is damaged",
                f"--clean: {path} says nothing of use of {', '.join(lacking)}",
                (
                    f"Delete by hand what belongs to cluster {document['cluster']}: "
                    "aws sagemaker list-clusters shows whether it is there"
                ),
            )
        return cls(path, document, Redactor(known, seen=document))

    @property
    def redacted(self) -> Json:
        """The document as it may be shown."""
        plain = {name: self.document[name] for name in PLAIN if name in self.document}
        return {**self.redactor.document(self.document), **plain}

    def write(self) -> None:
        """Replace the file by what is known now. Raises InvalidInput."""
        self.document["writtenAt"] = now_text()
        text = json.dumps(self.redacted, indent=2, ensure_ascii=False, default=str) + "\n"
        beside = self.path.with_name(f".{self.path.name}.part")
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise InvalidInput(
                "The file cannot be written",
                f"--output {self.path}: {error.strerror}",
                "Give a path in a directory that you may write",
            ) from error
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def read(path: Path) -> Json:
    """What first-light wrote there. Raises InvalidInput, naming the file."""
    wrong = None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if (
            not isinstance(document, dict)
            or document.get("format") != FORMAT
            or not isinstance(document.get("cluster"), str)
        ):
            wrong = f"is no file of first-light's (format {FORMAT})"
    except (OSError, ValueError, RecursionError) as error:
        wrong = f"cannot be read: {error}"
    if wrong:
        raise InvalidInput(
            "That is not first-light's file",
            f"{path} {wrong}",
            "Give the file that first-light wrote",
        )
    return dict(document)


def mark_of(api_url: str) -> str:
    """A short mark by which an API is recognised.

    It says nothing of its address, and no rule redacts it.
    """
    return "".join(
        chr(ord("a") + byte % 26) for byte in hashlib.sha256(api_url.encode()).digest()[:20]
    )


def now_text() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
