"""Say what an array would do and cost, and do none of it."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.app.runs.budgets import part_of
from trainyard.app.runs.dry_run import DryRun, dry_run_run
from trainyard.app.runs.plan_prices import Price, of_one_cluster, of_run, times
from trainyard.app.runs.refusals import Refusal, tried
from trainyard.ports import Ports
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.people import Person
from trainyard_contracts.specs import RunSpec


@dataclass(frozen=True)
class ArrayPlan:
    """`waves`: the members of each, if all take as long as each other."""

    total: int
    waves: list[int]
    first: RunSpec
    first_parameters: dict[str, str]
    plan: DryRun | None
    one: Price
    all: Price
    refused: list[Refusal]


def dry_run_array(ports: Ports, spec: ArraySpec, *, by: Person | None = None) -> ArrayPlan:
    """What it would do if this person submitted it. Nothing is written."""
    parameters = dict(next(spec.values()))
    first, refused = spec.member(0, parameters), list[Refusal]()
    plan = tried(first.name, lambda: dry_run_run(ports, first, by=by), refused)
    waves = waves_of(spec.total, spec.max_parallel)
    one, every = _prices(spec, plan, waves)
    return ArrayPlan(spec.total, waves, first, parameters, plan, one, every, refused)


def waves_of(total: int, at_once: int) -> list[int]:
    """So many members at once, until none is left."""
    full, rest = divmod(total, at_once)
    return [at_once] * full + ([rest] if rest else [])


def _prices(spec: ArraySpec, plan: DryRun | None, waves: list[int]) -> tuple[Price, Price]:
    """Of one member, and of all. A cluster that the array makes is one for all of them."""
    made = spec.run.cluster.spec
    if made is None or made.nodes_come_with_jobs:
        one = of_run(plan)
        return one, times(one, spec.total, waves[0])
    one = of_run(plan, part_of(spec.run, made))
    return one, of_one_cluster(plan, len(waves), spec.total)
