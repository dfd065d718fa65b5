"""The demo's verdict: it measures every statement and says in words which are not true; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Measured:
    """What the demo saw. None = it was never seen."""

    run_id: str | None = None
    run_status: str | None = None
    attempts: int | None = None
    fault_to_submit_seconds: float | None = None
    fault_to_resumed_step_seconds: float | None = None
    last_step_before_fault: int | None = None
    newest_whole_step_before_fault: int | None = None
    resumed_from: int | None = None
    reference_status: str | None = None
    reference_attempts: int | None = None
    final_weights_equal: bool | None = None
    exported_objects: int | None = None
    exported_bytes: int | None = None
    export_verified: bool | None = None
    cluster_deleted: bool | None = None
    leftover_processes: int | None = None
    wall_seconds: float | None = None
    trouble: list[str] = field(default_factory=list)

    @property
    def steps_lost(self) -> int | None:
        """Steps finished before the fault that had to be trained again."""
        if self.last_step_before_fault is None or self.resumed_from is None:
            return None
        return self.last_step_before_fault - self.resumed_from

    def failures(self) -> list[str]:
        """What is not true, in words; empty = the demo succeeded."""
        checks = [*self._recovery(), *self._results()]
        return [*self.trouble, *(words for true, words in checks if not true)]

    def _recovery(self) -> list[tuple[bool, str]]:
        return [
            (self.run_status == "Succeeded", f"the run is {self.run_status}, not Succeeded"),
            (self.attempts == 2, f"the run took {self.attempts} attempts, not 2"),
            (
                self.fault_to_submit_seconds is not None,
                "no new attempt was submitted after the fault",
            ),
            (
                self.fault_to_resumed_step_seconds is not None,
                "no training step was seen after the fault",
            ),
            (self.steps_lost is not None, "it was not seen how many steps were lost"),
            (
                self.resumed_from == self.newest_whole_step_before_fault,
                (
                    f"training resumed from step {self.resumed_from}, but the newest whole "
                    f"checkpoint was of step {self.newest_whole_step_before_fault}"
                ),
            ),
            (
                self.steps_lost is None or self.steps_lost >= 0,
                "training resumed beyond the last step before the fault",
            ),
        ]

    def _results(self) -> list[tuple[bool, str]]:
        return [
            (
                self.reference_status == "Succeeded",
                f"the run without a fault is {self.reference_status}, not Succeeded",
            ),
            (
                self.reference_attempts == 1,
                f"the run without a fault took {self.reference_attempts} attempts",
            ),
            (
                self.final_weights_equal is True,
                "the final weights are not equal to the uninterrupted run's",
            ),
            (bool(self.exported_objects), "nothing was exported"),
            (self.export_verified is True, "the export does not verify"),
            (self.cluster_deleted is True, "the cluster was not deleted"),
            (self.leftover_processes == 0, f"{self.leftover_processes} processes were left behind"),
        ]

    def document(self) -> dict[str, Any]:
        """build/demo.json."""
        return {
            "ok": not self.failures(),
            "runId": self.run_id,
            "attempts": self.attempts,
            "faultToSubmitSeconds": self.fault_to_submit_seconds,
            "faultToResumedStepSeconds": self.fault_to_resumed_step_seconds,
            "stepsLost": self.steps_lost,
            "finalWeightsEqual": self.final_weights_equal,
            "exportedObjects": self.exported_objects,
            "exportedBytes": self.exported_bytes,
            "exportVerified": self.export_verified,
            "clusterDeleted": self.cluster_deleted,
            "leftoverProcesses": self.leftover_processes,
            "wallSeconds": self.wall_seconds,
        }
