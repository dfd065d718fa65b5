"""What of a directory goes up: `.gitignore` and `.trainyardignore`, in it and below it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from .patterns import Pattern, decision, parse

#: Later ones win.
RULE_FILES = (".gitignore", ".trainyardignore")
#: Of data: `.gitignore` files are there to keep them out of git, and not out of an upload.
DATA_RULE_FILES = (".trainyardignore",)
#: Repositories are large and private, and no program reads them.
NEVER = frozenset({b".git"})
#: What no other machine has a use for, or must not see: the local cloud's directory holds its keys,
#: and Emacs's locks are links to nothing. A line with `!` brings them back.
DEFAULTS = parse(b"__pycache__/\n.venv/\n.trainyard/\n.#*\n")


@dataclass(frozen=True)
class _File:
    """The patterns of one file; `prefix` is its directory with a slash, b"" on top."""

    prefix: bytes
    patterns: list[Pattern]


@dataclass(frozen=True)
class Rules:
    """Those that hold in one directory: its own files of rules and those above, deepest last."""

    names: tuple[str, ...] = RULE_FILES
    #: One list for each of the names; none before the top is entered.
    files: tuple[tuple[_File, ...], ...] = ()

    def entered(self, directory: str, path: bytes) -> Rules:
        """Those that hold in a directory below; `path` is its path in the tree, b"" for the top."""
        prefix = path + b"/" if path else b""
        kinds = []
        files = self.files or ((),) * len(self.names)
        for name, above in zip(self.names, files, strict=True):
            patterns = _read(os.path.join(directory, name))
            kinds.append((*above, _File(prefix, patterns)) if patterns else above)
        return Rules(self.names, tuple(kinds))

    def leave_out(self, path: bytes, *, directory: bool) -> bool:
        """What is below a directory that is left out is never asked about."""
        if path.rpartition(b"/")[2] in NEVER:
            return True
        for kind in reversed(self.files):
            for file in reversed(kind):
                inner = path[len(file.prefix) :]
                found = decision(file.patterns, inner, directory=directory)
                if found is not None:
                    return found
        return bool(decision(DEFAULTS, path, directory=directory))


def _read(path: str) -> list[Pattern]:
    """Git follows no link here either. Raises OSError for a file that is there and not readable."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return []
    except FileNotFoundError:
        return []
    with open(path, "rb") as file:
        return parse(file.read())
