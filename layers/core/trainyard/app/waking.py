"""Waits and wakes: a machine stores its token and looks once more; whoever records a fact wakes it by that token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.domain import names
from trainyard.domain.kinds import kind_of
from trainyard.domain.records import Run, Wait, WaitKind
from trainyard.ports import Ports
from trainyard_contracts.events import Fact

if TYPE_CHECKING:
    from trainyard.app.steps.inputs import StepInput


def store_wait(ports: Ports, owner: str, kind: WaitKind, given: StepInput) -> None:
    """Store the token first; the caller then looks at the state once more, so that no wake-up is lost.

    An invocation that Step Functions gave up and repeated may come here late: its token must not take the place of the one that is
    waited for now. It is ended instead, which harms nothing: it is spent, or its machine decides and waits again.
    """
    since = given.entered_at or ports.clock.now()
    if not ports.waits.store(Wait(owner=owner, kind=kind, token=given.token, since=since)):
        ports.executions.succeed(given.token, {})


def wake(ports: Ports, owner: str, kind: type[Fact] | None = None) -> bool:
    """End the owner's wait if this kind of fact (or, without one, anything) ends it; False if nothing waits for it."""
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
    """Wake whichever machine of the cluster waits: the one that makes it or the one that deletes it."""
    making = wake(ports, names.cluster_owner(cluster_name), kind)
    deleting = wake(ports, names.teardown_owner(cluster_name), kind)
    return making or deleting


def superseded(ports: Ports, run: Run, generation: int, token: str) -> bool:
    """Whether a newer execution owns the run. Then it waits under the run's name, and our late token must not replace its own."""
    if generation >= run.generation:
        return False
    ports.executions.succeed(token, {})
    return True


def done(ports: Ports, owner: str, token: str) -> None:
    """End our own wait at once, because what we would wait for is already there."""
    ports.executions.succeed(token, {})
    ports.waits.clear(owner, token)
