"""What people ask of arrays of runs."""

from __future__ import annotations

from trainyard.app.people.audited import Audited
from trainyard.app.runs.advance_array import cancel_array
from trainyard.app.runs.submit_array import submit_array
from trainyard.domain.array_records import RunArray
from trainyard_contracts.arrays import ArraySpec


class OfArrays(Audited):
    """Submit and cancel."""

    def submit_array(self, spec: ArraySpec, *, idempotency_key: str | None) -> RunArray:
        return self._made(
            "array.submit",
            f"array/{spec.run.name}",
            lambda: submit_array(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda array: f"array/{array.id}",
            priority=spec.run.priority,
        )

    def cancel_array(self, array_id: str, *, reason: str = "") -> RunArray:
        reason = self._why(reason)
        return self._changed(
            "array.cancel",
            self._ports.arrays.get(array_id),
            lambda: cancel_array(self._ports, array_id, by=self._by, reason=reason),
            reason,
        )
