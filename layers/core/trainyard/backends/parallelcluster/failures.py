"""Why the making of a cluster failed: ParallelCluster's own word, or the first failed resource."""

from __future__ import annotations

from trainyard.backends.parallelcluster.answers import ClusterDescription, StackEvent
from trainyard.backends.parallelcluster.api import ParallelClusterApi
from trainyard.domain import errors

#: What CloudFormation says of resources that it gave up because another one had failed.
_CONSEQUENCES = ("Resource creation cancelled", "Resource update cancelled")
#: How failure codes begin that are of a script which runs on a node (cfn_stack of 3.16.1).
_OF_A_SCRIPT = "OnNode"
_SCRIPT_FAILED = "A lifecycle script failed."
_SHOWN = 1500


def why_it_failed(api: ParallelClusterApi, known: ClusterDescription) -> str:
    """In AWS's words; '' where it says nothing."""
    told = [f"{one.failure_code}: {one.failure_reason}" for one in known.failures or []]
    if any(one.startswith(_OF_A_SCRIPT) for one in told):
        told.insert(0, _SCRIPT_FAILED)
    if known.failure_reason:
        told.append(known.failure_reason)
    if first := _first_failed(api, known.cluster_name):
        told.append(first)
    return " ".join(dict.fromkeys(told))[:_SHOWN]


def why_it_was_undone(api: ParallelClusterApi, name: str) -> str:
    """Why the newest update was rolled back, in AWS's words; '' where it says nothing."""
    return _first_failed(api, name, newest_update=True)[:_SHOWN]


def _first_failed(api: ParallelClusterApi, name: str, *, newest_update: bool = False) -> str:
    """The oldest resource that failed by itself; those after it are its consequences."""
    failed = []
    try:
        for one in api.stack_events(name):  # newest first
            failed += [one] if _failed(one) else []
            if newest_update and _begins(one, name):
                break
    except errors.TrainyardError:
        return ""
    first = min(failed, key=lambda one: one.timestamp, default=None)
    if first is None:
        return ""
    return f"{first.logical_resource_id} ({first.resource_type}): {first.resource_status_reason}"


def _begins(event: StackEvent, name: str) -> bool:
    """The stack's own event that an update of it began; of a rollback it has another word."""
    return event.logical_resource_id == name and event.resource_status == "UPDATE_IN_PROGRESS"


def _failed(event: StackEvent) -> bool:
    reason = event.resource_status_reason or ""
    status = event.resource_status or ""
    return status.endswith("_FAILED") and bool(reason) and not reason.startswith(_CONSEQUENCES)
