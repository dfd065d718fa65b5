"""The recipes: one file for each launcher that can start a job's processes on a node. Adding a
recipe is adding its file and its test.

A launcher's module has one function, `run(allocation) -> Failure`: it starts this node's processes,
waits for them, and says how they ended. It runs in a process of its own on every node of the job,
in the run's working directory and with the job's variables set. It passes SIGTERM, SIGUSR1 and
SIGUSR2 on to the ranks; whatever it leaves behind is ended after it. Standard library only, at
import.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from typing import Protocol, cast

from ...common.failure import Failure
from ..allocation import Allocation


class CannotLaunch(Exception):
    """The node, the environment or the job lacks something that this launcher needs. The message
    says what is missing, and what would help.
    """


class Launcher(Protocol):
    """What a launcher's module looks like."""

    def run(self, allocation: Allocation) -> Failure:
        """Raises CannotLaunch."""
        ...


def known() -> list[str]:
    """Names of the recipes that this package has."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__))


def named(recipe: str) -> Launcher:
    """Raises CannotLaunch for a recipe that there is no file for."""
    if recipe not in known():
        raise CannotLaunch(
            f"recipe '{recipe}' is unknown on this cluster; it has {', '.join(known())}"
        )
    return cast(Launcher, importlib.import_module(f"{__name__}.{recipe}"))


def program(name: str, package: str) -> str:
    """The path of a program. Raises CannotLaunch."""
    found = shutil.which(name)
    if found is None:
        raise CannotLaunch(f"the program '{name}' is not on this node's PATH; install {package}")
    return found
