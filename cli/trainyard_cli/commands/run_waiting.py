"""What a command that asked for a change of a run waits for, and what it says."""

from __future__ import annotations

from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import Context
from ..screen import live
from ..screen.output import err, out, print_json, styled
from ..screen.snapshot import TERMINAL
from ..screen.waiting import Waiting


def run_waiting(run_id: str, timeout: int | None) -> Waiting:
    back = f"trainyard run watch {run_id}"
    return Waiting(f"run {run_id}", back, timeout, poll_seconds=live.POLL_SECONDS)


def run_state(run: Json) -> str:
    return f"{run['status']}: {run['reason']}"


def print_accepted(context: Context, run: Json, word: str) -> None:
    if context.json:
        print_json(run)
        return
    if run["status"] in TERMINAL:
        out.print(f"{run['id']} is over. {styled(run['status'])}: {escape(run['reason'])}")
    else:
        out.print(f"{word} {run['id']}. {styled(run['status'])}: {escape(run['reason'])}")
        err.print(f"Follow it with: trainyard run watch {run['id']}", soft_wrap=True)
