"""Why an attempt is over: one small judge per cause, in order of precedence.

A new cause is one function and one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from trainyard.domain import capacity, ways
from trainyard.domain.decisions import Draft
from trainyard.domain.facts import JobStage, evidence_of, is_dead
from trainyard.domain.nodes import enough_nodes
from trainyard.domain.problems import problem
from trainyard.domain.records import Action, Attempt, Problem
from trainyard.domain.words import signals, taken_back_sentence
from trainyard_contracts.diagnosis_words import is_consequence
from trainyard_contracts.events import AttemptEnded, Fact, NodeEvidence, NodeLost

#: A program that reports no steps and ended within this time did no work yet; one that ran for
#: longer did, as far as anybody can tell.
EARLY_SECONDS = 300
# Of the log that a problem shows, where no traceback is known.
LOG_CHARACTERS = 2000


@dataclass(frozen=True)
class Finding:
    """What a judge made of the facts.

    `because` is a sentence; the policy adds what follows from it.
    """

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
    #: The next way of the cluster's spec is tried.
    leaves: bool = False
    resume_as: str = "Starting again in place"


Judge = Callable[[Draft, Attempt], Finding | None]


def find(draft: Draft, attempt: Attempt) -> Finding | None:
    """The first judge that knows why this attempt is over; None while nothing ended it."""
    return next(
        (finding for judge in CAUSES if (finding := judge(draft, attempt)) is not None), None
    )


def succeeded(draft: Draft, attempt: Attempt) -> Finding | None:
    end = _end(draft, attempt)
    if end is None or end.outcome != "succeeded":
        return None
    step = end.last_step
    at = f" at step {step}" if step is not None else ""
    return Finding(
        "finished", end, f"Training finished{at}.", outcome="succeeded", stop="succeeded"
    )


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
    ended = _end(draft, attempt) is not None
    for node, fact in draft.book.lost_nodes().items():
        if node in attempt.nodes or (ended and not attempt.nodes and node not in attempt.exclude):
            return _lost(node, fact)
    return _seems_lost(draft, attempt)


def _seems_lost(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job ended while a node showed both signals but was not judged yet.

    The next attempt avoids the node; nothing else is done to it.
    """
    end = _end(draft, attempt)
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
    over, end = draft.book.job_end_of(attempt), _end(draft, attempt)
    if over is None or over.how != "host-lost" or (end is not None and _is_the_programs(end)):
        return None
    because = f"AWS lost job {over.job_id}, not the program's doing: {_sentence(over.reason)}"
    said = _met_beside_a_loss(draft, attempt, end)
    if said is not None and sum(one.error_signature == said for one in draft.incidents) > 0:
        return None
    resume_as = "Resuming on other nodes"
    return Finding("node-lost", over, because, outcome="lost", signature=said, resume_as=resume_as)


def _is_the_programs(end: AttemptEnded) -> bool:
    """No loss of another node makes a program say this."""
    if end.outcome != "failed" or is_consequence(end.error or ""):
        return False
    crashed = end.error_kind == "signal" and end.signal in _CRASHES
    return crashed or end.error_kind in ("python-error", "out-of-memory")


def _met_beside_a_loss(draft: Draft, attempt: Attempt, end: AttemptEnded | None) -> str | None:
    """The signature of an error that may come from the loss, or may not; None if there is none."""
    told = end is not None and end.outcome == "failed" and end.exit_code is not None
    if end is None or not told or end.error_kind not in (None, "unknown", "checkpoint"):
        return None
    if is_consequence(end.error or ""):
        return None
    return _signature(end, end.error or f"exit code {end.exit_code}", _place(draft, attempt, end))


def no_capacity(draft: Draft, attempt: Attempt) -> Finding | None:
    """The backend found no nodes for the job. It is asked again for as long as a run waits for a
    node.
    """
    over = draft.book.job_end_of(attempt)
    if over is None or over.how != "no-capacity":
        return None
    job = f"job {over.job_id}" if over.job_id else f"attempt {attempt.number}"
    because = f"AWS had no nodes for {job}: {_sentence(over.reason)}"
    if ways.has_ways(draft):
        return _next_way(draft, over, because)
    return _asked_again(draft, over, because, _asked_since(draft, attempt, over))


def _asked_since(draft: Draft, attempt: Attempt, fact: Fact) -> datetime:
    """Since when nodes are asked for without a step in between."""
    since, row = attempt.submitted_at or fact.at, set()
    for one in reversed(draft.incidents):
        if one.cause != "no-capacity" or one.resumed_at is not None:
            break
        row.add(one.attempt)
    asked = [one.submitted_at for one in draft.run.attempts if one.number in row]
    return min([since, *(at for at in asked if at is not None)])


def _asked_again(draft: Draft, fact: Fact, because: str, since: datetime) -> Finding:
    seconds = draft.run.spec.recovery.wait_for_node_seconds
    if draft.now < since + timedelta(seconds=seconds):
        return Finding("no-capacity", fact, because, outcome="lost", resume_as="Asking again")
    detail = f"{because} It was asked for {seconds} s (recovery.waitForNodeSeconds)."
    return Finding(
        "no-capacity", fact, because, stop="failed", problem=problem("no-capacity", detail)
    )


def never_began(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job ended before its program began: the nodes that Slurm gave it did not come up.

    Where AWS has none, they are asked for as long as a run waits for a node.
    """
    end = _end(draft, attempt)
    if end is None or not ways.never_began(draft, attempt):
        return None
    since = _asked_since(draft, attempt, end)
    told = ways.told_since(draft, since)
    lacking = capacity.first_word(told)
    if lacking is None and end.error:
        return None
    said = lacking or (told[-1] if told else None)
    words = said.description or said.failure_message if said else "its nodes did not come up"
    because = f"Job {end.job_id} ended before its program began: {_sentence(words)}"
    if lacking is not None:
        return _asked_again(draft, end, because, since)
    return Finding("never-began", end, because, outcome="lost", resume_as="Asking again")


def no_nodes(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job waits, and AWS says that it has no nodes for it, for longer than a try may last."""
    word = ways.word(draft, attempt)
    if word is None:
        return None
    until = ways.lasts_until(draft, word)
    end = _end(draft, attempt)
    reason = word.words if isinstance(word, JobStage) else word.description or word.failure_message
    because = f"AWS has no nodes for job {attempt.job_id}: {_sentence(reason)}"
    if draft.now < until:
        draft.by(until)
        if end is None:
            return None
        return Finding("no-capacity", end, because, outcome="lost", resume_as="Asking again")
    return _next_way(draft, word, because)


def _next_way(draft: Draft, fact: Fact, because: str) -> Finding:
    if ways.following(draft, because) is not None:
        return Finding("no-capacity", fact, because, outcome="lost", leaves=True)
    found = ways.none_left(draft, because)
    return Finding("no-capacity", fact, because, stop="failed", problem=found)


def not_allowed(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job waits for nodes that AWS refuses, for a reason that only a person can mend."""
    told = ways.events(draft, attempt)
    found = capacity.forbidden(told)
    if found is None:
        return None
    return Finding("refused", told[-1], found.detail, stop="failed", problem=found)


def out_of_time(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job reached a limit of its own, which is in the cluster's spec."""
    over = draft.book.job_end_of(attempt)
    if over is None or over.how != "out-of-time":
        return None
    because = f"Job {over.job_id} reached its limit: {_sentence(over.reason)}"
    found = problem("job-time-exceeded", because)
    return Finding("out-of-time", over, because, stop="failed", problem=found)


def _sentence(words: str) -> str:
    return f"{words.rstrip('.') or 'no reason given'}."


def cancelled_on_cluster(draft: Draft, attempt: Attempt) -> Finding | None:
    end = _end(draft, attempt)
    if end is None or end.outcome != "cancelled":
        return None
    because = f"Job {end.job_id} was cancelled on the cluster, by someone other than Trainyard."
    return Finding(
        "cancelled-on-cluster",
        end,
        because,
        outcome="cancelled",
        stop="cancelled",
        problem=problem("cancelled", because),
    )


def out_of_memory(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job needs more memory than it gets: no node is to blame.

    Another attempt is only worth it if this one came further than the last.
    """
    end = _end(draft, attempt)
    if end is None or end.outcome != "failed" or end.error_kind != "out-of-memory":
        return None
    step, node = end.last_step, end.failed_node
    signature = f"out-of-memory|{-1 if step is None else step}"
    count = 1 + sum(
        _reached(incident.error_signature) >= (-1 if step is None else step)
        for incident in draft.incidents
    )
    words = end.error or "a process of the job was killed for want of memory"
    device = end.memory == "device"
    who = "An accelerator of the job" if device else "The job"
    because = (
        f"{who} ran out of memory {_place(draft, attempt, end)}"
        f"{f' on {node}' if node else ''}: {words}."
    )
    if count < draft.run.spec.recovery.same_error_limit:
        return Finding(
            "out-of-memory", end, because, signature=signature, resume_as="Trying once more"
        )
    detail = f"{because} That was time {count} without coming further.{_shown(end)}"
    return Finding(
        "out-of-memory",
        end,
        because,
        signature=signature,
        stop="failed",
        problem=problem("device-out-of-memory" if device else "out-of-memory", detail),
    )


def _reached(signature: str | None) -> int:
    """The step of an earlier end for want of memory; below every step for any other incident."""
    kind, _, step = (signature or "").partition("|")
    return int(step) if kind == "out-of-memory" else -2


def worker_process(draft: Draft, attempt: Attempt) -> Finding | None:
    """A signal killed a process: restart in place.

    When that repeats on one node, leave the node out if a spare can take over.

    Before the first step it is the program's own doing if it comes again, on whatever node.
    """
    end = _end(draft, attempt)
    if end is None or end.error_kind not in ("signal", "node"):
        return None
    node = end.failed_node
    why = f": {end.error}" if end.error else ""
    because = f"A worker process{f' on {node}' if node else ''} was killed{_by_signal(end)}{why}."
    # If something else explains the signal (a restart of its node, say), the program is not to
    # blame.
    if end.error_kind == "signal" and not why and _early(draft, attempt, end):
        sign, place = f"signal {end.signal}", _place(draft, attempt, end)
        return _same_error(draft, end, "worker-process", sign, because, place, node)
    crash = _crash(draft, attempt, end)
    if (found := _crashed_elsewhere(draft, attempt, end, because)) is not None:
        return found
    repeats = sum(
        incident.cause == "worker-process" and incident.node == node for incident in draft.incidents
    )
    if not node or repeats < draft.run.spec.recovery.in_place_restarts_per_node:
        return Finding("worker-process", end, because, signature=crash, node=node)
    if not enough_nodes(draft, without={node}):
        because += f" That was time {repeats + 1} on this node, but no other node is free."
        return Finding("worker-process", end, because, signature=crash, node=node)
    because += f" That was time {repeats + 1} on this node: it is left out from now on."
    return Finding(
        "worker-process",
        end,
        because,
        signature=crash,
        node=node,
        exclude=[node],
        resume_as="Starting again on other nodes",
    )


def _crashed_elsewhere(
    draft: Draft, attempt: Attempt, end: AttemptEnded, because: str
) -> Finding | None:
    """The end, where the same crash came at the same place on another node, or in another job:
    nodes that come with their job are others in each, whatever their names.
    """
    crash, node = _crash(draft, attempt, end), end.failed_node
    if crash is None:
        return None
    job = draft.book.job_end_of(attempt) is not None
    before = [one for one in draft.incidents if one.error_signature == crash]
    if not any(job or one.node != node for one in before):
        return None
    place, where = _place(draft, attempt, end), "in another job" if job else "on another node"
    detail = f"'signal {end.signal}' came {'in two jobs' if job else 'on two nodes'} {place}."
    because = f"{because} It was so {where}, too, {place}."
    return _program_crashes(end, because, detail, crash, node)


#: What a program does to itself: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
_CRASHES = frozenset({4, 6, 7, 8, 11})


def _crash(draft: Draft, attempt: Attempt, end: AttemptEnded) -> str | None:
    """The signature of a crash at a known step; None of what may have come from outside."""
    if end.error_kind != "signal" or end.signal not in _CRASHES or end.last_step is None:
        return None
    return f"signal|signal {end.signal}|{_place(draft, attempt, end)}"


def _program_crashes(
    end: AttemptEnded, because: str, detail: str, signature: str | None, node: str | None
) -> Finding:
    return Finding(
        "worker-process",
        end,
        because,
        signature=signature,
        node=node,
        stop="failed",
        problem=problem("same-error", f"{detail}{_shown(end)}"),
    )


def program_error(draft: Draft, attempt: Attempt) -> Finding | None:
    """The program failed: one more attempt; the same error at the same step stops the run, and so
    does at once an error before the run's first step that would come again on whatever nodes.
    """
    end = _end(draft, attempt)
    if end is None or end.outcome != "failed":
        return None
    kind = end.error_kind or "unknown"
    error = end.error or f"exit code {end.exit_code}"
    place = _place(draft, attempt, end)
    # An error that the agent has from Slurm, and not from the program, begins with "Slurm: ".
    who = "The job" if error.startswith("Slurm: ") or _of_image(end) else "The program"
    if end.lasting and _early(draft, attempt, end) and not _trained_before(draft, attempt):
        return _lasting_error(end, error, f"{who} failed {place} with '{error}'.")
    return _same_error(draft, end, kind, error, f"{who} failed {place} with '{error}'.", place)


def _lasting_error(end: AttemptEnded, error: str, because: str) -> Finding:
    """The end: no node, checkpoint or moment has a part in this error."""
    signature = f"{end.error_kind or 'unknown'}|{error}|lasting"
    return Finding(
        end.error_kind or "unknown",
        end,
        because,
        signature=signature,
        stop="failed",
        problem=problem("lasting-error", f"{because}{_shown(end)}"),
    )


def _same_error(
    draft: Draft,
    end: AttemptEnded,
    cause: str,
    error: str,
    because: str,
    place: str,
    node: str | None = None,
) -> Finding:
    """One more attempt, or the end: the same error came `sameErrorLimit` times at one place."""
    signature = _signature(end, error, place)
    count = 1 + sum(incident.error_signature == signature for incident in draft.incidents)
    if count < draft.run.spec.recovery.same_error_limit + _coarse(end):
        return Finding(
            cause, end, because, signature=signature, node=node, resume_as="Trying once more"
        )
    again = f" {count} times" if count > 1 else ""
    detail = f"'{error}' came{again} {place}.{_shown(end)}"
    code = "same-error" if count > 1 else "python-error"
    because = f"The same error came {count} times {place}: '{error}'." if count > 1 else because
    return Finding(
        cause,
        end,
        because,
        signature=signature,
        node=node,
        stop="failed",
        problem=problem(code, detail),
    )


def _signature(end: AttemptEnded, error: str, place: str) -> str:
    return f"{end.error_kind or 'unknown'}|{error}|{place}"


def _coarse(end: AttemptEnded) -> int:
    """1 where a log says the last step: programs print some steps only, so two passing errors may
    come after the same line. It takes one more to call them the same.
    """
    return int(end.last_step is not None and end.step_source != "program")


def _place(draft: Draft, attempt: Attempt, end: AttemptEnded) -> str:
    """Where in training it happened.

    Of a program without reports of steps and without checkpoints only the time is known, which
    hardly ever repeats.
    """
    if end.last_step is not None:
        return f"at step {end.last_step}"
    if (saved := draft.book.saved_by(attempt)) is not None:
        return f"after its checkpoint ({saved})"
    return (
        "before the first step"
        if _early(draft, attempt, end)
        else f"{_seconds(attempt, end):.1f} s after its start, with no step reported"
    )


def _early(draft: Draft, attempt: Attempt, end: AttemptEnded) -> bool:
    """The attempt has no known step and ran for a short time: what fails so early fails again."""
    return (
        end.last_step is None
        and attempt.first_step_at is None
        and draft.book.saved_by(attempt) is None
        and (_seconds(attempt, end) < EARLY_SECONDS or _of_image(end))
    )


def _trained_before(draft: Draft, attempt: Attempt) -> bool:
    """What an earlier attempt found, a filesystem that comes late may lack for a while."""
    return any(
        one.first_step_at is not None for one in draft.run.attempts if one.number < attempt.number
    )


def _of_image(end: AttemptEnded) -> bool:
    """The program never started; to bring its image may have taken long."""
    return (end.error or "").startswith("job.image ")


def _seconds(attempt: Attempt, end: AttemptEnded) -> float:
    began = attempt.started_at or attempt.submitted_at
    return (end.at - began).total_seconds() if began else 0.0


#: The recovery table, in order of precedence: what explains more comes first.
CAUSES: tuple[Judge, ...] = (
    succeeded,
    cluster_lost,
    not_allowed,
    no_nodes,
    node_lost,
    job_lost,
    no_capacity,
    never_began,
    out_of_time,
    cancelled_on_cluster,
    out_of_memory,
    worker_process,
    program_error,
)


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


def _end(draft: Draft, attempt: Attempt) -> AttemptEnded | None:
    return draft.book.end_of(attempt)


def _by_signal(end: AttemptEnded) -> str:
    names = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
    return f" by {names.get(end.signal, f'signal {end.signal}')}" if end.signal else ""


def _shown(end: AttemptEnded) -> str:
    """Where the program failed: its own traceback; else the end of the log, in which all ranks
    speak.
    """
    if end.traceback.strip():
        where = f" on {end.failed_node}" if end.failed_node else ""
        return f" It failed here{where}:\n{end.traceback.strip()}"
    tail = end.log_tail.strip()
    if len(tail) > LOG_CHARACTERS:
        tail = tail[-LOG_CHARACTERS:]
        tail = tail.partition("\n")[2] or tail
    return f" End of the job's log:\n{tail}" if tail else ""
