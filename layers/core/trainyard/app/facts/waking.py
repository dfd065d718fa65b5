"""Wakes the machine that waits for a recorded fact, by the task token that it stored."""

from __future__ import annotations

from trainyard.domain import names
from trainyard.domain.kinds import kind_of
from trainyard.ports import Ports
from trainyard_contracts.events import Fact


def wake(ports: Ports, owner: str, kind: type[Fact] | None = None) -> bool:
    """End the owner's wait if this kind of fact ends it; without a kind, anything does.

    False if nothing waits for it.
    """
    wait = ports.waits.get(owner)
    if wait is None or (kind is not None and wait.kind not in kind_of(kind).wakes):
        return False
    if not ports.waits.mark_woken(owner, wait.token, ports.clock.now()):
        return False
    # A crash here leaves the wait marked and stored: sweep sends the success again.
    ports.executions.succeed(wait.token, {})
    ports.waits.clear(owner, wait.token)
    return True


def wake_run(ports: Ports, run_id: str, kind: type[Fact] | None = None) -> bool:
    return wake(ports, names.run_owner(run_id), kind)


def wake_cluster(ports: Ports, cluster_name: str, kind: type[Fact] | None = None) -> bool:
    """Wake the machine of the cluster that waits: the one that makes it, or that deletes it."""
    making = wake(ports, names.cluster_owner(cluster_name), kind)
    deleting = wake(ports, names.teardown_owner(cluster_name), kind)
    return making or deleting
