"""What an exception says of a failure: its class, the program's own part of the traceback, whether
the same would come again, and whether memory ran out.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

#: `program`: the text of the program or its arguments are wrong, on whatever node. `environment`:
#: something is missing, which may be so on one node only; it lasts if all nodes miss it. `file`: a
#: file that the program asked for is missing; another rank may write it later, or has removed it.
#: If all ranks miss one, it is what the environment lacks.
PROGRAM, ENVIRONMENT, FILE = "program", "environment", "file"
#: Which memory ran out: that of the machine, or that of an accelerator.
HOST, DEVICE = "host", "device"

_DEVICE_WORDS = re.compile(
    r"\bOutOfMemoryError\b|(?:CUDA|HIP|XPU|MPS backend) out of memory|"
    r"(?:CUDA|HIP) error: out of memory|C(?:UDA|uda) failure (?:\d+ )?'out of memory'|"
    r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|"
    r"RESOURCE_EXHAUSTED: Out of memory|"
    # Neuron's runtime: status 4 is NRT_RESOURCE.
    r"\bNRT_RESOURCE\b|status=4 message=\"?Allocation Failure",
    re.IGNORECASE,
)
_HOST_WORDS = re.compile(
    r"\bMemoryError\b|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory|"
    r"std::bad_alloc|NRT_FAIL_HOST_MEM_ALLOC"
)
#: Python's own words for a call that can never fit.
_WRONG_CALL = re.compile(
    r"\(\) (?:got an unexpected keyword argument|got multiple values for|missing \d+ required|"
    r"takes (?:no|from|at least|at most|exactly|\d+) )"
)
_OURS = str(Path(__file__).resolve().parents[1] / "launch")
#: Between the launcher and the first line of the program.
_STARTERS = ("torch/distributed/", "torch/multiprocessing/", "/runpy.py", "/multiprocessing/")
MOST_CHARACTERS = 8000


@dataclass(frozen=True)
class Account:
    """An exception in words. `error` is one line; `lasting` and `memory` are words from above."""

    error: str
    exception: str
    traceback: str
    lasting: str | None = None
    memory: str | None = None


def account_of(error: BaseException) -> Account:
    """Of an exception that ended the program."""
    memory = _memory(error)
    return Account(
        _line(error, memory),
        name_of(error),
        _bounded(formatted(error)),
        None if memory else _lasting(error),
        memory,
    )


def account_of_exit(end: SystemExit) -> Account | None:
    """Of a program that ended itself and said why: `sys.exit("words")`, or a command line that its
    parser refuses. None where only a number is known.
    """
    if isinstance(end.code, str) and end.code.strip():
        return Account(_first_line(end.code), "SystemExit", formatted(end))
    words = _usage_error(end) if end.code == 2 else None
    return None if words is None else Account(words, "SystemExit", "", PROGRAM)


def name_of(error: BaseException) -> str:
    """The class as Python prints it."""
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def own_part(stack: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on; None where it has none."""
    while stack is not None and _starts_programs(stack.tb_frame.f_code.co_filename):
        stack = stack.tb_next
    return stack


def formatted(error: BaseException) -> str:
    """The traceback with its causes, without the frames of what started the program."""
    return "".join(traceback.format_exception(type(error), error, own_part(error.__traceback__)))


def _starts_programs(filename: str) -> bool:
    return (
        filename.startswith((_OURS, "<frozen runpy", "<frozen importlib"))
        or (filename.endswith("/runpy.py"))
        or any(part in filename for part in _STARTERS)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, and those that were being handled when it was raised."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


# -- whether it would come again -------------------------------------------------------------------
def _lasting(error: BaseException) -> str | None:
    """An error that came while another one was handled lasts only if that one does."""
    words = [_lasting_by_itself(one) for one in _chain(error)]
    if None in words:
        return None
    return next(word for word in (FILE, ENVIRONMENT, PROGRAM) if word in words)


def _lasting_by_itself(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError):  # of a file, and not of a text that was evaluated
        return None if (error.filename or "<").startswith("<") else PROGRAM
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        return PROGRAM
    if isinstance(error, TypeError) and _WRONG_CALL.search(str(error)):
        return PROGRAM
    if isinstance(error, ImportError):
        return ENVIRONMENT
    if isinstance(error, AttributeError) and str(error).startswith("module '"):
        return ENVIRONMENT
    if isinstance(error, FileNotFoundError):
        # Raised before any line of the program: the program itself is not there.
        return ENVIRONMENT if own_part(error.__traceback__) is None else FILE
    return None


def _usage_error(end: SystemExit) -> str | None:
    """The words with which argparse or click refused the command line."""
    stack = end.__traceback__
    while stack is not None:
        code, names = stack.tb_frame.f_code, stack.tb_frame.f_locals
        if (
            stack.tb_frame.f_globals.get("__name__") == "argparse"
            and code.co_name == "exit"
            and isinstance(names.get("message"), str)
        ):
            return _first_line(names["message"])
        stack = stack.tb_next
    for error in _chain(end.__context__):
        if any(kind.__name__ == "UsageError" for kind in type(error).__mro__):
            return _first_line(f"{type(error).__name__}: {getattr(error, 'message', error)}")
    return None


# -- memory ----------------------------------------------------------------------------------------
def memory_in(text: str) -> str | None:
    """Which memory ran out by these words; None: they do not speak of it."""
    if _DEVICE_WORDS.search(text):
        return DEVICE
    return HOST if _HOST_WORDS.search(text) else None


def _memory(error: BaseException) -> str | None:
    """Libraries wrap it: the whole chain is read."""
    for one in _chain(error):
        if isinstance(one, MemoryError):
            return HOST
        if found := memory_in(_text(one)):
            return found
    return None


# -- texts -----------------------------------------------------------------------------------------
def _text(error: BaseException) -> str:
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an exception of the program's own may fail at that, too
        words = ""
    return f"{name_of(error)}: {words}" if words else name_of(error)


def _line(error: BaseException, memory: str | None) -> str:
    """The error in one line; where memory ran out, with the line that says so."""
    first = _first_line(_text(error))
    if memory is None or memory_in(first) or isinstance(error, MemoryError):
        return first
    for one in _chain(error):
        for line in _text(one).splitlines():
            if memory_in(line) or isinstance(one, MemoryError):
                return f"{first[:240]} ({line.strip()[:240]})"
    return first


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[0].strip()[:500]


def _bounded(text: str) -> str:
    """Its beginning says what it is, and its end is what matters."""
    if len(text) <= MOST_CHARACTERS:
        return text
    head, _, rest = text.partition("\n")
    tail = rest[-(MOST_CHARACTERS - 300) :]
    return f"{head[:200]}\n  ...\n{tail.partition(chr(10))[2] or tail}"
