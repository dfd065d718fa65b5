"""Why an attempt is over, one small judge per cause, in order of precedence. A new cause is one function and one entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainyard.domain.capacity import enough_nodes
from trainyard.domain.decisions import Draft
from trainyard.domain.facts import evidence_of, is_dead
from trainyard.domain.problems import problem
from trainyard.domain.records import Action, Attempt, Fact, Problem

#: A program that reports no steps and ran for longer did work, as far as anybody can tell.
EARLY_SECONDS = 300


@dataclass(frozen=True)
class Finding:
    """What a judge made of the facts. `because` is a sentence; what follows from it is added by the policy."""

    cause: str
    fact: Fact
    because: str
    outcome: Literal["succeeded", "failed", "cancelled", "lost"] = "failed"
    stop: Literal["succeeded", "failed", "cancelled"] | None = None
    problem: Problem | None = None
    node: str | None = None
    signature: str | None = None
    exclude: Sequence[str] = ()
    avoid: Sequence[str] = ()
    actions: Sequence[Action] = ()
    resume_as: str = "Starting again in place"


Judge = Callable[[Draft, Attempt], Finding | None]


def find(draft: Draft, attempt: Attempt) -> Finding | None:
    """The first judge that knows why this attempt is over; None while nothing ended it."""
    return next((finding for judge in CAUSES if (finding := judge(draft, attempt)) is not None), None)


def succeeded(draft: Draft, attempt: Attempt) -> Finding | None:
    end = _end(draft, attempt)
    if end is None or end.data.get("outcome") != "succeeded":
        return None
    step = end.data.get("lastStep")
    at = f" at step {step}" if step is not None else ""
    return Finding("finished", end, f"Training finished{at}.", outcome="succeeded", stop="succeeded")


def cluster_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    lost = draft.lost_cluster
    if lost is None:
        return None
    reason = str(lost.data.get("reason") or f"Cluster '{draft.run.cluster_name}' is lost.")
    return Finding("cluster-lost", lost, reason, outcome="lost", stop="failed", problem=problem("cluster-failed", reason))


def node_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    """A node of this attempt is lost now. While its nodes are unknown (AttemptStarted is late) only a job that ended counts."""
    ended = _end(draft, attempt) is not None
    for node, fact in draft.book.lost_nodes().items():
        if node in attempt.nodes or (ended and not attempt.nodes and node not in attempt.exclude):
            return _lost(node, fact)
    return _seems_lost(draft, attempt)


def _seems_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job ended while a node showed both signals but was not judged yet: the next attempt avoids it, nothing else is done to it."""
    end = _end(draft, attempt)
    if end is None or end.data.get("outcome") != "failed":
        return None
    dead = [str(entry.get("node")) for entry in evidence_of(end) if is_dead(entry) and entry.get("node")]
    if not dead:
        return None
    because = " ".join(lost_sentence(end, node).replace("is lost", "seems lost") for node in dead)
    free = enough_nodes(draft, without=set(dead))
    resume_as = "Resuming on other nodes" if free else "Starting again in place"
    return Finding("node-lost", end, because, outcome="lost", node=dead[0], avoid=dead if free else [], resume_as=resume_as)


def cancelled_on_cluster(draft: Draft, attempt: Attempt) -> Finding | None:
    end = _end(draft, attempt)
    if end is None or end.data.get("outcome") != "cancelled":
        return None
    because = f"Job {end.data.get('jobId', '?')} was cancelled on the cluster, by someone other than Trainyard."
    return Finding("cancelled-on-cluster", end, because, outcome="cancelled", stop="cancelled", problem=problem("cancelled", because))


def out_of_memory(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job needs more memory than it gets: no node is to blame. Only an attempt that came further than the last one is worth another."""
    end = _end(draft, attempt)
    if end is None or end.data.get("outcome") != "failed" or end.data.get("errorKind") != "out-of-memory":
        return None
    step, node = end.data.get("lastStep"), end.data.get("failedNode")
    signature = f"out-of-memory|{-1 if step is None else step}"
    count = 1 + sum(_reached(incident.error_signature) >= (-1 if step is None else step) for incident in draft.incidents)
    words = str(end.data.get("error") or "a process of the job was killed for want of memory")
    because = f"The job ran out of memory {_place(attempt, end)}{f' on {node}' if node else ''}: {words}."
    if count < draft.run.spec.recovery.same_error_limit:
        return Finding("out-of-memory", end, because, signature=signature, resume_as="Trying once more")
    detail = f"{because} That was time {count} without coming further.{_tail(end)}"
    return Finding("out-of-memory", end, because, signature=signature, stop="failed", problem=problem("out-of-memory", detail))


def _reached(signature: str | None) -> int:
    """The step of an earlier end for want of memory; below every step for any other incident."""
    kind, _, step = (signature or "").partition("|")
    return int(step) if kind == "out-of-memory" else -2


def worker_process(draft: Draft, attempt: Attempt) -> Finding | None:
    """A signal killed a process: restart in place; when that repeats on one node, leave the node out if a spare can take over.

    Before the first step it is the program's own doing if it comes again, on whatever node.
    """
    end = _end(draft, attempt)
    if end is None or end.data.get("errorKind") not in ("signal", "node"):
        return None
    node = end.data.get("failedNode")
    why = f": {end.data['error']}" if end.data.get("error") else ""
    because = f"A worker process{f' on {node}' if node else ''} was killed{_by_signal(end)}{why}."
    # With a reason beside the signal (its node was restarted, say) it is not the program's.
    if end.data.get("errorKind") == "signal" and not why and _early(attempt, end):
        return _same_error(draft, end, "worker-process", f"signal {end.data.get('signal')}", because, _place(attempt, end), node)
    repeats = sum(incident.cause == "worker-process" and incident.node == node for incident in draft.incidents)
    if not node or repeats < draft.run.spec.recovery.in_place_restarts_per_node:
        return Finding("worker-process", end, because, node=node)
    if not enough_nodes(draft, without={node}):
        because += f" That was time {repeats + 1} on this node, but no other node is free."
        return Finding("worker-process", end, because, node=node)
    because += f" That was time {repeats + 1} on this node: it is left out from now on."
    return Finding("worker-process", end, because, node=node, exclude=[node], resume_as="Starting again on other nodes")


def program_error(draft: Draft, attempt: Attempt) -> Finding | None:
    """The program itself failed: one more attempt, but the same error at the same step is stopped with its evidence."""
    end = _end(draft, attempt)
    if end is None or end.data.get("outcome") != "failed":
        return None
    kind = str(end.data.get("errorKind") or "unknown")
    error = str(end.data.get("error") or f"exit code {end.data.get('exitCode')}")
    place = _place(attempt, end)
    # What the agent has from Slurm and not from the program, it says so.
    who = "The job" if error.startswith("Slurm: ") else "The program"
    return _same_error(draft, end, kind, error, f"{who} failed {place} with '{error}'.", place)


def _same_error(draft: Draft, end: Fact, cause: str, error: str, because: str, place: str, node: str | None = None) -> Finding:
    """One more attempt, or the end of the run once the same error came at the same place `sameErrorLimit` times."""
    signature = f"{end.data.get('errorKind') or 'unknown'}|{error}|{place}"
    count = 1 + sum(incident.error_signature == signature for incident in draft.incidents)
    if count < draft.run.spec.recovery.same_error_limit:
        return Finding(cause, end, because, signature=signature, node=node, resume_as="Trying once more")
    again = f" {count} times" if count > 1 else ""
    detail = f"'{error}' came{again} {place}.{_tail(end)}"
    code = "same-error" if count > 1 else "python-error"
    because = f"The same error came {count} times {place}: '{error}'." if count > 1 else because
    return Finding(cause, end, because, signature=signature, node=node, stop="failed", problem=problem(code, detail))


def _place(attempt: Attempt, end: Fact) -> str:
    """Where in training it happened. Of a program that reports no steps only the time is known, which hardly ever is the same twice."""
    if end.data.get("lastStep") is not None:
        return f"at step {end.data['lastStep']}"
    return "before the first step" if _early(attempt, end) else f"{_seconds(attempt, end):.1f} s after its start, with no step reported"


def _early(attempt: Attempt, end: Fact) -> bool:
    """No step is known, and not much time went by: what fails then fails again."""
    return end.data.get("lastStep") is None and attempt.first_step_at is None and _seconds(attempt, end) < EARLY_SECONDS


def _seconds(attempt: Attempt, end: Fact) -> float:
    began = attempt.started_at or attempt.submitted_at
    return (end.at - began).total_seconds() if began else 0.0


#: The recovery table, in order of precedence: what explains more comes first.
CAUSES: tuple[Judge, ...] = (succeeded, cluster_lost, node_lost, cancelled_on_cluster, out_of_memory, worker_process, program_error)


def replacement(fact: Fact, node: str, instance_id: str = "") -> Action:
    """Ask the backend for a new node behind the run's back; the id makes it once per loss."""
    return Action(id=f"replace-{fact.id}-{node}", kind="replace", node=node, instance_id=instance_id, reason=f"{node} is lost")


def instance_of(fact: Fact, node: str) -> str:
    """The instance id that the fact names for the node; '' if it names none."""
    return str(_evidence(fact, node).get("instanceId") or "")


def lost_sentence(fact: Fact, node: str) -> str:
    """The fact's own line in the timeline tells what the agent measured; a decision tells the two signals."""
    return f"Node {node} is lost: {signals(_evidence(fact, node))}."


def _evidence(fact: Fact, node: str) -> dict[str, Any]:
    return next((item for item in evidence_of(fact) if item.get("node") == node), {})


def _lost(node: str, fact: Fact) -> Finding:
    action = replacement(fact, node, instance_of(fact, node))
    because = lost_sentence(fact, node)
    return Finding("node-lost", fact, because, outcome="lost", node=node, actions=[action], resume_as="Resuming on other nodes")


def waiting_sentence(number: int, data: Mapping[str, Any]) -> str:
    """'Attempt 2 waits in Slurm's queue behind job 17 of alice on ip-10-0-0-2.' of an AttemptQueued's data."""
    jobs = [entry for entry in data.get("ahead") or [] if isinstance(entry, dict)]
    behind = ", ".join(_job_ahead(entry) for entry in jobs[:3])
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    what = f"behind {behind}{more}" if jobs else f"though no other job holds its nodes; Slurm's reason: {data.get('reason') or 'none'}"
    return f"Attempt {number} waits in Slurm's queue {what}."


def _job_ahead(entry: Mapping[str, Any]) -> str:
    nodes = [str(node) for node in entry.get("nodes") or []]
    where = f"on {', '.join(nodes[:4])}{', ...' if len(nodes) > 4 else ''}" if nodes else "which waits, too"
    return f"job {entry.get('jobId')} of {entry.get('user') or '?'} {where}"


def describe(entry: dict[str, Any]) -> str:
    """An evidence in words: its two signals, and in brackets what the agent measured."""
    detail = str(entry.get("detail") or "").rstrip(".")
    return f"{signals(entry)} ({detail})" if detail else signals(entry)


def signals(entry: dict[str, Any]) -> str:
    agent = {"silent": "its agent fell silent", "linked": "its agent still answers"}.get(str(entry.get("agent")), "its agent is not known")
    daemon = {"down": "its Slurm daemon gives no answer", "up": "its Slurm daemon answers"}
    return f"{agent} and {daemon.get(str(entry.get('scheduler')), 'its Slurm daemon does not answer')}"


def _end(draft: Draft, attempt: Attempt) -> Fact | None:
    return draft.book.end_of(attempt)


def _by_signal(end: Fact) -> str:
    signal = end.data.get("signal")
    names = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
    return f" by {names.get(signal, f'signal {signal}')}" if signal else ""


def _tail(end: Fact) -> str:
    tail = str(end.data.get("logTail") or "").strip()
    return f" End of the job's log:\n{tail[-2000:]}" if tail else ""
