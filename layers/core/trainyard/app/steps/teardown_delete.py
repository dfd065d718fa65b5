"""Ask AWS to delete the cluster."""

from __future__ import annotations

from typing import Any

from trainyard.app.steps.inputs import StepInput
from trainyard.ports import Ports


def teardown_delete(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Delete; teardown-check made sure that it is ours and not needed. A conflict with another operation is retried."""
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.status != "Deleting" or cluster.generation != given.generation:
        return {"asked": False}
    ports.backend.delete(cluster.name)
    if cluster.delete_requested_at is None:
        now = ports.clock.now()
        ports.clusters.put(cluster.model_copy(update={"delete_requested_at": now, "updated_at": now}))
    return {"asked": True}
