"""Each minute: count what budgets that runs share have spent, and stop those runs in time.

The account is written first, under the budget's version, so that of two sweeps one judges. Runs are
marked after it, in each sweep as long as the budget is used up: what a death left is done then.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.app.sweep.budget_ends import cluster_of_budget, end_cluster, stop_run
from trainyard.app.sweep.budget_spending import spent_account
from trainyard.app.sweep.swept import Swept
from trainyard.app.sweep.watched_budgets import Watched
from trainyard.domain import team_budgets
from trainyard.domain.turns import going
from trainyard.ports import Ports


def team_budget_step(ports: Ports, watched: Watched) -> Iterator[Swept]:
    budget, now = watched.budget, ports.clock.now()
    cluster = cluster_of_budget(ports, budget)
    seen = spent_account(ports, watched, cluster, now)
    account, notices = team_budgets.judged(budget, seen)
    budget = ports.team_budgets.put(budget.changed(account=account), notices)
    if not team_budgets.used_up(budget, now):
        return
    for run in watched.active:
        if going(run) and budget.counts(run.labels, run.cluster_name):
            yield from stop_run(ports, budget, account, run)
    if cluster is not None:
        yield from end_cluster(ports, budget, cluster)
