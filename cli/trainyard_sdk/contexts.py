"""Named deployments: which API, with which AWS profile, and which of them is in use.

They lie in one file of the user's, which holds no secret: credentials stay where AWS keeps them.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .problems import Conflict, InvalidInput

#: Always there: the local cloud of the state directory.
LOCAL = "local"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Context:
    """One deployment. `region` is needed only where the endpoint does not name it."""

    endpoint: str
    profile: str | None = None
    region: str | None = None

    def as_json(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value}


@dataclass(frozen=True)
class Contexts:
    """All of them, and the name of the one in use; None: the local cloud."""

    known: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def get(self, name: str) -> Context | None:
        """None: the local cloud. Raises InvalidInput for a name that is not known."""
        if name == LOCAL:
            return None
        if name not in self.known:
            raise InvalidInput(
                "There is no such context",
                f"context: '{name[:100]}' is none of {', '.join([LOCAL, *sorted(self.known)])}",
                "List them with: trainyard context ls; add one with: "
                "trainyard context add NAME URL",
            )
        return self.known[name]

    def added(self, name: str, context: Context, *, force: bool) -> Contexts:
        """With this one. Raises InvalidInput, and Conflict for another one of the name."""
        if name == LOCAL or not _NAME.fullmatch(name):
            raise InvalidInput(
                "The context cannot have this name",
                f"name: '{name[:100]}' must be 1 to 63 letters, digits and . _ - and not '{LOCAL}'",
                "Give a name such as prod",
            )
        if not force and self.known.get(name, context) != context:
            raise Conflict(
                "There is another context of this name",
                f"{name}: {self.known[name].endpoint}",
                "Give another name, or --force to replace it",
            )
        return replace(self, known={**self.known, name: context})

    def used(self, name: str) -> Contexts:
        """With this one in use. Raises InvalidInput."""
        self.get(name)
        return replace(self, current=None if name == LOCAL else name)

    def without(self, name: str) -> Contexts:
        """Raises InvalidInput for one that is not there, or that is always there."""
        if self.get(name) is None:
            raise InvalidInput(
                "The local cloud's context stays", f"name: '{LOCAL}'", "Name another context"
            )
        left = {known: context for known, context in self.known.items() if known != name}
        return Contexts(left, None if self.current == name else self.current)


def file() -> Path:
    """TRAINYARD_CONFIG, or contexts.json in the user's directory of settings."""
    given = os.environ.get("TRAINYARD_CONFIG")
    settings = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(given or f"{settings}/trainyard/contexts.json").expanduser()


def read() -> Contexts:
    """None at all if there is no file. Raises InvalidInput for a file that cannot be read."""
    try:
        return _of(json.loads(file().read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(
            "The file of contexts cannot be read",
            f"{file()}: {error}",
            "Mend it, or move it away and add the contexts again: trainyard context add NAME URL",
        ) from error


def _of(document: Any) -> Contexts:
    if not isinstance(document, dict) or not isinstance(document.get("contexts"), dict):
        raise ValueError("it is no object with an object 'contexts'")
    known = {}
    for name, given in document["contexts"].items():
        if not isinstance(given, dict) or not isinstance(given.get("endpoint"), str):
            raise ValueError(f"contexts.{name} has no 'endpoint'")
        known[name] = Context(given["endpoint"], given.get("profile"), given.get("region"))
    current = document.get("current")
    if current is not None and current not in known:
        raise ValueError(f"current: '{current}' is no name in 'contexts'")
    return Contexts(known, current)


@contextmanager
def changing() -> Iterator[list[Contexts]]:
    """What is there, in a list; what it holds in the end is written. One process at a time."""
    place = file()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(place.with_name(f".{place.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = [read()]
        before = held[0]
        yield held
        if held[0] != before:
            _write(place, held[0])


def _write(place: Path, contexts: Contexts) -> None:
    """Whole or not at all, and for nobody else to read (mkstemp's mode is 0600)."""
    document = {
        "current": contexts.current,
        "contexts": {name: one.as_json() for name, one in sorted(contexts.known.items())},
    }
    descriptor, part = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as written:
            written.write(json.dumps(document, indent=2) + "\n")
            written.flush()
            os.fsync(written.fileno())
        os.replace(part, place)
    except BaseException:
        os.unlink(part)
        raise
