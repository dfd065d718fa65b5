"""Runs the user's program (`-m module` or a script) in this interpreter as if it had been started
by hand, and keeps its exception.

python -m trainyard_trainers.launch.program [-m module | script] arguments...
"""

from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..common.failure import record_exception
from ..common.signals import FORWARDED
from .ended_well import Ending


def _imported(module: str) -> Callable[[list[str]], int] | None:
    """The `main(argv) -> exit status` of a trainer that was imported before this process was
    forked.
    """
    return (
        getattr(sys.modules.get(module), "main", None)
        if module.startswith("trainyard_trainers.")
        else None
    )


def run(program: Sequence[str]) -> None:
    """Run `['-m', module, *arguments]` or `[script, *arguments]`; returns when it ends well, else
    raises what it raised.
    """
    for number in FORWARDED:
        signal.signal(
            number, signal.SIG_DFL
        )  # torchrun's or launch's handlers came over the fork; the program starts clean
    ending = Ending()
    try:
        if program[0] == "-m" and (entry := _imported(program[1])) is not None:
            sys.argv = list(program[1:])
            sys.exit(entry(list(program[2:])))
        elif program[0] == "-m":
            sys.argv = [program[1], *program[2:]]
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(program)
            sys.path.insert(0, str(Path(program[0]).absolute().parent))
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    except BaseException as error:
        record_exception(error)
        raise
    ending.well()


if __name__ == "__main__":
    run(sys.argv[1:])
