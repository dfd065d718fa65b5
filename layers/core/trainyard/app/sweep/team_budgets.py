"""Each minute: count what budgets that runs share have spent, and stop those runs in time.

The account is written first, under the budget's version, so that of two sweeps one judges. Runs are
marked after it, in each sweep as long as the budget is used up: what a death left is done then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.run_costs import facts_of, spells_of
from trainyard.app.sweep.swept import Swept
from trainyard.domain import budgets, costs, team_budgets
from trainyard.domain.costs import HOUR
from trainyard.domain.errors import ClusterNotFound, RecordUnreadable, RunNotFound
from trainyard.domain.kinds import sentence
from trainyard.domain.listing import Wanted
from trainyard.domain.order_facts import TeamBudgetSpent
from trainyard.domain.records import TERMINAL, Cluster, Run
from trainyard.domain.team_budget_records import Counted, TeamAccount, TeamBudget
from trainyard.domain.turns import going
from trainyard.ports import Ports

#: Runs that are over and that a budget's first look reads, the newest.
MOST_RUNS = 1000
#: What is created this long before the last look may have been missed by it.
_OVERLAP = timedelta(minutes=10)


class Watched(NamedTuple):
    """A budget, and the runs that went on when the sweep began."""

    budget: TeamBudget
    active: list[Run]

    @property
    def name(self) -> str:
        return self.budget.name


class _Seen(NamedTuple):
    """What a run counts for, what an hour of it costs now, and what its end will cost."""

    counted: Counted
    hourly: float = 0.0
    tail: float = 0.0


def watched_budgets(ports: Ports) -> Sequence[Watched]:
    found = ports.team_budgets.active()
    active = ports.runs.active() if found else []
    return [Watched(budget, active) for budget in found]


def team_budget_step(ports: Ports, watched: Watched) -> Iterator[Swept]:
    budget, now = watched.budget, ports.clock.now()
    cluster = _cluster(ports, budget)
    seen = _account(ports, watched, cluster, now)
    account, notices = team_budgets.judged(budget, seen)
    budget = ports.team_budgets.put(budget.changed(account=account), notices)
    if not team_budgets.used_up(budget, now):
        return
    for run in watched.active:
        if going(run) and budget.counts(run.labels, run.cluster_name):
            yield from _stop(ports, budget, account, run)
    if cluster is not None:
        yield from _end_cluster(ports, budget, cluster)


def _stop(ports: Ports, budget: TeamBudget, account: TeamAccount, run: Run) -> Iterator[Swept]:
    """The mark alone decides: a wake-up that is lost comes again with the next sweep."""
    fact = TeamBudgetSpent(
        id=f"budget-{budget.name}-{run.id}-{run.life}",
        at=ports.clock.now(),
        life=run.life,
        budget=budget.name,
        reason=team_budgets.spent_words(budget, account),
    )
    if ports.runs.record(run.id, fact, sentence(fact)):
        yield Swept("budget used up", run.id, fact.reason)
    wake_run(ports, run.id, TeamBudgetSpent)


def _end_cluster(ports: Ports, budget: TeamBudget, cluster: Cluster) -> Iterator[Swept]:
    """Idle nodes cost as much: it goes once no run uses it and nothing is lost by that."""
    ours = cluster.adoption is None and cluster.status in ("Ready", "Stopped")
    if ours and blocker_of(ports, cluster) is None:
        start_teardown(ports, cluster)
        yield Swept("teardown", cluster.name, f"budget '{budget.name}' is used up")


def _cluster(ports: Ports, budget: TeamBudget) -> Cluster | None:
    """That of the budget, if it is one whose nodes are there between jobs."""
    if budget.spec.cluster is None:
        return None
    try:
        cluster = ports.clusters.get(budget.spec.cluster)
    except (ClusterNotFound, RecordUnreadable):
        return None
    return None if cluster.spec.nodes_come_with_jobs else cluster


def _account(ports: Ports, watched: Watched, cluster: Cluster | None, now: datetime) -> TeamAccount:
    budget = watched.budget
    known = team_budgets.account_of(budget, now)
    account = known or TeamAccount(period=team_budgets.period_of(budget.spec, now), at=now)
    account = account.changed(at=now)
    if cluster is not None:
        return _of_cluster(ports, account, watched, cluster, now)
    seen = {one.id: _seen(ports, budget, one, now) for one in _found(ports, watched, now)}
    runs = {**account.runs, **_gone(ports, budget, seen, now)}
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
    tails = [budgets.tail_seconds(run, ports.runs.facts(run.id), asked) for run in exported]
    return max([float(asked), *tails])


def _found(ports: Ports, watched: Watched, now: datetime) -> list[Run]:
    """Those that go on, and those that are over and were never seen going on."""
    budget = watched.budget
    found = {run.id: run for run in watched.active if budget.counts(run.labels, run.cluster_name)}
    account = budget.account
    begin = team_budgets.begin_of(budget.spec, now)
    since = None if account is None else account.at - _OVERLAP
    for run in _ended(ports, budget, since):
        new = account is None or run.id not in account.runs
        if new and run.finished_at is not None and run.finished_at >= begin:
            found.setdefault(run.id, run)
    return list(found.values())


def _ended(ports: Ports, budget: TeamBudget, since: datetime | None) -> Iterator[Run]:
    key, _, value = (budget.spec.label or "").partition("=")
    wanted = Wanted(
        statuses=TERMINAL,
        labels=((key, value),) if budget.spec.label else (),
        cluster=budget.spec.cluster or "",
        since=since,
    )
    token, count = None, 0
    while count < MOST_RUNS:
        page = ports.runs.list(limit=100, token=token, wanted=wanted)
        yield from page.items
        count, token = count + len(page.items), page.next_token
        if token is None:
            return


def _gone(
    ports: Ports, budget: TeamBudget, seen: dict[str, _Seen], now: datetime
) -> dict[str, Counted]:
    """Those that went on at the last look and do not any more, or that count no more.

    A run counts for what it spent until its label was taken away.
    """
    account = budget.account
    found: dict[str, Counted] = {}
    for run_id, before in (account.runs if account is not None else {}).items():
        if run_id in seen or not before.going:
            continue
        try:
            run = ports.runs.get(run_id)
        except RecordUnreadable:
            found[run_id] = before
            continue
        except RunNotFound:
            run = None
        if run is not None and budget.counts(run.labels, run.cluster_name):
            found[run_id] = _seen(ports, budget, run, now).counted
        elif team_budgets.account_of(budget, now) is not None:
            found[run_id] = before.changed(going=False)
    return found


def _seen(ports: Ports, budget: TeamBudget, run: Run, now: datetime) -> _Seen:
    if run.life == 1 and (run.waits_for_runs or run.waits_for_approval) and not run.terminal:
        return _Seen(Counted())  # nothing was asked of AWS yet
    begin = team_budgets.begin_of(budget.spec, now)
    if run.terminal and run.cost is not None and run.created_at >= begin:
        usd = run.cost.usd
        return _Seen(Counted(usd=usd or 0.0, going=False, unpriced=usd is None))
    facts = facts_of(ports, run)
    spells = costs.within(spells_of(run, facts, now), begin)
    usd = sum(one.usd or 0.0 for one in spells)
    unpriced = any(one.hourly_usd is None for one in spells)
    counted = Counted(usd=usd, going=not run.terminal, unpriced=unpriced)
    spending = bool(spells) and not spells[-1].ended and not run.terminal
    hourly = (costs.hourly_now(run, facts) or 0.0) if spending else 0.0
    seconds = budgets.tail_seconds(run, facts, budget.spec.tail_seconds)
    if run.stopping_since is not None:  # a part of its end is over, and is in what it spent
        seconds = max(0.0, seconds - (now - run.stopping_since).total_seconds())
    return _Seen(counted, hourly, hourly * seconds / HOUR)
