"""An environment that has one wheel and what it declares to need, made without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def made(place: Path, wheel: Path, needed: Sequence[str]) -> Path:
    """The environment's `bin`. What is needed comes from the environment of the tests, by links."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin/python"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "-q"),
            *("--disable-pip-version-check", "--no-deps", "--no-index", str(wheel)),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    (packages,) = (place / "lib").glob("python*/site-packages")
    for found in closure(needed):
        for name in _tops(found):
            source, link = Path(str(found.locate_file(name))), packages / name
            if source.exists() and not link.exists():
                link.symlink_to(source)
    return python.parent


def requirements(wheel: Distribution, extra: str = "") -> list[str]:
    """The names of what it asks for."""
    return [one.name for one in _asked(wheel, extra)]


def closure(names: Sequence[str]) -> Iterator[Distribution]:
    """These distributions and all that they need."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        yield found
        waiting += requirements(found)


def _asked(found: Distribution, extra: str = "") -> Iterator[Requirement]:
    for text in found.requires or ():
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield one


def _tops(found: Distribution) -> set[str]:
    """What lies of it at the top of site-packages."""
    tops = {file.parts[0] for file in found.files or ()}
    return {top for top in tops if top not in ("..", "__pycache__") and not top.startswith(os.sep)}
