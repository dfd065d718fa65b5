"""Which run a person means: a whole id as it is, anything else as the API finds it, once."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from ..context import Context
from ..screen.output import err

_ID = re.compile(r"run-[0-9a-hjkmnp-tv-z]{26}")
RunGiven = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="id of the run (run-...), the beginning of one, a name that one run has, or latest",
    ),
]


def run_meant(context: Context, given: str) -> str:
    """The id of the run. What follows is about that run, whatever is submitted meanwhile.

    Raises ApiProblem: there is no such run, or several are meant.
    """
    if _ID.fullmatch(given):
        return given
    found = str(context.client.run(given)["id"])
    if not context.json:
        err.print(f"{given} is {found}", markup=False, soft_wrap=True)
    return found
