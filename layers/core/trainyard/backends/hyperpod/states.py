"""HyperPod's words for clusters and nodes, translated into the port's, here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.domain.states import BackendStatus, NodeState

CLUSTERS: Mapping[str, BackendStatus] = {
    "Creating": BackendStatus.CREATING,
    "InService": BackendStatus.IN_SERVICE,
    "Updating": BackendStatus.CHANGING,
    "SystemUpdating": BackendStatus.CHANGING,
    "RollingBack": BackendStatus.CHANGING,
    "Failed": BackendStatus.FAILED,
    "Deleting": BackendStatus.DELETING,
}
NODES: Mapping[str, NodeState] = {
    "Pending": NodeState.PENDING,
    "Running": NodeState.RUNNING,
    "Failure": NodeState.FAILURE,
    "ShuttingDown": NodeState.SHUTTING_DOWN,
    "SystemUpdating": NodeState.UPDATING,
    "DeepHealthCheckInProgress": NodeState.CHECKING,
    "NotFound": NodeState.UNKNOWN,
}


def cluster_status(word: str) -> BackendStatus:
    """UNKNOWN for a word that AWS added since."""
    return CLUSTERS.get(word, BackendStatus.UNKNOWN)


def node_state(word: str) -> NodeState:
    """UNKNOWN for a word that AWS added since."""
    return NODES.get(word, NodeState.UNKNOWN)


def node_message(word: str, message: str) -> str:
    """AWS's message, with AWS's word for the state where the port's word says less."""
    if node_state(word).value == word:
        return message
    return f"AWS says {word}: {message}" if message else f"AWS says {word}."
