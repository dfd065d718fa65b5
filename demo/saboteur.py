"""Kills a worker node in the middle of training, in a thread; the main thread shows the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from demo.cloud import LocalCloud, node_of
from demo.measure import attempt

POLL_SECONDS = 0.25


@dataclass
class Fault:
    """What was done, and when. `error` says why nothing was done."""

    at: float | None = None
    node: str = ""
    instance_id: str = ""
    attempt: int = 1
    last_step: int | None = None
    error: str = ""


@dataclass
class Saboteur:
    """One fault against one run's current attempt, once it committed `checkpoints` checkpoints."""

    cloud: LocalCloud
    run_id: str
    checkpoints: int = 2
    tell: Callable[[str], None] = print
    fault: Fault = field(default_factory=Fault)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Saboteur:
        self._thread = threading.Thread(target=self._work, name="saboteur", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(timeout=30)

    def _work(self) -> None:
        try:
            run = self._middle_of_training()
            if run is not None:
                self._strike(run)
                self._read_last_step()
        # The last resort of a thread: the verdict must know of any error.
        except Exception as error:  # noqa: BLE001
            self.fault.error = f"{type(error).__name__}: {error}"

    def _middle_of_training(self) -> dict[str, Any] | None:
        while not self._stop.is_set():
            run = self.cloud.api.run(self.run_id)
            current = attempt(run, self.fault.attempt)
            if run["status"] in ("Succeeded", "Failed", "Cancelled", "Exporting", "TearingDown"):
                self.fault.error = (
                    f"the run was {run['status']} before it had {self.checkpoints} checkpoints"
                )
                return None
            if current and current["firstStepAt"] and current["nodes"]:
                whole = [
                    found
                    for found in self.cloud.api.checkpoints(self.run_id)
                    if found["status"] == "whole"
                ]
                if len(whole) >= self.checkpoints:
                    return run
            self._stop.wait(POLL_SECONDS)
        return None

    def _strike(self, run: dict[str, Any]) -> None:
        current = attempt(run, self.fault.attempt)
        assert current is not None
        self.fault.node = current["nodes"][-1]
        self.fault.instance_id = str(
            node_of(self.cloud.api, run["clusterName"], self.fault.node)["instanceId"]
        )
        # Strike between two checkpoints, so that there are steps to lose and to train again.
        time.sleep(1.0)
        self.fault.at = self.cloud.fault(
            "kill-node", run["clusterName"], node=self.fault.instance_id
        )
        self.tell(
            f"Killed node {self.fault.node} ({self.fault.instance_id}): "
            "SIGKILL of everything on it."
        )

    def _read_last_step(self) -> None:
        """Read how far the struck attempt came, once a newer one is submitted."""
        while not self._stop.is_set():
            following = attempt(self.cloud.api.run(self.run_id), self.fault.attempt + 1)
            if following and following["submittedAt"]:
                self.fault.last_step = self.cloud.last_step(self.run_id, self.fault.attempt)
                return
            self._stop.wait(POLL_SECONDS)
