"""Budgets that runs share: as people set them, and what may begin under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainyard.app.clusters.prices import price_of
from trainyard.app.runs.budgets import hourly_of
from trainyard.domain import budget_accounts, team_budgets
from trainyard.domain.errors import (
    BudgetNotFound,
    BudgetUsedUp,
    ClusterNotFound,
    ConflictError,
    FieldError,
    InvalidRequest,
    WrongState,
)
from trainyard.domain.records import Cluster
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.domain.turns import going
from trainyard.ports import Ports
from trainyard_contracts.people import Person
from trainyard_contracts.specs import RunSpec
from trainyard_contracts.team_budgets import TeamBudgetSpec

#: Budgets of a stack; each costs the sweep a look a minute.
MOST_BUDGETS = 100
#: The sweep writes the same record each minute.
_TRIES = 8


def set_budget(
    ports: Ports, name: str, spec: TeamBudgetSpec, *, by: Person | None = None
) -> TeamBudget:
    """Make it, or change what is asked of it. Again changes nothing. Raises InvalidRequest."""
    _check(ports, spec)
    now = ports.clock.now()
    made = TeamBudget(name=name, spec=spec, created_at=now, created_by=by, updated_at=now)
    for _ in range(_TRIES):
        stored = _stored(ports, name)
        if stored is None or stored.status == "Deleted":
            _check_room(ports)
        if stored is None:
            stored = ports.team_budgets.create(made)
        after = _with(stored, made)
        if after == stored:
            return stored
        try:
            return ports.team_budgets.put(after)
        except ConflictError:
            continue
    raise ConflictError(f"budget {name} is written all the time")


def _with(stored: TeamBudget, made: TeamBudget) -> TeamBudget:
    """What was counted is kept while it is of the same runs and the same time."""
    if stored.status == "Deleted":
        return made.changed(version=stored.version, revision=stored.revision + 1)
    if stored.spec == made.spec:
        return stored
    scope = [(one.spec.label, one.spec.cluster, one.spec.per) for one in (stored, made)]
    account = stored.account if scope[0] == scope[1] else None
    return stored.changed(spec=made.spec, revision=stored.revision + 1, account=account)


def _stored(ports: Ports, name: str) -> TeamBudget | None:
    try:
        return ports.team_budgets.get(name)
    except BudgetNotFound:
        return None


def _check_room(ports: Ports) -> None:
    if len(ports.team_budgets.active()) >= MOST_BUDGETS:
        raise WrongState(
            f"There are {MOST_BUDGETS} budgets already, as many as there may be.",
            next_step="Remove one that nobody needs: trainyard budget ls names them, and "
            "trainyard budget rm BUDGET removes one.",
        )


def shown_budget(ports: Ports, name: str) -> TeamBudget:
    """Raises BudgetNotFound, also for one that is removed."""
    found = ports.team_budgets.get(name)
    if found.status == "Deleted":
        raise BudgetNotFound.of(name)
    return found


def remove_budget(ports: Ports, name: str) -> TeamBudget:
    """Nothing is counted or stopped for it any more. Twice is the same as once."""
    for _ in range(_TRIES):
        stored = ports.team_budgets.get(name)
        if stored.status == "Deleted":
            return stored
        try:
            return ports.team_budgets.put(stored.changed(status="Deleted"))
        except ConflictError:
            continue
    raise ConflictError(f"budget {name} is written all the time")


def _check(ports: Ports, spec: TeamBudgetSpec) -> None:
    """Refuse what could not be kept: a price that nobody knows, or less than its own tail."""
    if spec.cluster is None:
        _check_prices(ports, spec)
        return
    try:
        cluster = ports.clusters.get(spec.cluster)
    except ClusterNotFound:
        words = f"no cluster is named '{spec.cluster}'; list them with 'trainyard cluster ls'"
        raise _refused("cluster", words) from None
    hourly, _ = price_of(ports, cluster.spec)
    if hourly is None:
        words = (
            f"no price is known for cluster '{spec.cluster}', so a budget could not be kept; "
            "give hourlyUsd in the cluster's spec, what an hour of all nodes costs you"
        )
        raise _refused("cluster", words)
    least = budget_accounts.least_usd(hourly, spec.tail_seconds)
    if spec.max_usd < least:
        words = (
            f"{spec.max_usd:g} USD are too little: an hour costs {hourly:g} USD, and "
            f"{spec.tail_seconds} s (tailSeconds) are held back; give {least:g} or more"
        )
        raise _refused("maxUsd", words)


def _check_prices(ports: Ports, spec: TeamBudgetSpec) -> None:
    now = ports.clock.now()
    wanted = TeamBudget(name="new", spec=spec, created_at=now, updated_at=now)
    for run in ports.runs.active():
        counts = going(run) and wanted.counts(run.labels, run.cluster_name)
        if counts and hourly_of(ports, run.spec) is None:
            words = (
                f"no price is known for run {run.id}, which counts, so a budget could not be "
                "kept; give hourlyUsd in the cluster's spec, or cancel the run first"
            )
            raise _refused("label", words)


def counting(ports: Ports, labels: Mapping[str, str], cluster_name: str) -> list[TeamBudget]:
    """The budgets for which a run counts."""
    return [one for one in ports.team_budgets.active() if one.counts(labels, cluster_name)]


def check_shared(ports: Ports, spec: RunSpec, cluster: Cluster | None) -> None:
    """Whether a run of this spec may begin. Raises BudgetUsedUp, InvalidRequest."""
    name = cluster.name if cluster is not None else ""
    check_begins(ports, spec, spec.labels, name, lambda: hourly_of(ports, spec))


def check_begins(
    ports: Ports,
    spec: RunSpec,
    labels: Mapping[str, str],
    cluster_name: str,
    hourly: Callable[[], float | None],
) -> None:
    now = ports.clock.now()
    for budget in counting(ports, labels, cluster_name):
        if team_budgets.used_up(budget, now):
            refusal = team_budgets.refusal_of(budget, now)
            raise BudgetUsedUp(refusal, next_step=team_budgets.remedy_of(budget))
        if budget.spec.cluster is not None and not _by_job(ports, cluster_name):
            continue  # the cluster costs the same with the run and without
        price = hourly()
        if price is None:
            field = "cluster.spec" if spec.cluster.spec is not None else "cluster.name"
            raise _refused(
                field,
                f"no price is known for these instances, and the run counts for budget "
                f"'{budget.name}' ({budget.whose}); give hourlyUsd in the cluster's spec, what an "
                "hour of all nodes costs you",
            )
        _check_left(budget, team_budgets.left(budget, now), price)


def _check_left(budget: TeamBudget, left: float, hourly: float) -> None:
    least = budget_accounts.least_usd(hourly, budget.spec.tail_seconds)
    if left < least:
        raise BudgetUsedUp(
            f"Budget '{budget.name}' ({budget.whose}) has {max(0.0, left):.2f} USD left beside "
            f"what goes on, and the run needs {least:g} USD to begin: twice the price of its end "
            f"(tailSeconds: {budget.spec.tail_seconds}).",
            next_step=team_budgets.remedy_of(budget),
        )


def _by_job(ports: Ports, cluster_name: str) -> bool:
    return ports.clusters.get(cluster_name).spec.nodes_come_with_jobs


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", errors=[FieldError(field, message)])
