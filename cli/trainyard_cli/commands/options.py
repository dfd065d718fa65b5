"""Options that several commands have, in the same words."""

from __future__ import annotations

from typing import Annotated

import typer

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="do not ask; without a terminal nobody is asked")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="another value of a field, such as job.nodes=4; in YAML; null takes it out",
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="a variable of the program; repeatable"),
]
NewName = Annotated[str | None, typer.Option("--name", help="another name for the run")]
After = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="RUN", help="begin when this run has succeeded; repeatable"),
]
AfterPolicy = Annotated[
    str | None,
    typer.Option(
        "--after-policy", metavar="success|end", help="end: begin however --after's runs ended"
    ),
]
Dryrun = Annotated[
    bool, typer.Option("--dryrun", help="show exactly what would be done, and do nothing")
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="follow it until it ends")]
Key = Annotated[str | None, typer.Option(help="send the same key again and no second run is made")]
#: What follows `--` is the program's; main keeps it apart, because click does not.
TAKES_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": False}
