"""How the launcher of one node began and ended, as far as it can be read."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from .base import Lenient
from .progress_file import LATEST


def _moment(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LATEST else None


def _code(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**31 else None


def _text(value: object) -> str | None:
    """What can be sent on: half a surrogate pair cannot, and a program may have said a megabyte."""
    return (
        value[:ERROR_CHARACTERS].encode(errors="replace").decode()
        if isinstance(value, str)
        else None
    )


def _long_text(value: object) -> str | None:
    """The same of a traceback: its beginning, and its end from a line's start on."""
    if not isinstance(value, str):
        return None
    value = value.encode(errors="replace").decode()
    if len(value) <= TRACEBACK_CHARACTERS:
        return value
    head, _, rest = value.partition("\n")
    tail = rest[-(TRACEBACK_CHARACTERS - 300) :]
    return f"{head[:200]}\n  ...\n{tail.partition(chr(10))[2] or tail}"


#: The most of an error's words that is read of a launcher's report, and of its traceback.
ERROR_CHARACTERS = 500
TRACEBACK_CHARACTERS = 4000
_Moment = Annotated[float | None, BeforeValidator(_moment)]
_Code = Annotated[int | None, BeforeValidator(_code)]
_Text = Annotated[str | None, BeforeValidator(_text)]
_LongText = Annotated[str | None, BeforeValidator(_long_text)]


class LaunchReport(Lenient):
    """launch-<node>.json: how the launcher of one node began and, unless it was killed itself,
    ended.

    A job can write there: what is not of its type is not there. One that names no node is none.
    """

    node: str
    started: _Moment = Field(default=None, description="seconds since the epoch")
    ended: _Moment = Field(default=None, description="None: the launcher was killed, or runs")
    exit_code: _Code = None
    signal: _Code = None
    kind: _Text = Field(
        default=None,
        description="None: it ended well; signal, out-of-memory, python-error, peer, checkpoint, "
        "fenced, stopped or exit",
    )
    error: _Text = Field(default=None, description="in one line")
    traceback: _LongText = Field(default=None, description="of the program's own frames")
    exception: _Text = Field(default=None, description="the error's class")
    lasting: _Text = Field(
        default=None,
        description="program: it would fail so on any node; environment: it would, if all nodes "
        "miss the same; None: the failure may pass",
    )
    memory: _Text = Field(default=None, description="which ran out: host or device")
    remark: _Text = Field(default=None, description="what a person should know of a good end")
