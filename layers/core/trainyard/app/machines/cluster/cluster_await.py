"""Wait for the next news of a cluster that is being made."""

from __future__ import annotations

from typing import Any

from trainyard.app.machines.cluster.cluster_decide import decision_of
from trainyard.app.machines.inputs import StepInput, done, store_wait
from trainyard.domain import names
from trainyard.ports import Ports


def cluster_await(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Store the token, then look once more."""
    owner = names.cluster_owner(given.cluster_name)
    store_wait(ports, owner, "in-service", given)
    if decision_of(ports, ports.clusters.get(given.cluster_name)).next != "await":
        done(ports, owner, given.token)
    return {"waiting": True}
