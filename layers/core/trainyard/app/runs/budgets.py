"""A budget is accepted only where it can be kept: a price is known, and the tail fits in."""

from __future__ import annotations

from trainyard.app.clusters.prices import price_of
from trainyard.domain import budget_accounts
from trainyard.domain.capacity import all_ways
from trainyard.domain.errors import ClusterNotFound, FieldError, InvalidRequest
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.specs import RunSpec


def check_budget(ports: Ports, spec: RunSpec, cluster: Cluster | None) -> None:
    """Raises InvalidRequest."""
    if spec.budget is None:
        return
    hourly = _hourly(ports, spec, cluster)
    if hourly is None:
        raise _refused(
            "budget",
            "no price is known for these instances, so it could not be kept; give "
            + ("cluster.spec.hourlyUsd" if cluster is None else "hourlyUsd in the cluster's spec")
            + ", what an hour of all nodes costs you",
        )
    seconds = spec.budget.tail_seconds
    least = budget_accounts.least_usd(hourly, seconds)
    if spec.budget.max_usd < least:
        raise _refused(
            "budget.maxUsd",
            f"{spec.budget.max_usd:g} USD are too little: an hour costs {hourly:g} USD, and the "
            f"last {seconds} s (budget.tailSeconds) are held back for saving and teardown; give "
            f"{least:g} or more, twice their price",
        )


def ways_of(spec: RunSpec) -> list[ClusterBase]:
    """Each of the ways in which the run's own cluster may be made."""
    given = spec.cluster.spec
    assert given is not None
    return [way.spec for way in all_ways(given, spec.cluster.otherwise)] or [given]


def hourly_of(ports: Ports, spec: RunSpec) -> float | None:
    """What an hour of the run costs in its dearest way; None if a price is not known."""
    if spec.cluster.spec is not None:
        return _hourly(ports, spec, None)
    try:
        return _hourly(ports, spec, ports.clusters.get(str(spec.cluster.name)))
    except ClusterNotFound:
        return None


def _hourly(ports: Ports, spec: RunSpec, cluster: Cluster | None) -> float | None:
    if cluster is not None:
        hourly, _ = price_of(ports, cluster.spec)
        return None if hourly is None else hourly * part_of(spec, cluster.spec)
    prices = [price_of(ports, one)[0] for one in ways_of(spec)]
    known = [price for price in prices if price is not None]
    return max(known) if len(known) == len(prices) else None


def part_of(spec: RunSpec, cluster: ClusterBase) -> float:
    """The run's part of the workers of a cluster that others use, too."""
    workers = sum(one.count + one.spares for one in cluster.workers())
    return min(1.0, spec.job.nodes / max(1, workers))


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", errors=[FieldError(field, message)])
