"""ParallelCluster's words for clusters, fleets and nodes, in the port's, here and nowhere else.

A cluster is whole only with its fleet: one whose stack is complete serves no job while its compute
fleet is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.domain.states import BackendStatus, NodeState

#: ClusterStatus of the API's description (3.16.1).
CLUSTERS: Mapping[str, BackendStatus] = {
    "CREATE_IN_PROGRESS": BackendStatus.CREATING,
    "CREATE_COMPLETE": BackendStatus.IN_SERVICE,
    "CREATE_FAILED": BackendStatus.FAILED,
    "UPDATE_IN_PROGRESS": BackendStatus.CHANGING,
    "UPDATE_COMPLETE": BackendStatus.IN_SERVICE,
    # CloudFormation went back to the configuration before, with which the cluster goes on.
    "UPDATE_FAILED": BackendStatus.IN_SERVICE,
    "DELETE_IN_PROGRESS": BackendStatus.DELETING,
    "DELETE_FAILED": BackendStatus.FAILED,
    "DELETE_COMPLETE": BackendStatus.DELETING,
}
#: CloudFormationStackStatus there. What it says of a roll-back, the API's word does not.
STACKS: Mapping[str, BackendStatus] = {
    "CREATE_IN_PROGRESS": BackendStatus.CREATING,
    "CREATE_FAILED": BackendStatus.FAILED,
    "CREATE_COMPLETE": BackendStatus.IN_SERVICE,
    "IMPORT_IN_PROGRESS": BackendStatus.CHANGING,
    "IMPORT_COMPLETE": BackendStatus.IN_SERVICE,
    "IMPORT_ROLLBACK_IN_PROGRESS": BackendStatus.CHANGING,
    "IMPORT_ROLLBACK_FAILED": BackendStatus.FAILED,
    "IMPORT_ROLLBACK_COMPLETE": BackendStatus.IN_SERVICE,
    "ROLLBACK_IN_PROGRESS": BackendStatus.FAILED,
    "ROLLBACK_FAILED": BackendStatus.FAILED,
    "ROLLBACK_COMPLETE": BackendStatus.FAILED,
    "DELETE_IN_PROGRESS": BackendStatus.DELETING,
    "DELETE_FAILED": BackendStatus.FAILED,
    "DELETE_COMPLETE": BackendStatus.DELETING,
    "REVIEW_IN_PROGRESS": BackendStatus.CREATING,
    "UPDATE_IN_PROGRESS": BackendStatus.CHANGING,
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": BackendStatus.CHANGING,
    "UPDATE_COMPLETE": BackendStatus.IN_SERVICE,
    "UPDATE_FAILED": BackendStatus.FAILED,
    "UPDATE_ROLLBACK_IN_PROGRESS": BackendStatus.CHANGING,
    "UPDATE_ROLLBACK_FAILED": BackendStatus.FAILED,
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": BackendStatus.CHANGING,
    "UPDATE_ROLLBACK_COMPLETE": BackendStatus.IN_SERVICE,
}
#: Of a fleet.
PROTECTED = "PROTECTED"
#: ComputeFleetStatus there: whether jobs can get nodes.
FLEETS: Mapping[str, BackendStatus] = {
    "START_REQUESTED": BackendStatus.CHANGING,
    "STARTING": BackendStatus.CHANGING,
    "RUNNING": BackendStatus.IN_SERVICE,
    # Queues whose nodes failed to boot ten times are inactive; the others serve jobs.
    PROTECTED: BackendStatus.IN_SERVICE,
    "STOP_REQUESTED": BackendStatus.CHANGING,
    "STOPPING": BackendStatus.CHANGING,
    "STOPPED": BackendStatus.CHANGING,
    # The head node writes the first word. Until then there is none.
    "UNKNOWN": BackendStatus.CREATING,
    "ENABLED": BackendStatus.IN_SERVICE,
    "DISABLED": BackendStatus.CHANGING,
}
#: InstanceState there, EC2's own.
NODES: Mapping[str, NodeState] = {
    "pending": NodeState.PENDING,
    "running": NodeState.RUNNING,
    "shutting-down": NodeState.SHUTTING_DOWN,
    "terminated": NodeState.SHUTTING_DOWN,
    "stopping": NodeState.FAILURE,
    "stopped": NodeState.FAILURE,
}


def cluster_status(cluster: str, stack: str = "", fleet: str = "") -> BackendStatus:
    """UNKNOWN for a word that is newer than these.

    The stack's word decides where it is graver, and the fleet's where all else is in service.
    """
    said = CLUSTERS.get(cluster, BackendStatus.UNKNOWN)
    if stack and STACKS.get(stack) in (BackendStatus.FAILED, BackendStatus.DELETING):
        said = STACKS[stack]
    if said == BackendStatus.IN_SERVICE and fleet:
        return FLEETS.get(fleet, BackendStatus.UNKNOWN)
    return said


def stack_status(word: str) -> BackendStatus:
    """Of an event of CloudFormation. UNKNOWN for a word that is newer than these."""
    return STACKS.get(word, BackendStatus.UNKNOWN)


def node_state(word: str) -> NodeState:
    """UNKNOWN for a word that is newer than these."""
    return NODES.get(word, NodeState.UNKNOWN)
