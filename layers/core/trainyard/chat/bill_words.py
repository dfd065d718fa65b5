"""What a run cost and what for, as Slack shows it: the useful part, and what each waste took.

The lines are those of the ledger (docs/cost.md), so their sum is the bill.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.chat.blocks import quoted
from trainyard.domain.records import CostLine, RunCost

_USEFUL = "useful"
#: What a cause means to somebody who has not read docs/cost.md.
_MEANS = {
    _USEFUL: "training that nobody did again",
    "creation": "until the cluster was ready",
    "creation-failed": "of a cluster that never was",
    "start": "until the first step",
    "waiting": "for a node or a turn",
    "detection": "until the fault was noticed",
    "restart": "from a fault to the next first step",
    "recomputation": "steps that were done again",
    "stall": "no step for long",
    "saving": "the last checkpoint and the export",
    "teardown": "the cluster's deletion",
}
#: Below this many USD two digits would hide most of it.
_SMALL = 1.0


def dollars(usd: float | None) -> str:
    """'1.23 USD', and of a small amount four digits; a price may be unknown."""
    if usd is None:
        return "not known"
    return f"{usd:.4f} USD" if abs(usd) < _SMALL else f"{usd:,.2f} USD"


def bill(cost: RunCost) -> list[str]:
    """Sections of a message: the sum, what part of it was useful, and a line for each cause."""
    hours = cost.node_seconds / 3600
    lines = [
        f"Cost: *{dollars(cost.usd)}* for {hours:.2f} hours of nodes.\n{_parted(cost)}".strip()
    ]
    if cost.usd is None and cost.reason:
        lines.append(quoted(cost.reason, 500))
    if cost.ledger:
        lines.append(_table(cost.ledger))
    return lines


def _parted(cost: RunCost) -> str:
    """By dollars where each is known and they are any, else by the nodes' time."""
    priced = all(line.usd is not None for line in cost.ledger) and bool(cost.usd)
    whole = sum(_amount(line, priced=priced) for line in cost.ledger)
    if whole <= 0:
        return ""
    waste = [line for line in cost.ledger if line.cause != _USEFUL]
    wasted = sum(_amount(line, priced=priced) for line in waste)
    said = f"Useful: *{1 - wasted / whole:.0%}*. Waste: *{wasted / whole:.0%}*"
    said += f", {dollars(wasted)}" if priced else ""
    most = max(waste, key=lambda line: _amount(line, priced=priced), default=None)
    if most is None:
        return f"{said}."
    return f"{said}; most of it is {most.cause}, {_MEANS.get(most.cause, 'of its own kind')}."


def _amount(line: CostLine, *, priced: bool) -> float:
    return (line.usd or 0.0) if priced else line.node_seconds


def _table(ledger: Sequence[CostLine]) -> str:
    """Code, so that the columns stand below each other."""
    wide = max(len(line.cause) for line in ledger)
    rows = [
        f"{line.cause:<{wide}} {line.seconds:>9,.1f} s {dollars(line.usd):>14}  "
        f"{_MEANS.get(line.cause, '')}".rstrip()
        for line in ledger
    ]
    return quoted("\n".join(rows), 2000)
