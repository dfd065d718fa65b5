"""What ended, or went, since a budget was looked at last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from trainyard.app.runs.run_costs import facts_of, spells_of
from trainyard.domain import budget_accounts, costs, team_budgets
from trainyard.domain.costs import HOUR
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.listing import Wanted
from trainyard.domain.records import TERMINAL, Run
from trainyard.domain.team_budget_records import Counted, TeamBudget
from trainyard.ports import Ports

#: Runs that are over and that a budget's first look reads, the newest.
MOST_RUNS = 1000


class _Seen(NamedTuple):
    """What a run counts for, what an hour of it costs now, and what its end will cost."""

    counted: Counted
    hourly: float = 0.0
    tail: float = 0.0


def ended_since(ports: Ports, budget: TeamBudget, since: datetime | None) -> Iterator[Run]:
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


def gone_runs(
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
            found[run_id] = seen_run(ports, budget, run, now).counted
        elif team_budgets.account_of(budget, now) is not None:
            found[run_id] = before.changed(going=False)
    return found


def seen_run(ports: Ports, budget: TeamBudget, run: Run, now: datetime) -> _Seen:
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
    seconds = budget_accounts.tail_seconds(run, facts, budget.spec.tail_seconds)
    if run.stopping_since is not None:  # a part of its end is over, and is in what it spent
        seconds = max(0.0, seconds - (now - run.stopping_since).total_seconds())
    return _Seen(counted, hourly, hourly * seconds / HOUR)
