"""Reports each change of what the nodes' checks find, once: the source of NodeUnhealthy."""

from __future__ import annotations

import logging
import sqlite3
from functools import partial
from typing import Any

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.nodes.activity import Jobs, named
from trainyard_contracts.node_events import NodeUnhealthy

log = logging.getLogger(__name__)


class Verdicts:
    """The severity of every check of every node, as it was reported last."""

    def __init__(self, reporter: Reporter, jobs: Jobs) -> None:
        self._reporter, self._jobs = reporter, jobs
        rows = reporter.store.connection.execute("SELECT node, name, severity FROM verdicts")
        self._known: dict[tuple[str, str], str] = {
            (node, check): severity for node, check, severity in rows
        }

    def take(self, name: str, verdicts: dict[str, Any]) -> None:
        """Report every check of this node whose severity changed."""
        for check, value in verdicts.items():
            severity, detail = (str(part) for part in value)
            known = self._known.get((name, check), "healthy")
            if severity in ("healthy", "warning", "error") and severity != known:
                self._report(name, check, severity, detail)

    def _report(self, name: str, check: str, severity: str, detail: str) -> None:
        self._known[name, check] = severity
        event = self._reporter.make(
            NodeUnhealthy,
            check=check,
            severity=severity,
            detail=f"{name}: {detail}",
            **named(self._jobs.on_node(name)),
        ).changed(node=name)
        row = (name, check, severity, detail)
        self._reporter.report(event, change=partial(_keep, row))
        log.warning("%s: check %s is %s: %s", name, check, severity, detail)


def _keep(row: tuple[str, str, str, str], connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO verdicts VALUES(?, ?, ?, ?)", row)
