"""Ways in which AWS may differ from what Trainyard assumes of it, played on purpose.

A first run has to find each of them by its name.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

#: What each plays. The part that plays it asks `cloud.quirks` by the name.
QUIRKS = {
    "prices-have-other-usage-types": "the price list names nodes of clusters by another usage type",
    "empty-slurm-is-refused": 'CreateCluster refuses the orchestrator {"Slurm": {}}',
    "new-roles-are-refused-in-other-words": (
        "CreateCluster refuses a role the first time, with a message that names no assuming"
    ),
    "resource-config-has-other-names": "resource_config.json calls an instance's address otherwise",
    "lifecycle-log-is-another-stream": (
        "the log of the lifecycle scripts lies in a stream of another name"
    ),
    "events-have-another-detail-type": "HyperPod's events come with other detail-types",
    "node-roles-may-not-put-events": (
        "PutEvents is refused to nodes, whatever their role's policies say"
    ),
    "targets-have-the-name": (
        "Session Manager knows a node by the cluster's name in the place of its id"
    ),
    "sessions-have-no-exit-code": (
        "a session ends without the message that carries the command's exit code"
    ),
    "sessions-have-no-sudo": "the user of sessions may not become root",
    "heads-have-no-checksum": "S3 answers HEAD without the checksum that the object was sent with",
    "deleted-clusters-are-described": (
        "DescribeCluster answers with the status Deleted for a cluster that is gone"
    ),
    "slurm-comes-late": (
        "OnInitComplete's script runs before munge, slurmctld and slurmd are up (machines only)"
    ),
    "scripts-come-late": (
        "a node's lifecycle script begins ten seconds after the node was set up for it: "
        "nothing may break by that"
    ),
    "nodes-cost-a-dollar": "each node costs 1 USD an hour, where the local cloud's cost nothing",
    "slurmd-takes-no-options": (
        "the image's slurmd.service takes no server from SLURMD_OPTIONS (machines only)"
    ),
}


class Quirks:
    """The quirks that are played now.

    Clusters, nodes and sessions that are there already keep what they have.
    """

    def __init__(self) -> None:
        self._on: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        assert name in QUIRKS, name
        return name in self._on

    def set(self, request: Mapping[str, Any]) -> list[str]:
        """{"name", "on"?}: begin to play one, or end it with "on": false.

        Returns those that are played now; raises ValueError.
        """
        name, on = request.get("name"), request.get("on", True)
        if name not in QUIRKS:
            raise ValueError(f"name: '{name}' is no quirk; there are: {', '.join(QUIRKS)}")
        if not isinstance(on, bool):
            raise ValueError(f"on: '{on}' must be true or false")
        with self._lock:
            self._on = self._on | {name} if on else self._on - {name}
        return sorted(self._on)
