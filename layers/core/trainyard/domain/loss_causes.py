"""Causes: a node, a job or the cluster is lost."""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding, end_of, sentence_of
from trainyard.domain.node_evidence import evidence_of, is_dead
from trainyard.domain.nodes import enough_nodes
from trainyard.domain.problems import problem
from trainyard.domain.records import Action, Attempt
from trainyard.domain.same_errors import is_the_programs, met_beside_a_loss
from trainyard.domain.words import signals, taken_back_sentence
from trainyard_contracts.events import Fact, NodeEvidence, NodeLost


def cluster_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    lost = draft.lost_cluster
    if lost is None:
        return None
    reason = lost.reason or f"Cluster '{draft.run.cluster_name}' is lost."
    return Finding(
        "cluster-lost",
        lost,
        reason,
        outcome="lost",
        stop="failed",
        problem=problem("cluster-failed", reason),
    )


def node_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    """A node of this attempt is lost now.

    While its nodes are unknown (AttemptStarted is late) only a job that ended counts.
    """
    ended = end_of(draft, attempt) is not None
    for node, fact in draft.book.lost_nodes().items():
        if node in attempt.nodes or (ended and not attempt.nodes and node not in attempt.exclude):
            return _lost(node, fact)
    return _seems_lost(draft, attempt)


def _seems_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job ended while a node showed both signals but was not judged yet.

    The next attempt avoids the node; nothing else is done to it.
    """
    end = end_of(draft, attempt)
    if end is None or end.outcome != "failed":
        return None
    dead = [entry.node for entry in evidence_of(end) if is_dead(entry) and entry.node]
    if not dead:
        return None
    because = " ".join(lost_sentence(end, node).replace("is lost", "seems lost") for node in dead)
    free = enough_nodes(draft, without=set(dead))
    resume_as = "Resuming on other nodes" if free else "Starting again in place"
    return Finding(
        "node-lost",
        end,
        because,
        outcome="lost",
        node=dead[0],
        avoid=dead if free else [],
        resume_as=resume_as,
    )


def job_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    """The backend says that a node of the job, or the backend itself, failed.

    Whatever the other nodes saw of that is no error of the program's. But what can only be the
    program's own, or comes again at the same place, is judged as that.
    """
    over, end = draft.book.job_end_of(attempt), end_of(draft, attempt)
    if over is None or over.how != "host-lost" or (end is not None and is_the_programs(end)):
        return None
    because = f"AWS lost job {over.job_id}, not the program's doing: {sentence_of(over.reason)}"
    said = met_beside_a_loss(draft, attempt, end)
    if said is not None and sum(one.error_signature == said for one in draft.incidents) > 0:
        return None
    resume_as = "Resuming on other nodes"
    return Finding("node-lost", over, because, outcome="lost", signature=said, resume_as=resume_as)


def replacement(fact: Fact, node: str, instance_id: str = "") -> Action:
    """Ask the backend for a new node behind the run's back; the id makes it once per loss."""
    return Action(
        id=f"replace-{fact.id}-{node}",
        kind="replace",
        node=node,
        instance_id=instance_id,
        reason=f"{node} is lost",
    )


def instance_of(fact: Fact, node: str) -> str:
    """The instance id that the fact names for the node; '' if it names none."""
    evidence = _evidence(fact, node)
    return evidence.instance_id if evidence else ""


def lost_sentence(fact: Fact, node: str) -> str:
    """That the node is lost, with its two signals.

    The fact's own line in the timeline has the agent's measurements.
    """
    if isinstance(fact, NodeLost) and fact.taken_back_at is not None:
        return taken_back_sentence(node, fact.taken_back_at)
    return f"Node {node} is lost: {signals(_evidence(fact, node))}."


def _evidence(fact: Fact, node: str) -> NodeEvidence | None:
    return next((entry for entry in evidence_of(fact) if entry.node == node), None)


def _lost(node: str, fact: Fact) -> Finding:
    action = replacement(fact, node, instance_of(fact, node))
    because = lost_sentence(fact, node)
    return Finding(
        "node-lost",
        fact,
        because,
        outcome="lost",
        node=node,
        actions=[action],
        resume_as="Resuming on other nodes",
    )
