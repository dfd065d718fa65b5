"""What happened since a moment, as a channel reads it in the morning: ended, recovered, spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from trainyard.chat.approving import run_of
from trainyard.chat.bill_words import bill
from trainyard.chat.blocks import Message, escaped, message, moment, quoted
from trainyard.chat.news import MOST_RUNS, News, Recovered
from trainyard.domain import idle
from trainyard.domain.approval_records import Approval
from trainyard.domain.records import Cluster, CostLine, Run, RunCost
from trainyard.domain.words import counted, duration, listed, who
from trainyard.ports import Ports

#: Of each kind the message names so many.
MOST_NAMED = 8
#: How a sentence counts the runs that ended.
_ENDED = {"Succeeded": "succeeded", "Failed": "failed", "Cancelled": "cancelled"}


def digest_page(ports: Ports, news: News) -> Message:
    """The same for the channel and for one person."""
    if news.nothing:
        lines = [f"Nothing ended, recovered, waits or is idle since {moment(news.since)}."]
    else:
        lines = [
            *_told(news),
            *_named("Failed", [_failure(run) for run in news.ended if run.status == "Failed"]),
            *_named("Recovered", [_survival(one) for one in news.recovered]),
            *_spent(news),
            *_named("Waits for people", [_wait(ports, one) for one in news.waiting]),
            *_named("Idle", [_unused(cluster) for cluster in news.idle]),
        ]
    end = "`/trainyard digest` shows the last day at any time."
    return message("What happened", lines, end=end)


def _told(news: News) -> list[str]:
    said = f"Since {moment(news.since)} no run ended."
    if news.ended:
        how = Counter[str](run.status for run in news.ended)
        parts = listed(
            [f"{how[status]} {words}" for status, words in _ENDED.items() if how[status]]
        )
        said = f"Since {moment(news.since)} {counted(len(news.ended), 'run')} ended: {parts}."
    if news.more:
        said += f" Only the newest {MOST_RUNS} that are over were looked at."
    return [said]


def _named(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = len(lines) - MOST_NAMED
    rest = [f"{more} more."] if more > 0 else []
    return [f"*{title}* ({len(lines)})", *lines[:MOST_NAMED], *rest]


def _failure(run: Run) -> str:
    said = f"*{escaped(run.name)}* of {escaped(who(run.created_by))}, `{run.id}`"
    return f"{said}\n{quoted(run.reason, 300)}" if run.reason else said


def _survival(one: Recovered) -> str:
    causes = Counter(incident.cause for incident in one.incidents)
    named = listed([f"{cause} {times} times" if times > 1 else cause
                    for cause, times in causes.items()])  # fmt: skip
    longest = max(
        (incident.resumed_at - incident.started_at).total_seconds()
        for incident in one.incidents
        if incident.resumed_at is not None
    )
    return (
        f"*{escaped(one.run.name)}* trained on after {escaped(named)}, within "
        f"{duration(longest)} at most."
    )


def _spent(news: News) -> list[str]:
    """The bill of the runs that ended, from their first node to their last."""
    known = [run.cost for run in news.ended if run.cost is not None and run.cost.usd is not None]
    left = len(news.ended) - len(known)
    lines = bill(_sum(known, news.until)) if known else []
    if left:
        lines.append(f"What {counted(left, 'run')} of them cost is not known.")
    return ["*Spent by those that ended*", *lines] if lines else []


def _sum(costs: Sequence[RunCost], at: datetime) -> RunCost:
    """Line by line, the dearest cause first."""
    lines: dict[str, CostLine] = {}
    for line in (line for cost in costs for line in cost.ledger):
        so_far = lines.get(line.cause, CostLine(cause=line.cause, seconds=0, node_seconds=0, usd=0))
        lines[line.cause] = CostLine(
            cause=line.cause,
            seconds=so_far.seconds + line.seconds,
            node_seconds=so_far.node_seconds + line.node_seconds,
            usd=None if so_far.usd is None or line.usd is None else so_far.usd + line.usd,
        )
    return RunCost(
        usd=sum(cost.usd or 0.0 for cost in costs),
        at=at,
        node_seconds=sum(cost.node_seconds for cost in costs),
        ledger=sorted(lines.values(), key=lambda line: -(line.usd or 0.0)),
    )


def _wait(ports: Ports, approval: Approval) -> str:
    run = run_of(ports, approval.run_id)
    name = run.name if run is not None else approval.subject
    return (
        f"*{escaped(name)}* of {escaped(who(approval.requester))}, until "
        f"{moment(approval.expires_at)}: `/trainyard approve {approval.id}`"
    )


def _unused(cluster: Cluster) -> str:
    return (
        f"*{escaped(cluster.name)}* of {escaped(who(cluster.created_by))}: nobody has used it "
        f"since {moment(cluster.idle_since)}. It is deleted after {moment(idle.ends_at(cluster))}."
    )
