"""Why an attempt ended, in the fields of AttemptEnded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .diagnosis_words import MAX_ERROR

Kind = Literal["python-error", "signal", "out-of-memory", "node", "checkpoint", "unknown"]


@dataclass(frozen=True)
class Diagnosis:
    """The fields of AttemptEnded that need judgement."""

    outcome: Literal["succeeded", "failed", "cancelled"]
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    error_kind: Kind | None = None
    failed_node: str | None = None
    exception: str | None = None
    lasting: bool = False
    memory: Literal["host", "device"] | None = None
    traceback: str = ""
    remark: str = ""

    def because(self, unwritable: str | None) -> Diagnosis:
        """Add the trouble of the shared filesystem, which the job itself could not write down.

        The job's launchers then seem killed.
        """
        if unwritable is None:
            return self
        trouble = f"the shared filesystem cannot be written: {unwritable}"
        if self.error_kind == "signal":
            return replace(self, signal=None, error=trouble, error_kind="unknown", failed_node=None)
        if unwritable in (self.error or ""):
            return self
        return replace(
            self,
            error=f"{self.error[: MAX_ERROR - len(trouble) - 2]}; {trouble}"
            if self.error
            else trouble,
        )
