"""The options by which lists are narrowed, and labels as people write them on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from ..times import moment

Status = Annotated[
    list[str] | None,
    typer.Option(
        "--status",
        help="only these statuses, such as failed or running,pending; repeatable",
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label", "-l", metavar="KEY[=VALUE]", help="only with this label; repeatable: with all"
    ),
]
Name = Annotated[
    str | None, typer.Option("--name", help="only of this name; * at its end for any letters")
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        parser=moment,
        help="only created since then: 2d, 12h, 2026-11-01 or 2026-11-01T12:00Z",
    ),
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", parser=moment, help="only created before then")
]
Mine = Annotated[bool, typer.Option("--mine/--all", help="only your own, or everybody's")]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="only of the person of this name or ARN")
]
Order = Annotated[
    Literal["newest", "oldest"], typer.Option(help="which comes first, by the time of creation")
]
Limit = Annotated[int, typer.Option(metavar="NUMBER", min=1, max=10_000, help="at most so many")]
Output = Annotated[
    Literal["table", "json", "id"],
    typer.Option("--output", "-o", help="id: nothing but ids or names, one a line"),
]
ShowLabels = Annotated[bool, typer.Option("--show-labels", help="with a column of labels")]
LabelChanges = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY=VALUE|-KEY...", help="labels to set; with - before it, one to take away"
    ),
]
#: `-old` is a label to take away and no option.
TAKES_LABELS = {"ignore_unknown_options": True}


def asked(
    *,
    status: Sequence[str] | None,
    label: Sequence[str] | None,
    name: str | None,
    since: str | None,
    until: str | None,
    mine: bool,
    by: str | None,
    order: str,
) -> dict[str, Any]:
    """The list's parameters, as the API takes them; what is not asked for is not sent."""
    return {
        "status": ",".join(status) if status else None,
        "label": list(label) if label else None,
        "name": name,
        "since": since,
        "until": until,
        "mine": "true" if mine else None,
        "createdBy": by,
        "order": None if order == "newest" else order,
    }


def label_changes(given: Sequence[str]) -> dict[str, str | None]:
    """By key: a value to set, None to take it away. It raises BadParameter."""
    changes: dict[str, str | None] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if text.startswith("-") and not equals:
            changes[text[1:]] = None
        elif equals and key:
            changes[key] = value
        else:
            raise typer.BadParameter(
                f"{text!r} is no change of a label; give KEY=VALUE to set one, -KEY to take it away"
            )
    return changes
