"""What people ask of runs, which their role and the run's owner allow."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.app.people.audited import Audited
from trainyard.app.people.ownership import load
from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.label_run import label_run
from trainyard.app.runs.request_export import request_export
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.records import Run
from trainyard_contracts.specs import RunSpec


class OfRuns(Audited):
    """Submit, cancel, resume, export and label."""

    def submit_run(self, spec: RunSpec, *, idempotency_key: str | None) -> Run:
        return self._made(
            "run.submit",
            f"run/{spec.name}",
            lambda: submit_run(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda run: f"run/{run.id}",
            priority=spec.priority,
        )

    def cancel_run(self, run_id: str, *, reason: str = "") -> Run:
        reason = self._why(reason)
        return self._changed(
            "run.cancel",
            load(self._ports, "run", run_id),
            lambda: cancel_run(self._ports, run_id, by=self._by, reason=reason),
            reason,
        )

    def resume_run(self, run_id: str, filesystem: str | None, *, reason: str = "") -> Run:
        return self._changed(
            "run.resume",
            load(self._ports, "run", run_id),
            lambda: resume_run(self._ports, run_id, filesystem, by=self._by),
            reason,
        )

    def export_run(self, run_id: str, *, reason: str = "") -> Run:
        return self._changed(
            "run.export",
            load(self._ports, "run", run_id),
            lambda: request_export(self._ports, run_id, by=self._by),
            reason,
        )

    def label_run(
        self,
        run_id: str,
        changes: Mapping[str, str | None],
        *,
        priority: int | None = None,
        version: int | None,
    ) -> Run:
        return self._changed(
            "run.label" if priority is None else "run.priority",
            load(self._ports, "run", run_id),
            lambda: label_run(self._ports, run_id, changes, priority=priority, version=version),
            priority=priority or 0,
        )
