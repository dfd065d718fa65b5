"""Who may speak for a cluster.

Only who holds its key, for every node of every cluster may put events on the bus.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.signatures import is_signed


def refusal(ports: Ports, cluster: Cluster, kind: str, detail: Mapping[str, Any]) -> str:
    """'' if the cluster's own agent said this, or why it is not believed.

    A cluster that was made before agents signed is believed unsigned. The key is looked up again
    once, because another cluster of this name may have had another one.
    """
    if not cluster.signs_events:
        return ""
    if "signature" not in detail:
        return "it is not signed"
    name = places.agent_key_secret(ports.config.secret_prefix, cluster.name)
    for fresh in (False, True):
        key = ports.secrets.read(name, fresh=fresh)
        if key is not None and is_signed(kind, detail, key.encode()):
            return ""
    return "its signature is not the cluster's" if key else "its cluster has no key"
