"""Whether a run can follow those that its spec names in `after`, as far as can be seen now."""

from __future__ import annotations

from trainyard.domain.errors import FieldError, InvalidRequest, RunNotFound
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts.inputs import RunOutputs
from trainyard_contracts.specs import RunSpec


def check_after(ports: Ports, spec: RunSpec) -> None:
    """Raises InvalidRequest for a run that there is not, or that did not succeed, where it must."""
    parents = {one: _parent(ports, spec, number) for number, one in enumerate(spec.after)}
    for number, one in enumerate(spec.inputs):
        outputs = RunOutputs.of(one.source)
        if outputs is not None and not parents[outputs.run_id].spec.export.enabled:
            raise _wrong(
                f"inputs.{number}.source",
                f"run {outputs.run_id} exports nothing (export.enabled: false), so it has no "
                "outputs to read; remove the input, or name a run that exports",
            )


def _parent(ports: Ports, spec: RunSpec, number: int) -> Run:
    field, run_id = f"after.{number}", spec.after[number]
    try:
        run = ports.runs.get(run_id)
    except RunNotFound:
        raise _wrong(
            field, f"there is no run {run_id}; list runs with 'trainyard run ls' (GET /v1/runs)"
        ) from None
    if spec.after_policy == "success" and run.status in ("Failed", "Cancelled"):
        raise _wrong(
            field,
            f"run {run_id} is {run.status}, so nothing can begin after its success; resume it "
            "first, or use afterPolicy 'end'",
        )
    return run


def _wrong(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])
