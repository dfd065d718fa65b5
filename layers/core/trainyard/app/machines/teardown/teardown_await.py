"""Wait until the cluster is gone.

AWS sends no event for that, so the wait is short and looks again.
"""

from __future__ import annotations

from typing import Any

from trainyard.app.machines.inputs import StepInput, done, store_wait
from trainyard.app.machines.teardown.teardown_check import ours
from trainyard.domain import names
from trainyard.ports import Ports


def teardown_await(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Store the token, then look once more."""
    cluster = ports.clusters.get(given.cluster_name)
    owner = names.teardown_owner(cluster.name)
    store_wait(ports, owner, "deleted", given)
    released = cluster.adoption is not None and not cluster.adoption.nodes
    if cluster.status == "Deleted" or released or ours(ports, cluster) is None:
        done(ports, owner, given.token)
    return {"waiting": True}
