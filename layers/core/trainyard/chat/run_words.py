"""A run as Slack shows it: in a list, alone, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.app.runs.run_costs import RunCosts
from trainyard.chat.bill_words import bill
from trainyard.chat.blocks import Message, escaped, message, moment, quoted
from trainyard.domain.advice import advised
from trainyard.domain.records import Incident, Run
from trainyard.domain.words import duration, who
from trainyard_contracts.events import RunSample

#: Of a run's incidents, the newest.
_INCIDENTS = 3


def run_list(runs: Sequence[Run], *, mine: bool, more: bool) -> Message:
    title = "Your runs" if mine else "Runs"
    if not runs:
        none = "You own no run." if mine else "There is no run yet."
        return message(title, [none])
    end = "There are older ones: `trainyard run ls`." if more else ""
    return message(f"{title}, newest first", [_line(run) for run in runs], end=end)


def _line(run: Run) -> str:
    return (
        f"*{escaped(run.name)}*  {run.status}  on `{escaped(run.cluster_name)}`, of "
        f"{escaped(who(run.created_by))}, {moment(run.created_at)}\n`{run.id}`"
    )


def run_page(run: Run, latest: RunSample | None) -> Message:
    lines = [where(run, latest)]
    if run.reason:
        lines.append(quoted(run.reason))
    if (problem := advised(run)) is not None:
        lines.append(f"*{escaped(problem.title)}*\n{quoted(problem.detail)}")
        lines.append(f"What to do: {escaped(problem.next_step, 2000)}")
    lines += [_incident(one) for one in run.incidents[-_INCIDENTS:]]
    return message(f"{run.name}: {run.status}", lines, end=f"`{run.id}`")


def where(run: Run, latest: RunSample | None) -> str:
    said = [
        f"On `{escaped(run.cluster_name)}`, of {escaped(who(run.created_by))}.",
        f"Submitted {moment(run.created_at)}.",
    ]
    if run.finished_at is not None:
        said.append(f"Ended {moment(run.finished_at)}.")
    if (attempt := run.attempt) is not None:
        said.append(f"Attempt {attempt.number}.")
    if latest is not None and latest.step is not None:
        loss = "" if latest.loss is None else f", loss {latest.loss:.4g}"
        said.append(f"Step {latest.step}{loss}.")
    return " ".join(said)


def _incident(one: Incident) -> str:
    if one.resumed_at is None:
        after = "training has not gone on since"
    else:
        went = "started again" if one.resumed_by == "start" else "trained on"
        after = f"{went} after {duration((one.resumed_at - one.started_at).total_seconds())}"
    return f"Incident {moment(one.started_at)}, {after}:\n{quoted(one.reason or one.cause, 500)}"


def cost_page(found: RunCosts) -> Message:
    run, cost = found.run, found.cost
    until = "In all." if run.terminal else f"Until {moment(cost.at)}."
    lines = [until, *bill(cost)]
    if found.account is not None:
        budget = found.account
        lines.append(
            f"Of its budget of {budget.limit:.2f} USD, {budget.spent:.2f} are spent and "
            f"{budget.tail:.2f} are held back for its end."
        )
    return message(f"Cost of {run.name}", lines, end=f"`{run.id}`")
