"""Waits: a machine stores its token and looks once more; a recorded fact wakes it by that token."""

from __future__ import annotations

from trainyard.app.machines.inputs import StepInput
from trainyard.domain.records import Run, Wait, WaitKind
from trainyard.ports import Ports


def store_wait(ports: Ports, owner: str, kind: WaitKind, given: StepInput) -> None:
    """Store the token first; the caller then looks once more, so that no wake-up is lost.

    An invocation that Step Functions gave up and repeated may come here late: its token must not
    take the place of the one that is waited for now. It is ended instead, which harms nothing: it
    is spent, or its machine decides and waits again.
    """
    since = given.entered_at or ports.clock.now()
    if not ports.waits.store(Wait(owner=owner, kind=kind, token=given.token, since=since)):
        ports.executions.succeed(given.token, {})


def superseded(ports: Ports, run: Run, generation: int, token: str) -> bool:
    """Whether a newer execution owns the run.

    Then it waits under the run's name, and our late token must not replace its own.
    """
    if generation >= run.generation:
        return False
    ports.executions.succeed(token, {})
    return True


def done(ports: Ports, owner: str, token: str) -> None:
    """End our own wait at once, because what we would wait for is already there."""
    ports.executions.succeed(token, {})
    ports.waits.clear(owner, token)
