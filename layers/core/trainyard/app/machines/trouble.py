"""A step failed for good: write down what failed; the decision finds the best way to an end."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from trainyard.app.machines.inputs import StepInput
from trainyard.domain.closing import TROUBLE_LIMIT
from trainyard.domain.problems import problem
from trainyard.domain.records import Export, Run, TimelineEntry
from trainyard.domain.runs import stopped
from trainyard.ports import Ports

GIVEN_UP = frozenset({"repair", "export"})
CODES = {"submit": "submit-failed", "ensure-cluster": "cluster-failed", "export": "export-failed"}


def trouble(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Change the run so that the next decision goes another way, and count.

    After too many troubles the run just ends. A repair or an export that failed is given up and
    nothing more: it never counts against training. Step Functions may repeat this step, too: the
    moment when it entered the state shows whether this trouble is counted already.
    """
    run = ports.runs.get(given.run_id)
    if run.terminal or given.generation < run.generation:
        return {"next": "decide"}
    trouble_id = (
        f"{given.generation}-{given.entered_at.isoformat() if given.entered_at else run.version}"
    )
    if run.last_trouble == trouble_id:
        return _next(run.troubles)
    detail = f"Step '{given.failed_step}' failed: {cause_of(given)}"
    now = ports.clock.now()
    count = run.troubles + (given.failed_step not in GIVEN_UP)
    line = TimelineEntry(
        id=f"status-trouble-{run.life}-{trouble_id}",
        at=now,
        kind="status",
        type="Trouble",
        message=detail,
    )
    update = {"troubles": count, "last_trouble": trouble_id}
    ports.runs.put(_changed(run, given.failed_step, detail, now).changed(**update), [line])
    return _next(count)


def _next(troubles: int) -> dict[str, Any]:
    return {"next": "finish" if troubles > TROUBLE_LIMIT else "decide"}


def cause_of(given: StepInput) -> str:
    """The message in Step Functions' error output: Cause is the function's error document."""
    cause = str(given.error.get("Cause") or "")
    try:
        document = json.loads(cause)
        cause = str(document.get("errorMessage") or cause)
    except (ValueError, AttributeError):
        pass
    name = str(given.error.get("Error") or "error")
    return f"{cause[:800] or 'no reason given'} ({name})"


def _changed(run: Run, failed_step: str, detail: str, now: datetime) -> Run:
    if failed_step == "repair":
        # What could not be repaired must not hold up training or the run's end.
        return run.changed(actions=[])
    if failed_step == "export" and run.export is not None:
        return run.changed(export=_failed(run.export, detail))
    if run.outcome is None:
        found = problem(CODES.get(failed_step, "internal"), detail)
        return stopped(run, now, "failed", detail, found)
    return run


def _failed(export: Export, reason: str) -> Export:
    return export.changed(state="failed", reason=reason)
