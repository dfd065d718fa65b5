"""`trainyard completion SHELL`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer import completion as typers

from ..screen.output import out


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="the shell that is to complete")]) -> None:
    """Print the script for a shell.

    bash: eval "$(trainyard completion bash)" in ~/.bashrc. zsh: the same with zsh, behind compinit.
    fish: trainyard completion fish > ~/.config/fish/completions/trainyard.fish
    """
    script = typers.get_completion_script(
        prog_name="trainyard", complete_var="_TRAINYARD_COMPLETE", shell=shell.value
    )
    out.print(script, markup=False, highlight=False, soft_wrap=True)
