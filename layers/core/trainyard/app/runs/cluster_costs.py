"""What a cluster has cost, divided among the runs that used it and the time in which none did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainyard.app.runs.cost_totals import MOST_RUNS, runs_found
from trainyard.domain import costs
from trainyard.domain.costs import Spell
from trainyard.domain.listing import Wanted
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts.events import Fact

_MORE = (
    f"Only the newest {MOST_RUNS} runs of this cluster are looked at, so what was idle is not "
    "known. Ask for the costs of older runs with since and until (trainyard costs)."
)


@dataclass(frozen=True)
class ClusterCost:
    """All generations of the name. `idle` is what no run used, spares and controller included."""

    usd: float | None
    reason: str
    at: datetime
    node_seconds: float
    spells: list[Spell]
    runs: dict[str, float | None]
    idle_usd: float | None


def cost_of_cluster(ports: Ports, cluster: Cluster) -> ClusterCost:
    """Up to now."""
    now = ports.clock.now()
    facts = ports.clusters.facts(cluster.name)
    runs = list(runs_found(ports, Wanted(cluster=cluster.name)))
    by_job = cluster.spec.nodes_come_with_jobs
    whole = [] if by_job else costs.of_cluster(facts, now)
    shares: dict[str, float | None] = {}
    for run in runs:
        found = costs.spells(run, [*facts, *_own(ports, run)], now)
        if found:
            shares[run.id] = costs.usd_of(found)
            whole.extend(found if by_job else [])
    usd, used = costs.usd_of(whole), list(shares.values())
    known = [share for share in used if share is not None]
    more = len(runs) >= MOST_RUNS
    lacks = usd is None or more or len(known) < len(used)
    idle = None if lacks else max(0.0, (usd or 0.0) - sum(known))
    seconds = sum(spell.node_seconds for spell in whole)
    reason = costs.unpriced(whole) or (_MORE if more else "")
    return ClusterCost(None if more and by_job else usd, reason, now, seconds, whole, shares, idle)


def _own(ports: Ports, run: Run) -> list[Fact]:
    """A run's own cluster may have had other generations."""
    return ports.runs.facts(run.id) if run.owns_cluster else []
