"""The states of a cluster and of a node in the port's own words.

A backend translates its words into them.
"""

from __future__ import annotations

from enum import StrEnum


class BackendStatus(StrEnum):
    """The state of a backend's cluster.

    A word that the backend's class does not know is UNKNOWN, and decides nothing.
    """

    CREATING = "creating"
    IN_SERVICE = "in-service"
    CHANGING = "changing"
    FAILED = "failed"
    DELETING = "deleting"
    UNKNOWN = "unknown"


class NodeState(StrEnum):
    """The state of a backend's node; the API shows these words."""

    PENDING = "Pending"
    RUNNING = "Running"
    FAILURE = "Failure"
    SHUTTING_DOWN = "ShuttingDown"
    UPDATING = "Updating"
    CHECKING = "Checking"
    UNKNOWN = "Unknown"


#: A node that leaves, or whose successor comes already: nobody asks for another one in its place.
BEING_REPLACED = frozenset({NodeState.SHUTTING_DOWN, NodeState.PENDING, NodeState.UPDATING})
