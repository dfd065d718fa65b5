"""Say exactly what a request would do and cost, and do none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainyard.app.clusters import buckets
from trainyard.app.clusters.change_cluster import plan_update
from trainyard.app.clusters.create_cluster import check_archive, check_spec, check_standing
from trainyard.app.clusters.prices import price_of
from trainyard.app.clusters.zones import zones_of
from trainyard.app.filesystems import reached
from trainyard.app.filesystems.attach import mounted
from trainyard.app.filesystems.attach import warnings as filesystem_warnings
from trainyard.app.runs.after import check_after
from trainyard.app.runs.approvals import why_needed
from trainyard.app.runs.budgets import hourly_of, part_of
from trainyard.app.runs.code_checks import check_code
from trainyard.app.runs.inputs import check_inputs
from trainyard.app.runs.start_from import check_start
from trainyard.app.runs.submit_run import check_cluster
from trainyard.domain import names, recipes, result_warnings
from trainyard.domain.capacity import all_ways
from trainyard.domain.errors import UploadIncomplete
from trainyard.domain.list_prices import ListPrice, list_price
from trainyard.domain.records import Cluster
from trainyard.domain.variables import Variable, variables
from trainyard.outside.seen_clusters import BackendRequest
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase, Way
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person
from trainyard_contracts.specs import JobSpec, RunSpec

#: In the place of the id that a real run would get, in the names that a dry run shows.
PLACEHOLDER = "run-00000000000000000000000000"


@dataclass(frozen=True)
class PlannedWay:
    """One way of a spec, as it would be asked of AWS; prices are in USD."""

    way: str
    backend: str
    hourly_usd: float | None
    operation: str
    request: dict[str, Any]
    files: dict[str, int]
    zones: list[str]
    cannot: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class DryRun:
    """`operation` and `request` are the backend's exact call.

    They are None and {} when nothing would be created.
    """

    operation: str | None
    request: dict[str, Any]
    files: dict[str, int]
    batch_script: str | None
    hourly_usd: float | None
    warnings: list[str] = field(default_factory=list)
    #: Of a spec with several ways, in order; the first is shown above, too.
    ways: list[PlannedWay] = field(default_factory=list)
    backend: str | None = None
    zones: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    #: The run's, for the prices of its whole life.
    expected_seconds: int | None = None
    longest_seconds: int | None = None
    #: It is stopped before it costs more.
    budget_usd: float | None = None
    #: What a run's program will find; empty of a cluster.
    variables: list[Variable] = field(default_factory=list)
    #: By a list that is shipped; None where the price above says it.
    list_price: ListPrice | None = None


def dry_run_run(ports: Ports, spec: RunSpec, *, by: Person | None = None) -> DryRun:
    """What it would do if this person submitted it.

    Raises what submit_run raises, but for an upload that is not there yet.
    """
    existing = check_cluster(ports, spec)
    check_start(ports, spec, existing)
    check_after(ports, spec)
    check_inputs(ports, spec)
    script: str | None = recipes.batch_script(
        PLACEHOLDER, 1, spec.job.nodes, spec.job.image is not None
    )
    why = why_needed(ports, spec, by)
    held = [f"It would wait for people: {why}"] if why is not None else []
    warnings = [*held, *result_warnings.warnings(spec), *_code_warnings(ports, spec)]
    if spec.cluster.spec is None:
        plan = _on_its_cluster(ports, spec, script, warnings)
        return plan if existing is None else _with_its_cluster(ports, plan, spec, existing)
    plan = dry_run_cluster(
        ports,
        spec.cluster.spec,
        name=names.cluster_for_run(spec.cluster.spec.name, PLACEHOLDER),
        otherwise=spec.cluster.otherwise,
        job=spec.job,
    )
    if spec.cluster.spec.nodes_come_with_jobs:
        script = None
    return replace(
        plan,
        batch_script=script,
        warnings=warnings + plan.warnings,
        expected_seconds=spec.limits.expected_seconds,
        longest_seconds=spec.limits.max_duration_seconds,
        budget_usd=_budget(spec),
        variables=variables(spec, spec.cluster.spec),
    )


def _budget(spec: RunSpec) -> float | None:
    return None if spec.budget is None else spec.budget.max_usd


def _on_its_cluster(ports: Ports, spec: RunSpec, script: str | None, warnings: list[str]) -> DryRun:
    """Of a cluster that is there: nothing is made, and the run pays for its part of it."""
    return DryRun(
        None,
        {},
        {},
        script,
        hourly_of(ports, spec),
        warnings,
        expected_seconds=spec.limits.expected_seconds,
        longest_seconds=spec.limits.max_duration_seconds,
        budget_usd=_budget(spec),
    )


def _with_its_cluster(ports: Ports, plan: DryRun, spec: RunSpec, cluster: Cluster) -> DryRun:
    return replace(
        plan,
        variables=variables(spec, cluster.spec),
        list_price=_listed(ports, cluster.spec, plan.hourly_usd, part_of(spec, cluster.spec)),
    )


def _listed(
    ports: Ports, spec: ClusterBase, hourly: float | None, part: float = 1.0
) -> ListPrice | None:
    backend = ports.backend(spec)
    return list_price(
        spec, ports.config.region, hourly, lambda type_: backend.product(type_).usage_type, part
    )


def _code_warnings(ports: Ports, spec: RunSpec) -> list[str]:
    """A directory need not be uploaded to see what the rest of the spec would do."""
    try:
        check_code(ports, spec)
    except UploadIncomplete as error:
        words = error.errors[0].message if error.errors else "it is not complete"
        return [f"job.workdir: {words}. A run is accepted once it is there."]
    return []


def dry_run_cluster(
    ports: Ports,
    spec: ClusterSpec,
    *,
    name: str | None = None,
    otherwise: Sequence[ClusterSpec] = (),
    job: JobSpec | None = None,
) -> DryRun:
    """The exact request of a cluster's creation, the files of its lifecycle bundle, its price."""
    if name is None:
        check_standing(spec)
        reached.check_reached(ports, spec, "")
    check_spec(ports, spec)
    check_archive(ports, spec.archive, of=name or spec.name)
    named, *others = [
        mounted(ports, one.changed(name=name) if name else one) for one in (spec, *otherwise)
    ]
    ways = all_ways(named, others)
    plans = [
        _planned(ports, way, job, first=not number)
        for number, way in enumerate(ways or [Way(named, "", 0)])
    ]
    shown = [way for way, _ in plans] if ways else []
    listed = _listed(ports, ways[0].spec if ways else named, plans[0][0].hourly_usd)
    return _of_first(*plans[0], _warnings(ports, spec), shown, listed)


def _warnings(ports: Ports, spec: ClusterSpec) -> list[str]:
    return [
        *filesystem_warnings(ports, spec),
        *reached.warnings(ports, spec),
        *buckets.warnings(ports, spec),
    ]


def _of_first(
    first: PlannedWay,
    request: BackendRequest,
    warnings: list[str],
    ways: list[PlannedWay],
    listed: ListPrice | None,
) -> DryRun:
    """The plan that shows its first way."""
    return DryRun(
        request.operation,
        request.request,
        dict(request.files),
        None,
        first.hourly_usd,
        [*request.warnings, *_unpriced(first), *warnings],
        ways,
        first.backend,
        first.zones,
        first.cannot,
        list_price=listed,
    )


def _unpriced(way: PlannedWay) -> list[str]:
    if way.hourly_usd is not None:
        return []
    return ["The price list does not say what these instances cost; look it up before you start."]


def _planned(
    ports: Ports, of: Way, job: JobSpec | None, *, first: bool
) -> tuple[PlannedWay, BackendRequest]:
    """Only the first way is judged by a backend that can: each takes as long as the API may."""
    spec, now = of.spec, ports.clock.now()
    record = Cluster.model_validate(
        {"name": spec.name, "spec": spec, "created_at": now, "updated_at": now}
    )
    request = ports.backend(record).plan(record, tried=first, job=job)
    way = PlannedWay(
        of.words,
        spec.backend,
        _price(ports, spec),
        request.operation,
        request.request,
        dict(request.files),
        zones_of(ports, spec.subnets or ports.config.subnet_ids),
        list(spec.cannot()),
        list(request.warnings),
    )
    return way, request


def dry_run_update(ports: Ports, name: str, spec: ClusterSpec) -> DryRun:
    """The exact request of a cluster's update, what it takes, and the price that follows."""
    plan, against = plan_update(ports, name, spec)
    request = plan.request
    warnings = [*request.warnings]
    warnings += ["The backend has this configuration already."] if plan.nothing else []
    warnings += [f"It would not begin now. {words}" for words in against]
    price = _price(ports, spec)
    return DryRun(request.operation, request.request, dict(request.files), None, price, warnings)


def _price(ports: Ports, spec: ClusterBase) -> float | None:
    return price_of(ports, spec)[0]
