"""What first-light looks at.

A look is a function in a file here that names its assumption; being here is its registration.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..register import Look, registered


def every_look() -> list[Look]:
    """By its file's name and then as it stands there."""
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{name}")
    return registered()
