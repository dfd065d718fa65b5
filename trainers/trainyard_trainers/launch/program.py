"""Runs the user's program (`-m module` or a script) in this interpreter as if it had been started
by hand, and keeps its exception.

python -m trainyard_trainers.launch.program [-m module | script] arguments...
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import format_exception
from types import TracebackType

from trainyard_job.common.exits import CHECKPOINT_FAILED, FENCED, CheckpointFailed, Fenced
from trainyard_job.common.signals import FORWARDED

from ..common import exceptions
from ..common.failure import SECRETS, record, record_exception, without_secrets
from . import own_log
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


def show(kind: type[BaseException], error: BaseException, stack: TracebackType | None) -> None:
    """Print an exception as Python does, from the program's own first line on, and without the
    job's secrets.
    """
    own = exceptions.own_part(stack)
    if os.environ.get(SECRETS):
        print(
            without_secrets("".join(format_exception(error.with_traceback(own)))), file=sys.stderr
        )
    else:
        sys.__excepthook__(kind, error.with_traceback(own), own)  # it prints what the error holds


def run(program: Sequence[str]) -> None:
    """Run `['-m', module, *arguments]` or `[script, *arguments]`; returns when it ends well, else
    raises what it raised.
    """
    for number in FORWARDED:
        signal.signal(
            number, signal.SIG_DFL
        )  # torchrun's or launch's handlers came over the fork; the program starts clean
    own_log.take()
    ending = Ending()
    sys.excepthook = show  # of a program that sets its own, that one counts
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
            if (account := exceptions.account_of_exit(end)) is not None:
                record(account)
            ending.with_code(end.code)
            raise
    except (CheckpointFailed, Fenced) as error:
        record_exception(error)
        traceback.print_exc()
        code = FENCED if isinstance(error, Fenced) else CHECKPOINT_FAILED
        ending.with_code(code)
        sys.exit(code)
    except BaseException as error:
        record_exception(error)
        raise
    ending.well()


if __name__ == "__main__":
    run(sys.argv[1:])
