"""Leaves a run's cluster for the next way of its spec, because AWS has no nodes for its job.

The teardown machine deletes what there is, proves it gone, and stores the next try.
"""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import other_jobs
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.machines.run.agent_answers import agent_answer
from trainyard.app.runs.tell_tries import tell_refusal
from trainyard.domain import capacity, teardown, ways
from trainyard.domain.book import Book
from trainyard.domain.records import Action, Attempt, Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts import commands

#: The agent answers from memory.
STATUS_SECONDS = 60.0
#: What the agent says of an attempt whose job has no nodes.
_WAITS = ("submitting", "submitted")


def leave_way(ports: Ports, run: Run, action: Action) -> tuple[str, Run]:
    """Mark the cluster Deleting with its try over. Again changes nothing.

    One that others use, or that holds what nobody exported, is kept. If the run's job got its nodes
    at this very moment, it goes on. Answers in words, and with the run as it is then.
    """
    cluster = ports.clusters.get(run.cluster_name)
    if action.id != ways.leaving(cluster, "").id or cluster.owner_run != run.id:
        return "The cluster was left already.", run
    if cluster.status == "Ready":
        if (attempt := _goes_on(ports, cluster, run)) is not None:
            words = f"attempt {attempt.number} has got its nodes."
            return f"The next way is not tried: {words}", _revived(run)
        if reason := _blocker(ports, cluster, run):
            return _kept(cluster, run, reason)
        now = ports.clock.now()
        over = ways.left(run, cluster, action.reason, now)
        if capacity.next_try(over, now) is None:
            return _kept(cluster, run, "there is no time left for it.")
        cluster = ports.clusters.put(over.changed(status="Deleting"))
    if cluster.status != "Deleting" or cluster.problem is None:
        return f"The next way is not tried: the cluster is {cluster.status}.", run
    tell_refusal(ports, cluster)
    start_teardown(ports, cluster)
    return "The cluster is deleted, and the next way is tried when it is gone.", run


def _kept(cluster: Cluster, run: Run, reason: str) -> tuple[str, Run]:
    kept = run.changed(handled_facts=[*run.handled_facts, ways.kept(cluster)])
    return f"The next way is not tried: {reason}", kept


def _goes_on(ports: Ports, cluster: Cluster, run: Run) -> Attempt | None:
    """The attempt whose job got its nodes since it was decided to leave; None if none did.

    The agent knows it before its event is here. Raises RetryableError: who is silent may train. A
    job that brings its nodes is stopped by AWS's rules, and keeps what it saved.
    """
    attempt = run.attempt
    if attempt is None or cluster.spec.nodes_come_with_jobs:
        return None
    end = Book(ports.runs.facts(run.id, attempt.number)).end_of(attempt)
    if end is not None:
        return None
    result = ports.backend(cluster).run(
        cluster, commands.Status(run.id).argv(), timeout_seconds=STATUS_SECONDS
    )
    told = commands.answer_of(result.stdout) or {}
    if told.get("error") == "run-not-found":
        return None
    answer = agent_answer(result, "status")
    started = answer.get("attempt") == attempt.number and answer.get("state") not in _WAITS
    return attempt if started else None


def _revived(run: Run) -> Run:
    """The run with its newest attempt going on, as if it had never been left."""
    attempt = run.attempts[-1].changed(ended_at=None, outcome=None, reason="", wanting=False)
    handled = [*run.handled_facts, ways.goes_on(attempt)]
    return run.changed(attempts=[*run.attempts[:-1], attempt], handled_facts=handled)


def _blocker(ports: Ports, cluster: Cluster, run: Run) -> str | None:
    others = [one for one in ports.runs.on_cluster(cluster.name) if one.id != run.id]
    facts, unread = ports.clusters.facts(cluster.name), ports.runs.unreadable_on(cluster.name)
    return teardown.blocker(cluster, others, facts, other_jobs(ports, cluster), unread)
