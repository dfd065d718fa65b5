"""What is read of an attempt's end: the scheduler's words, and the launchers'."""

from __future__ import annotations

from typing import Protocol


class Job(Protocol):
    """What the scheduler says of a job, in Slurm's words."""

    @property
    def state(self) -> str: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def signal(self) -> int: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...


class Launch(Protocol):
    """A launcher's report, as `LaunchReport` has it."""

    @property
    def node(self) -> str: ...
    @property
    def started(self) -> float | None: ...
    @property
    def ended(self) -> float | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def traceback(self) -> str | None: ...
    @property
    def exception(self) -> str | None: ...
    @property
    def lasting(self) -> str | None: ...
    @property
    def memory(self) -> str | None: ...
    @property
    def remark(self) -> str | None: ...


#: Kinds of a launcher's end that are causes and no consequences.
CAUSES = ("signal", "out-of-memory", "python-error", "checkpoint")


def names_cause(launch: Launch) -> bool:
    """The report says why the job ended; other reports only say that something ended them."""
    return launch.ended is not None and launch.kind in CAUSES
