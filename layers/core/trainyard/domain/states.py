"""The port's own words for where a cluster and a node stand.

A backend translates its words into them.
"""

from __future__ import annotations

from enum import StrEnum


class BackendStatus(StrEnum):
    """Where a backend's cluster stands.

    A word that nobody knows yet is UNKNOWN, and decides nothing.
    """

    CREATING = "creating"
    IN_SERVICE = "in-service"
    CHANGING = "changing"
    FAILED = "failed"
    DELETING = "deleting"
    UNKNOWN = "unknown"


class NodeState(StrEnum):
    """Where a backend's node stands; the API shows these words."""

    PENDING = "Pending"
    RUNNING = "Running"
    FAILURE = "Failure"
    SHUTTING_DOWN = "ShuttingDown"
    UPDATING = "Updating"
    CHECKING = "Checking"
    UNKNOWN = "Unknown"


#: A node that leaves, or whose successor comes already: nobody asks for another one in its place.
BEING_REPLACED = frozenset({NodeState.SHUTTING_DOWN, NodeState.PENDING, NodeState.UPDATING})
