"""The runs' progress as a file in the textfile directory of Prometheus' node_exporter.

OpenMetrics, of which node_exporter's text format reads all that is here. No port and no signature:
what scrapes the node scrapes this, too.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_contracts.agent_config import AgentConfig

log = logging.getLogger(__name__)

WRITE_SECONDS = 5.0
NAME = "trainyard.prom"
Value = Callable[[Attempt], float | None]

#: Name without the suffix, type, what it says, and of which number.
_FAMILIES: tuple[tuple[str, str, str, Value], ...] = (
    (
        "trainyard_run_step",
        "gauge",
        "Last step that the run finished.",
        lambda one: one.progress.step if one.progress else None,
    ),
    (
        "trainyard_run_loss",
        "gauge",
        "Loss of that step.",
        lambda one: one.progress.loss if one.progress else None,
    ),
    (
        "trainyard_run_progress_timestamp_seconds",
        "gauge",
        "When the run finished that step, since the epoch.",
        lambda one: one.progress.at if one.progress else None,
    ),
    (
        "trainyard_run_step_seconds",
        "gauge",
        "How long a step takes, smoothed.",
        lambda one: one.step_seconds,
    ),
    (
        "trainyard_run_nodes",
        "gauge",
        "Nodes of the job; 0 while it waits in the queue.",
        lambda one: len(one.nodes),
    ),
    (
        "trainyard_run_restarts",
        "counter",
        "Attempts of the run before this one.",
        lambda one: one.number - 1,
    ),
)


class Textfile:
    """Writes while the directory is there; who wants the file makes the directory."""

    def __init__(self, config: AgentConfig, attempts: Attempts) -> None:
        self._cluster, self._attempts = config.cluster_name, attempts
        directory = Path(config.state_dir).parent / "node_exporter" / "textfile_collector"
        self._path = directory / NAME
        self._failed = False

    async def watch(self) -> None:
        while True:
            body = text_of(self._cluster, self._attempts.active())
            await asyncio.to_thread(self.write, body)
            await asyncio.sleep(WRITE_SECONDS)

    def write(self, body: str) -> None:
        """A directory that is full or not ours costs the file, and nothing else."""
        try:
            if self._path.parent.is_dir():
                replace_file(self._path, body.encode(), durable=False)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("%s is not written, which is tried again: %s", self._path, error)
            self._failed = True

    def close(self) -> None:
        """The last step of an agent that stopped is no news."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s stays behind: %s", self._path, error)


def text_of(cluster: str, attempts: Sequence[Attempt]) -> str:
    """One sample a run of each number that is known."""
    lines: list[str] = []
    for name, kind, said, value in _FAMILIES:
        lines += [f"# TYPE {name} {kind}", f"# HELP {name} {said}"]
        suffix = "_total" if kind == "counter" else ""
        for attempt in attempts:
            number = value(attempt)
            if number is not None:
                labels = f'cluster="{_escaped(cluster)}",run="{_escaped(attempt.run_id)}"'
                lines.append(f"{name}{suffix}{{{labels}}} {_number(number)}")
    return "\n".join([*lines, "# EOF", ""])


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
