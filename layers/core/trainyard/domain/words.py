"""Parts of sentences that a person reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trainyard_contracts.amounts import counted as counted  # noqa: PLC0414
from trainyard_contracts.amounts import size as size  # noqa: PLC0414
from trainyard_contracts.events import AttemptQueued, JobAhead, NodeEvidence
from trainyard_contracts.people import Person


def listed(names: Sequence[str], most: int = 16) -> str:
    """'a, b', and of more than a person reads how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def who(person: Person | None) -> str:
    """As a sentence begins or goes on; older versions did not keep who it was."""
    return "A person" if person is None else person.name


def because(reason: str) -> str:
    """' Reason: ...' after a sentence, or '' where nobody gave one."""
    return f" Reason: {reason}" if reason else ""


def duration(seconds: float) -> str:
    """In the unit that a person would say."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return counted(round(seconds / length), unit)
    return counted(round(seconds), "second")


def mark(step: int, counted: bool) -> str:
    """Which checkpoint it is; the copies of one without a known step are only counted."""
    return f"copy {step}" if counted else f"step {step}"


def whose(source: str) -> str:
    """Who said a step, as a sentence begins or goes on."""
    files = {
        "log": "its log",
        "tensorboard": "its TensorBoard file",
        "mlflow": "its MLflow file",
        "wandb": "its W&B file",
    }
    return files.get(source, "the program")


def setup_sentence(names: Sequence[str]) -> str:
    """' It waits until ip-1 is set up.', or '' if there is nothing to wait for."""
    return (
        f" It waits until {listed(names)} {'is' if len(names) == 1 else 'are'} set up."
        if names
        else ""
    )


def waiting_sentence(queued: AttemptQueued) -> str:
    """'Attempt 2 waits in Slurm's queue behind job 17 of alice on ip-10-0-0-2.'"""
    behind = ", ".join(_job_ahead(job) for job in queued.ahead[:3])
    more = f" and {len(queued.ahead) - 3} more" if len(queued.ahead) > 3 else ""
    alone = f"though no other job holds its nodes; Slurm's reason: {queued.reason or 'none'}"
    return (
        f"Attempt {queued.attempt} waits in Slurm's queue "
        f"{f'behind {behind}{more}' if queued.ahead else alone}."
    )


def _job_ahead(job: JobAhead) -> str:
    where = (
        f"on {', '.join(job.nodes[:4])}{', ...' if len(job.nodes) > 4 else ''}"
        if job.nodes
        else "which waits, too"
    )
    return f"job {job.job_id} of {job.user or '?'} {where}"


def describe(evidence: NodeEvidence) -> str:
    """An evidence in words: its two signals, and in brackets what the agent measured."""
    detail = evidence.detail.rstrip(".")
    return f"{signals(evidence)} ({detail})" if detail else signals(evidence)


def signals(evidence: NodeEvidence | None) -> str:
    """'its agent fell silent and its Slurm daemon gives no answer'"""
    agent, daemon = (
        ("unknown", "unknown") if evidence is None else (evidence.agent, evidence.scheduler)
    )
    of_agent = {"silent": "its agent fell silent", "linked": "its agent still answers"}.get(
        agent, "its agent is not known"
    )
    of_daemon = {"down": "its Slurm daemon gives no answer", "up": "its Slurm daemon answers"}
    return f"{of_agent} and {of_daemon.get(daemon, 'its Slurm daemon does not answer')}"


def taken_back_sentence(node: str, at: datetime) -> str:
    """Of a spot instance."""
    return f"EC2 takes the spot instance of node {node} back at {at:%H:%M:%S}."
