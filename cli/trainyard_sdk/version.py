"""Which version of Trainyard this is, installed as one wheel or from a clone."""

from __future__ import annotations

from importlib import metadata

#: The wheel that users install, and the package of a clone.
_DISTRIBUTIONS = ("trainyard", "trainyard-cli")


def version() -> str:
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "of a clone"
