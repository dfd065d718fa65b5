"""What was spent of a budget."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.app.sweep.budget_past import ended_since, gone_runs, seen_run
from trainyard.app.sweep.watched_budgets import Watched
from trainyard.domain import budget_accounts, costs, team_budgets
from trainyard.domain.costs import HOUR
from trainyard.domain.records import Cluster, Run
from trainyard.domain.team_budget_records import TeamAccount
from trainyard.ports import Ports

#: What is created this long before the last look may have been missed by it.
_OVERLAP = timedelta(minutes=10)


def spent_account(
    ports: Ports, watched: Watched, cluster: Cluster | None, now: datetime
) -> TeamAccount:
    budget = watched.budget
    known = team_budgets.account_of(budget, now)
    account = known or TeamAccount(period=team_budgets.period_of(budget.spec, now), at=now)
    account = account.changed(at=now)
    if cluster is not None:
        return _of_cluster(ports, account, watched, cluster, now)
    seen = {one.id: seen_run(ports, budget, one, now) for one in _found(ports, watched, now)}
    runs = {**account.runs, **gone_runs(ports, budget, seen, now)}
    runs |= {run_id: one.counted for run_id, one in seen.items()}
    named, settled = team_budgets.closed(runs)
    return account.changed(
        runs=named,
        settled_usd=account.settled_usd + settled,
        hourly_usd=sum(one.hourly for one in seen.values()),
        tail_usd=sum(one.tail for one in seen.values()),
        unpriced=sum(one.unpriced for one in named.values()),
    )


def _of_cluster(
    ports: Ports, account: TeamAccount, watched: Watched, cluster: Cluster, now: datetime
) -> TeamAccount:
    budget = watched.budget
    begin = team_budgets.begin_of(budget.spec, now)
    facts = ports.clusters.facts(cluster.name)
    spells = costs.within(costs.of_cluster(facts, now), begin)
    goes_on = [one for one in spells if not one.ended]
    hourly = sum(one.hourly_usd or 0.0 for one in goes_on)
    unpriced = sum(one.hourly_usd is None for one in spells)
    return account.changed(
        cluster_usd=sum(one.usd or 0.0 for one in spells),
        hourly_usd=hourly,
        tail_usd=hourly * _longest_tail(ports, watched) / HOUR,
        unpriced=min(1, unpriced),
    )


def _longest_tail(ports: Ports, watched: Watched) -> float:
    """The cluster goes on until the run ends whose end takes longest."""
    budget = watched.budget
    asked = budget.spec.tail_seconds
    exported = [
        run
        for run in watched.active
        if run.export is not None and budget.counts(run.labels, run.cluster_name)
    ]
    tails = [budget_accounts.tail_seconds(run, ports.runs.facts(run.id), asked) for run in exported]
    return max([float(asked), *tails])


def _found(ports: Ports, watched: Watched, now: datetime) -> list[Run]:
    """Those that go on, and those that are over and were never seen going on."""
    budget = watched.budget
    found = {run.id: run for run in watched.active if budget.counts(run.labels, run.cluster_name)}
    account = budget.account
    begin = team_budgets.begin_of(budget.spec, now)
    since = None if account is None else account.at - _OVERLAP
    for run in ended_since(ports, budget, since):
        new = account is None or run.id not in account.runs
        if new and run.finished_at is not None and run.finished_at >= begin:
            found.setdefault(run.id, run)
    return list(found.values())
