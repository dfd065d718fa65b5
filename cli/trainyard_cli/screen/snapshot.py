"""One consistent look at a run: run, cluster, nodes, checkpoints and timeline, in few calls."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from trainyard_sdk.client import Client, Json

from ..problems import ApiProblem

TERMINAL = frozenset({"Succeeded", "Failed", "Cancelled"})
#: Nodes and checkpoints are asked for this often: the backend's own lists lie behind them.
SLOW_SECONDS = 3.0


@dataclass
class Snapshot:
    """What is known of a run now. `new_events` came with the newest update."""

    run: Json
    cluster: Json | None = None
    nodes: list[Json] = field(default_factory=list)
    checkpoints: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    new_events: list[Json] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.run["status"] in TERMINAL

    @property
    def attempt(self) -> Json | None:
        """The newest attempt."""
        attempts = self.run.get("attempts") or []
        return attempts[-1] if attempts else None

    @property
    def step(self) -> int | None:
        """The last step known to be done: of the newest sample, or of a later checkpoint."""
        sampled = [] if self.sampled_step is None else [self.sampled_step]
        number = (self.attempt or {}).get("number")
        return max(
            [
                *sampled,
                *[
                    found["step"]
                    for found in self.checkpoints
                    if found["attempt"] == number and not found.get("counted")
                ],
            ],
            default=None,
        )

    @property
    def sampled_step(self) -> int | None:
        """The step to which `loss` belongs."""
        return _latest(self.run).get("step")

    @property
    def loss(self) -> float | None:
        return _latest(self.run).get("loss")


def _latest(run: Json) -> dict[str, Any]:
    return run.get("latest") or {}


class Watcher:
    """Fetches snapshots of one run; asks only for what is new."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client, self._run_id = client, run_id
        self._page: str | None = None  # token of the timeline's last page, which still grows
        self._events: dict[str, Json] = {}
        self._slow_at = 0.0
        self._cluster: Json | None = None
        self._nodes: list[Json] = []
        self._checkpoints: list[Json] = []
        self._latest: Json | None = None

    def look(self) -> Snapshot:
        """Raises ApiProblem (unknown run) and Unreachable."""
        run = self._client.run(self._run_id)
        # Heartbeats forget a run that no longer trains; people want to see where it ended.
        self._latest = run["latest"] = run.get("latest") or self._latest
        ended = run["status"] in TERMINAL
        new = self._new_events()
        if ended or time.monotonic() - self._slow_at >= SLOW_SECONDS:
            self._look_slowly(run)
            self._slow_at = time.monotonic()
        return Snapshot(
            run, self._cluster, self._nodes, self._checkpoints, list(self._events.values()), new
        )

    def _new_events(self) -> list[Json]:
        new: list[Json] = []
        while True:
            page = self._client.event_page(self._run_id, self._page)
            fresh = [event for event in page["events"] if event["id"] not in self._events]
            self._events.update((event["id"], event) for event in fresh)
            new += fresh
            if not page.get("nextToken"):
                return new
            self._page = page["nextToken"]

    def _look_slowly(self, run: Json) -> None:
        self._checkpoints = self._client.checkpoints(self._run_id)
        if run.get("clusterDeleted"):
            self._nodes = []
            return
        try:
            self._cluster = self._client.cluster(run["clusterName"])
            self._nodes = self._client.nodes(run["clusterName"])
        except ApiProblem as problem:
            if problem.status != 404 and problem.status < 500:
                raise
            if (
                problem.status == 404
            ):  # the cluster is not made yet, or gone; trouble of the backend passes
                self._nodes = []
