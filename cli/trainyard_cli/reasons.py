"""`--reason` of the commands that change something and whose calls take none by themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from .context import context_of

#: The words of these commands; all others that change something have the option themselves.
TAKE_ONE = frozenset(
    {
        "api",
        *("run submit", "run rerun", "run label", "run priority"),
        *("array submit", "chain submit", "schedule add", "schedule resume"),
        *("webhook add", "budget set"),
        *("cluster create", "cluster update", "cluster start", "cluster label"),
        *("cluster limits", "cluster adopt", "filesystem create", "filesystem export"),
    }
)
Why = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="why; the audit list keeps it")
]


def add_to(group: typer.Typer, words: str = "") -> None:
    """Give it to each of them below the group."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        if f"{words}{name}" in TAKE_ONE:
            command.callback = with_reason(command.callback)
    for below in group.registered_groups:
        assert below.typer_instance is not None
        add_to(below.typer_instance, f"{words}{below.name} ")


def with_reason(does: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the option; each of its calls that changes something says why."""

    @wraps(does)
    def saying(*given: Any, reason: str | None = None, **options: Any) -> Any:
        context_of(options["typer_context"]).because(reason)
        return does(*given, **options)

    hints = {**get_type_hints(does, include_extras=True), "reason": Why}
    took = inspect.signature(does)
    parameters = [
        *(one.replace(annotation=hints[name]) for name, one in took.parameters.items()),
        inspect.Parameter("reason", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Why),
    ]
    vars(saying)["__signature__"] = took.replace(parameters=parameters)
    saying.__annotations__ = hints
    return saying
