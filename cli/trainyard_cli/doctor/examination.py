"""Runs every check. A check is a file in `checks/`; being there is its registration."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from . import checks
from .account import Account, NotAnswered
from .findings import Finding

if TYPE_CHECKING:
    from .scope import Scope

Check = Callable[[Account, "Scope"], Iterator[Finding]]


def names() -> list[str]:
    """Every check, the one that all others need first."""
    found = sorted(module.name for module in pkgutil.iter_modules(checks.__path__))
    return sorted(found, key=lambda name: name != "credentials")


def examine(
    account: Account, scope: Scope, *, tell: Callable[[str], object] = lambda _name: None
) -> list[Finding]:
    """Every finding of every check, in the checks' order.

    Without usable credentials no check is made.
    """
    found: list[Finding] = []
    for name in names():
        tell(name)
        module = importlib.import_module(f"{checks.__name__}.{name}")
        found += _findings(name, module.check, account, scope)
        if name == "credentials" and found:
            break
    return found


def examine_all(
    account: Account, scopes: Sequence[Scope], *, tell: Callable[[str], object] = lambda _name: None
) -> list[Finding]:
    """The findings of every way that a spec names; what several have in common comes once."""
    found: list[Finding] = []
    for scope in scopes:
        found += [one for one in examine(account, scope, tell=tell) if one not in found]
        if any(one.check == "credentials" for one in found):
            break
    return found


def _findings(name: str, check: Check, account: Account, scope: Scope) -> list[Finding]:
    """What a check found until AWS refused to answer; the refusal is a finding, too."""
    found: list[Finding] = []
    try:
        found.extend(check(account, scope))
    except NotAnswered as error:
        remedy = (
            f"Allow {error.operation} to whoever runs doctor, then look again"
            if error.forbidden
            else "Try again"
        )
        problem = f"nobody could look: {error.operation} answered {error.code}: {error.message}"
        found.append(Finding(name, "unknown", error.operation, problem, remedy))
    return found
