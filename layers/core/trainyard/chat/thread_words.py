"""A run as a channel of Slack shows it: one message, and replies about what befell it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.chat.approving import approval_page
from trainyard.chat.bill_words import bill
from trainyard.chat.blocks import Message, escaped, message, moment, quoted
from trainyard.chat.run_words import where
from trainyard.domain import budgets
from trainyard.domain.advice import advised
from trainyard.domain.approval_records import Approval
from trainyard.domain.records import Incident, Run, RunCost
from trainyard.domain.words import counted, duration, who
from trainyard_contracts.events import RunSample

#: Of a run with more incidents, the newest; Slack keeps the replies about the older ones.
_INCIDENTS = 20
#: How the header of the last reply goes on behind the run's name.
_ENDED = {"Succeeded": "succeeded", "Failed": "failed", "Cancelled": "was cancelled"}
_ACTIONS = {
    "replace": "another node is to take its place",
    "cancel-job": "what is left of the job is stopped",
    "leave": "the cluster is given up, and the next way to have one is tried",
}


@dataclass(frozen=True)
class Said:
    """A reply. `key` is the same as long as it is about the same; `aloud`: the channel sees it."""

    key: str
    page: Message
    aloud: bool = False


def state_of(run: Run) -> str:
    """What of a run is shown without delay."""
    attempt = run.attempt.number if run.attempt else 0
    return f"{run.life}/{run.status}/{attempt}/{len(run.incidents)}"


def run_message(run: Run, latest: RunSample | None) -> Message:
    lines = [where(run, latest)]
    if run.reason:
        lines.append(quoted(run.reason, 500))
    known = [f"`{run.id}`"]
    if run.incidents:
        known.append(counted(len(run.incidents), "incident"))
    return message(f"{run.name}: {run.status}", lines, end=", ".join(known))


def replies(
    run: Run, approval: Approval | None, cost: RunCost | None, mention: str
) -> Iterator[Said]:
    """`cost` is that of a run that ended; `mention` its owner in Slack, or ''."""
    if approval is not None:
        yield Said(f"approval-{approval.id}", approval_page(approval, run), aloud=True)
    for one in run.incidents[-_INCIDENTS:]:
        if one.reason:  # an old one keeps no words
            yield Said(f"incident-{one.life}-{one.fact_id}", _incident(one))
    for part in budgets.warned(run):
        yield Said(f"budget-{run.life}-{part:g}", _budget(run, part))
    if run.terminal and cost is not None:
        failed = run.status == "Failed"
        page = _end(run, cost, mention if failed else "")
        yield Said(f"end-{run.life}", page, aloud=failed)


def _incident(one: Incident) -> Message:
    did = "; ".join(filter(None, (_action(action) for action in one.actions)))
    lines = [quoted(one.reason, 1000)]
    if did:
        lines.append(f"What was done: {did}.")
    if one.resumed_at is None:
        lines.append(f"Began {moment(one.started_at)}. Training has not gone on yet.")
    else:
        took = duration((one.resumed_at - one.started_at).total_seconds())
        went = "the program started again" if one.resumed_by == "start" else "trained on"
        lines.append(f"Began {moment(one.started_at)}, {went} after *{took}*.")
    return message(f"Attempt {one.attempt}: {one.cause}", lines)


def _budget(run: Run, part: float) -> Message:
    most = run.spec.budget.max_usd if run.spec.budget else 0
    lines = [
        f"*{100 * part:g} %* of its budget of {most:,g} USD are spent. The run is stopped in time, "
        "with everything saved."
    ]
    return message("Budget", lines, end=f"`trainyard run cost {run.id}` shows what it went into.")


def _action(action: str) -> str:
    word, _, node = action.partition(" ")
    if word == "exclude":
        return f"`{escaped(node, 100)}` takes no part in the next attempt"
    return _ACTIONS.get(word, "")


def _end(run: Run, cost: RunCost, mention: str) -> Message:
    lines = [f"{mention}, your run failed."] if mention else []
    if (problem := advised(run)) is not None and run.status != "Succeeded":
        lines.append(f"*{escaped(problem.title)}*\n{quoted(problem.detail)}")
        lines.append(f"What to do: {escaped(problem.next_step, 2000)}")
    lines += bill(cost)
    title = f"{run.name} {_ENDED.get(run.status, run.status)}"
    page = message(title, lines, end=f"Of {escaped(who(run.created_by))}, `{run.id}`")
    return Message(f"{mention} {page.text}".strip(), page.blocks)
