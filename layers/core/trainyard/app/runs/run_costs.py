"""What a run has cost so far, and what its nodes did for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainyard.domain import budget_accounts, costs
from trainyard.domain.budget_accounts import Account
from trainyard.domain.costs import Spell
from trainyard.domain.ledger import ledger
from trainyard.domain.quiet_times import Progress
from trainyard.domain.records import Run, RunCost
from trainyard.ports import Ports
from trainyard_contracts.events import Fact

#: Heartbeats that are read for the steps' times: of a day with one a minute.
MOST_BEATS = 1440


@dataclass(frozen=True)
class RunCosts:
    """With what it is made of; `account` is that of the budget of a life that goes on."""

    run: Run
    cost: RunCost
    spells: list[Spell]
    account: Account | None


def costs_of(ports: Ports, run_id: str) -> RunCosts:
    """Raises RunNotFound."""
    run, now = ports.runs.get(run_id), ports.clock.now()
    facts = facts_of(ports, run)
    spells = spells_of(run, facts, now)
    account = None if run.terminal else budget_accounts.account(run, facts, now)
    return RunCosts(run, _cost(ports, run, facts, spells, now), spells, account)


def cost_of(ports: Ports, run: Run, now: datetime) -> RunCost:
    """Up to now, or to the run's end."""
    facts = facts_of(ports, run)
    return _cost(ports, run, facts, spells_of(run, facts, now), now)


def _cost(ports: Ports, run: Run, facts: list[Fact], spells: list[Spell], now: datetime) -> RunCost:
    return RunCost(
        usd=costs.usd_of(spells),
        reason=costs.unpriced(spells),
        at=min(now, run.finished_at) if run.finished_at else now,
        node_seconds=sum(spell.node_seconds for spell in spells),
        ledger=ledger(run, facts, spells, progress_of(ports, run, spells)),
    )


def facts_of(ports: Ports, run: Run) -> list[Fact]:
    """Its own, and those of its cluster: a price may be older than the run."""
    return ports.runs.facts(run.id) + ports.clusters.facts(run.cluster_name)


def spells_of(run: Run, facts: list[Fact], now: datetime) -> list[Spell]:
    return costs.in_force(run, costs.spells(run, facts, now))


def progress_of(ports: Ports, run: Run, spells: list[Spell]) -> list[Progress]:
    """The steps in the newest heartbeats, which are kept for some days only."""
    if not spells:
        return []
    beats = ports.clusters.heartbeats(
        run.cluster_name, since=spells[0].since, until=spells[-1].until, limit=MOST_BEATS
    )
    return [
        Progress(beat.at, sample.attempt, sample.step)
        for beat in beats
        if beat.part == 1
        for sample in beat.runs
        if sample.run_id == run.id and sample.step is not None
    ]
