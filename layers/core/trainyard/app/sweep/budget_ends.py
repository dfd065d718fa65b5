"""What ends when a budget is used up."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.facts.waking import wake_run
from trainyard.app.sweep.swept import Swept
from trainyard.domain import team_budgets
from trainyard.domain.errors import ClusterNotFound, RecordUnreadable
from trainyard.domain.kinds import sentence
from trainyard.domain.order_facts import TeamBudgetSpent
from trainyard.domain.records import Cluster, Run
from trainyard.domain.team_budget_records import TeamAccount, TeamBudget
from trainyard.ports import Ports


def stop_run(ports: Ports, budget: TeamBudget, account: TeamAccount, run: Run) -> Iterator[Swept]:
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


def end_cluster(ports: Ports, budget: TeamBudget, cluster: Cluster) -> Iterator[Swept]:
    """Idle nodes cost as much: it goes once no run uses it and nothing is lost by that."""
    ours = cluster.adoption is None and cluster.status in ("Ready", "Stopped")
    if ours and blocker_of(ports, cluster) is None:
        start_teardown(ports, cluster)
        yield Swept("teardown", cluster.name, f"budget '{budget.name}' is used up")


def cluster_of_budget(ports: Ports, budget: TeamBudget) -> Cluster | None:
    """That of the budget, if it is one whose nodes are there between jobs."""
    if budget.spec.cluster is None:
        return None
    try:
        cluster = ports.clusters.get(budget.spec.cluster)
    except (ClusterNotFound, RecordUnreadable):
        return None
    return None if cluster.spec.nodes_come_with_jobs else cluster
