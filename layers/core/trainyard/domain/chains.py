"""Whether a run may begin: it waits for the runs that its spec names in `after`."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.domain.decisions import Draft
from trainyard.domain.problems import problem
from trainyard.domain.records import Run
from trainyard.domain.words import listed
from trainyard_contracts.specs import RunSpec

#: So many of the runs that a run waits for are named in its reason.
_SHOWN = 4


def still_waits(draft: Draft, parents: Sequence[Run]) -> bool:
    """True while a run of `after` goes on; the run stops here if it can never begin.

    Its life begins when the last of them has ended: its limits count from then on.
    """
    run = draft.run
    if not run.waits_for_runs:
        return False
    if bad := unsuccessful(run.spec, parents):
        reason = f"{named(bad)} is {bad.status}, and this run was to begin after its success."
        draft.stop("failed", reason, problem("parent-failed", reason))
        draft.note(f"parent-{bad.id}", "ParentFailed", reason)
        return False
    going = [parent for parent in parents if not parent.terminal]
    if going:
        draft.status("Waiting", f"It begins after {listed([named(one) for one in going], _SHOWN)}.")
        return True
    draft.change(after_met_at=draft.now, opened_at=draft.now)
    ended = listed([f"{named(one)} ({one.status})" for one in parents], _SHOWN)
    reason = f"What it waited for has ended: {ended}."
    draft.status("Pending", reason)
    draft.note("parents", "ParentsEnded", reason)
    return False


def unsuccessful(spec: RunSpec, parents: Sequence[Run]) -> Run | None:
    """The one after whose success a run of this spec was to begin, and that had none."""
    if spec.after_policy != "success":
        return None
    return next((one for one in parents if one.status in ("Failed", "Cancelled")), None)


def named(run: Run) -> str:
    """'run preprocess (run-...)'"""
    return f"run '{run.name}' ({run.id})"
