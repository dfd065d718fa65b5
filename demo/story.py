"""The demo's story: train, lose a node, resume, export, tear down; train undisturbed; compare."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from demo.cloud import REPOSITORY, LocalCloud
from demo.leftovers import processes_of
from demo.measure import newest_whole_step, recovery
from demo.objects import Exported, differences, verify_export, weights
from demo.recording import Recording
from demo.saboteur import Fault, Saboteur
from demo.verdict import Measured
from trainyard_cli.screen.live import print_timeline, watch

EXAMPLE = REPOSITORY / "examples/ddp-demo.yaml"


class Story:
    """Runs the acts in order and writes what it sees into `measured`."""

    def __init__(
        self,
        cloud: LocalCloud,
        console: Console,
        measured: Measured,
        recording: Recording,
        deadline: float,
    ) -> None:
        self.cloud, self.console, self.measured, self.deadline = cloud, console, measured, deadline
        self.recording = recording
        self.spec: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())

    def play(self) -> None:
        """Raises whatever goes wrong; what was measured until then stays measured."""
        faulty, exported = self._with_a_fault()
        undisturbed = self._without_a_fault()
        self._compare(exported, undisturbed)
        self._clusters_gone(faulty)

    def _with_a_fault(self) -> tuple[dict[str, Any], Exported]:
        self.console.rule("[bold]Training, and losing a node in the middle of it")
        run = self._submit(self.spec)
        self.measured.run_id = run["id"]
        with Saboteur(self.cloud, run["id"], tell=self._say) as saboteur:
            final = self._watch(run["id"], self.recording)
        self.measured.run_status = final["status"]
        self.measured.attempts = len(final["attempts"])
        self._measure_recovery(final, saboteur.fault)
        if (
            self.console.is_terminal and self.recording.last
        ):  # without a terminal its lines were printed one by one
            self.console.rule("The whole timeline")
            print_timeline(self.console, self.recording.last.events)
        exported = verify_export(
            self.cloud.aws("s3"), self.cloud.local["bucket"], run["id"], run["objectsPrefix"]
        )
        self.measured.exported_objects, self.measured.exported_bytes = (
            exported.objects,
            exported.size,
        )
        self.measured.export_verified = not exported.wrong
        self.measured.trouble += [f"export: {wrong}" for wrong in exported.wrong[:5]]
        self._say(
            f"Downloaded and checked {exported.objects} exported objects, {exported.size:,} bytes."
        )
        return final, exported

    def _without_a_fault(self) -> Exported:
        self.console.rule("[bold]The same job without a fault")
        spec = copy.deepcopy(self.spec)
        spec["name"] = f"{self.spec['name']}-undisturbed"
        final = self._watch(self._submit(spec)["id"])
        self.measured.reference_status = final["status"]
        self.measured.reference_attempts = len(final["attempts"])
        return verify_export(
            self.cloud.aws("s3"), self.cloud.local["bucket"], final["id"], final["objectsPrefix"]
        )

    def _compare(self, exported: Exported, undisturbed: Exported) -> None:
        one, other = weights(exported.final), weights(undisturbed.final)
        differing = differences(one, other)
        self.measured.final_weights_equal = bool(one) and not differing
        self.measured.trouble += [f"weights differ: {name}" for name in differing[:5]]

    def _clusters_gone(self, run: dict[str, Any]) -> None:
        self.measured.cluster_deleted = run["clusterDeleted"] and self.cloud.cluster_is_gone(
            run["clusterName"]
        )
        nodes = self.cloud.node_processes()
        self.measured.trouble += named("processes of nodes outlived their clusters", nodes)

    def _measure_recovery(self, run: dict[str, Any], fault: Fault) -> None:
        if fault.at is None:
            self.measured.trouble.append(
                f"no fault was injected: {fault.error or 'training ended too soon'}"
            )
            return
        self.measured.last_step_before_fault = fault.last_step
        checkpoints = self.cloud.api.checkpoints(run["id"])
        self.measured.newest_whole_step_before_fault = newest_whole_step(
            checkpoints, attempts={fault.attempt}
        )
        cost = recovery(
            run, number=fault.attempt + 1, fault_at=fault.at, last_step=fault.last_step or 0
        )
        self.measured.fault_to_submit_seconds = cost.fault_to_submit_seconds
        self.measured.fault_to_resumed_step_seconds = cost.fault_to_resumed_step_seconds
        self.measured.resumed_from = cost.resumed_from

    def _submit(self, spec: dict[str, Any]) -> dict[str, Any]:
        run: dict[str, Any] = self.cloud.api.submit_run(spec)
        self._say(f"POST /v1/runs: {run['id']} ({spec['name']})")
        return run

    def _watch(self, run_id: str, recording: Recording | None = None) -> dict[str, Any]:
        left = self.deadline - time.monotonic()
        return watch(
            self.cloud.api,
            run_id,
            self.console,
            on_update=(recording or Recording()).see,
            timeout_seconds=left,
        )

    def _say(self, words: str) -> None:
        self.console.print(words, highlight=False, markup=False)


def count_leftovers(state_dir: Path, measured: Measured, patience_seconds: float = 3) -> None:
    """Count what is alive after the local cloud went down; reaping a process takes a moment."""
    end = time.monotonic() + patience_seconds
    while (left := processes_of(state_dir)) and time.monotonic() < end:
        time.sleep(0.1)
    measured.leftover_processes = len(left)
    measured.trouble += named("processes were left behind", left)


def named(what: str, processes: dict[int, str]) -> list[str]:
    """One line about processes that should not be there, none if there are none."""
    shown = "; ".join(f"{pid} {command[:80]}" for pid, command in list(processes.items())[:4])
    return [f"{len(processes)} {what}: {shown}"] if processes else []
