"""Leaves torch's process group before the interpreter ends.

The threads of a gloo group that nobody destroyed abort the process now and then ("terminate called
without an active exception"), and a rank that did its work looks as if it had crashed.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

#: A group whose peers hang may hang itself, and must not keep a program from ending.
_SECONDS = 10


def leave_at_exit() -> None:
    """Of this process, not of one that it forks; and not where an exception ends it: its peers may
    be amid a step then, and the exception is what to hear of.

    Call it early: exit handlers that come later are run before it, and may need the group.
    """
    atexit.register(_leave_of, os.getpid())


def _leave_of(pid: int) -> None:
    if os.getpid() == pid and getattr(sys, "last_value", None) is None:
        leave()


def leave() -> None:
    """Destroy the group if there is one. SIGALRM ends the process if that takes 10 s."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS)
    try:
        distributed.destroy_process_group()
    except (RuntimeError, ValueError, AssertionError) as error:
        print(
            f"trainyard: the process group could not be destroyed: {error}",
            file=sys.stderr,
            flush=True,
        )
    signal.alarm(0)
