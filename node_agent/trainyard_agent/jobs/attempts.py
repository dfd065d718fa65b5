"""The controller's book of attempts: in memory and in the store, changed together with events."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from dataclasses import replace

from typing_extensions import Unpack

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.configuration import attempt_dir
from trainyard_agent.jobs.activity import HINT_SECONDS, activity_on, leftovers_on
from trainyard_agent.jobs.attempt import CLOSED, Attempt, Changes
from trainyard_agent.nodes.activity import Activity
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.event_bases import AgentEvent
from trainyard_contracts.heartbeats import RunSample

_QUERY = """
SELECT run, attempt, state, bundle, job, nodes, stepped FROM attempts ORDER BY run, attempt
"""


class Attempts:
    """All attempts this controller knows."""

    def __init__(self, config: AgentConfig, reporter: Reporter) -> None:
        self._config, self._reporter = config, reporter
        self.changed = asyncio.Event()
        self.known: dict[tuple[str, int], Attempt] = {}
        self._cancels: dict[str, int] = {}
        self._load()

    def _load(self) -> None:
        connection = self._reporter.store.connection
        for run, number, state, uri, job, nodes, stepped in connection.execute(_QUERY):
            attempt = Attempt(
                run,
                number,
                "ended" if state == CLOSED else state,
                attempt_dir(self._config, run, number),
                uri,
                job,
                tuple(json.loads(nodes)),
                bool(stepped),
            )
            attempt.closed = state == CLOSED
            attempt.job_ended = attempt.state == "ended"
            if attempt.job_ended:
                attempt.done.set()
            self.known[run, number] = attempt
        self._cancels = dict(connection.execute("SELECT run, attempt FROM cancels").fetchall())

    # -- the store --------------------------------------------------------------------------------
    def save(
        self,
        attempt: Attempt,
        *events: AgentEvent,
        must: bool = False,
        **changes: Unpack[Changes],
    ) -> None:
        """Change an attempt and report it, in one transaction.

        `must`: raise sqlite3.OperationalError if it cannot reach the disk. If it raises, the
        attempt is as it was.
        """
        changed = replace(attempt, **changes)
        row = _row(changed)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO attempts VALUES(?, ?, ?, ?, ?, ?, ?)", row)

        if must:
            self._reporter.store.apply_now(change)
        else:
            self._reporter.report(*events, change=change)
        attempt.state, attempt.job_id, attempt.nodes = changed.state, changed.job_id, changed.nodes
        attempt.stepped, attempt.closed = changed.stepped, changed.closed
        self.known[attempt.run_id, attempt.number] = attempt
        self.changed.set()

    def request_cancel(self, attempt: Attempt) -> None:
        """Note that a person wants this attempt to end; later attempts of the run are not meant."""
        self._cancels[attempt.run_id] = attempt.number
        row = (attempt.run_id, attempt.number)
        self._reporter.report(
            change=lambda db: db.execute("INSERT OR REPLACE INTO cancels VALUES(?, ?)", row)
        )

    def cancelled(self, attempt: Attempt) -> bool:
        return self._cancels.get(attempt.run_id) == attempt.number

    def newest(self, run_id: str) -> Attempt | None:
        """The run's newest attempt."""
        return max(
            (a for (run, _), a in self.known.items() if run == run_id),
            key=lambda a: a.number,
            default=None,
        )

    def nodes_before(self, attempt: Attempt) -> tuple[str, ...]:
        """The nodes of the run's attempt before this one."""
        older = (a for a in self.known.values() if a.run_id == attempt.run_id)
        before = [a for a in older if a.number < attempt.number]
        return max(before, key=lambda a: a.number).nodes if before else ()

    def superseded(self, attempt: Attempt) -> bool:
        """A newer attempt of the run exists."""
        newest = self.newest(attempt.run_id)
        return newest is not None and newest.number > attempt.number

    def active(self) -> list[Attempt]:
        return [attempt for attempt in self.known.values() if attempt.active]

    # -- what others ask (activity.Jobs) ----------------------------------------------------------
    def on_node(self, node: str) -> Activity | None:
        """The attempt whose job is on the node, else the one that ended there a moment ago."""
        return activity_on(node, self.known.values(), time.monotonic())

    def busy(self) -> bool:
        return bool(self.active())

    def leftovers(self, node: str) -> list[tuple[str, int, list[str]]]:
        return leftovers_on(node, self.known.values())

    def samples(self) -> list[RunSample]:
        """The progress of every active run."""
        return [_sample(attempt) for attempt in self.active()]

    def job_ended_somewhere(self) -> None:
        """The epilog's hint: look at every active job now, and closely for a while."""
        for attempt in self.active():
            attempt.eager_until = time.monotonic() + HINT_SECONDS
            attempt.wake.set()


def _sample(attempt: Attempt) -> RunSample:
    progress = attempt.progress
    return RunSample(
        run_id=attempt.run_id,
        attempt=attempt.number,
        job_state=attempt.job_state,
        pending_reason=attempt.pending_reason,
        step=progress.step if progress else None,
        loss=progress.loss if progress else None,
    )


def _row(attempt: Attempt) -> tuple[str, int, str, str, str, str, int]:
    """The attempt as the store keeps it."""
    return (
        attempt.run_id,
        attempt.number,
        CLOSED if attempt.closed else attempt.state,
        attempt.bundle_uri,
        attempt.job_id,
        json.dumps(attempt.nodes),
        int(attempt.stepped),
    )
