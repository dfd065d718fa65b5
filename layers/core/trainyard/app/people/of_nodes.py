"""What people ask of single nodes."""

from __future__ import annotations

from trainyard.app.clusters.node_operations import reboot_node, replace_node
from trainyard.app.people.audited import Audited
from trainyard.app.people.ownership import load
from trainyard.outside.seen_clusters import BatchResult


class OfNodes(Audited):
    """Replace and reboot."""

    def replace_node(self, cluster: str, instance_id: str, *, reason: str = "") -> BatchResult:
        return self._changed(
            "node.replace",
            load(self._ports, "cluster", cluster),
            lambda: replace_node(self._ports, cluster, instance_id, by=self._by),
            reason,
            subject=f"node/{cluster}/{instance_id}",
        )

    def reboot_node(self, cluster: str, instance_id: str, *, reason: str = "") -> BatchResult:
        return self._changed(
            "node.reboot",
            load(self._ports, "cluster", cluster),
            lambda: reboot_node(self._ports, cluster, instance_id, by=self._by),
            reason,
            subject=f"node/{cluster}/{instance_id}",
        )
