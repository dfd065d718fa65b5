"""`trainyard completion SHELL`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer import completion as typers

from ..screen.output import out

#: The shell's script asks by it what could come next.
_VARIABLE = "_TRAINYARD_COMPLETE"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def ready() -> None:
    """Lets typer answer if a shell asks; otherwise it would only do so with options of its own."""
    if _VARIABLE in os.environ:
        typers.completion_init()  # type: ignore[attr-defined]


def completion(
    shell: Annotated[Shell, typer.Argument(help="the shell that is to complete")],
) -> None:
    """Print the script for a shell.

    bash: eval "$(trainyard completion bash)" in ~/.bashrc. zsh: the same with zsh, behind compinit.
    fish: trainyard completion fish > ~/.config/fish/completions/trainyard.fish
    """
    script = typers.get_completion_script(  # type: ignore[attr-defined]
        prog_name="trainyard", complete_var=_VARIABLE, shell=shell.value
    )
    out.print(script, markup=False, highlight=False, soft_wrap=True)
