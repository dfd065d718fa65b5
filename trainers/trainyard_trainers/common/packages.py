"""Imports packages that only some trainers need, when they need them; one error says what to
install.
"""

from __future__ import annotations

import importlib
from typing import Any


class PackageMissing(ImportError):
    """The environment lacks a package; the message says which, what for, and how to get it."""


def needed(module: str, purpose: str, install: str = "") -> Any:
    """The module; `install` is the name of its package where that is another.

    Raises PackageMissing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = install or module.partition(".")[0]
        raise PackageMissing(
            f"{purpose} needs the package {package}, which cannot be imported here ({error}); add "
            "it to the environment's requirements, "
            f"or: pip install {package}"
        ) from error
