"""Say exactly what a request would do and cost, and do none of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from trainyard.app.clusters.create_cluster import check_spec, check_standing
from trainyard.app.filesystems import reached
from trainyard.app.filesystems.attach import mounted
from trainyard.app.filesystems.attach import warnings as filesystem_warnings
from trainyard.app.runs.inputs import check_inputs
from trainyard.app.runs.start_from import check_start
from trainyard.app.runs.submit_run import check_cluster
from trainyard.app.runs.uploads import check_code
from trainyard.domain import names, recipes, results
from trainyard.domain.errors import UploadIncomplete
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.specs import RunSpec

#: Stands for the id that a real run would get, in the names that a dry run shows.
PLACEHOLDER = "run-00000000000000000000000000"


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
    #: Of a spec with several ways, in order, each with its price an hour; the first is shown.
    ways: list[tuple[str, float | None]] = field(default_factory=list)


def dry_run_run(ports: Ports, spec: RunSpec) -> DryRun:
    """Raises what submit_run raises, but for an upload that is not there yet."""
    existing = check_cluster(ports, spec)
    check_start(ports, spec, existing)
    check_inputs(ports, spec)
    script: str | None = recipes.batch_script(
        PLACEHOLDER, 1, spec.job.nodes, spec.job.image is not None
    )
    warnings = [*results.warnings(spec), *_code_warnings(ports, spec)]
    if spec.cluster.spec is None:
        price = _price(ports, existing.spec) if existing else None
        return DryRun(None, {}, {}, script, price, warnings)
    plan = dry_run_cluster(
        ports, spec.cluster.spec, name=names.cluster_for_run(spec.cluster.spec.name, PLACEHOLDER)
    )
    if spec.cluster.spec.nodes_come_with_jobs:
        script = None
    return replace(plan, batch_script=script, warnings=warnings + plan.warnings)


def _code_warnings(ports: Ports, spec: RunSpec) -> list[str]:
    """A directory need not be uploaded to see what the rest of the spec would do."""
    try:
        check_code(ports, spec)
    except UploadIncomplete as error:
        words = error.errors[0].message if error.errors else "it is not complete"
        return [f"job.workdir: {words}. A run is accepted once it is there."]
    return []


def dry_run_cluster(ports: Ports, spec: ClusterSpec, *, name: str | None = None) -> DryRun:
    """The exact request of a cluster's creation, the files of its lifecycle bundle, its price."""
    if name is None:
        check_standing(spec)
    check_spec(ports, spec)
    now = ports.clock.now()
    named = mounted(ports, spec.changed(name=name) if name else spec)
    shown = named.ways[0].spec if named.ways else named
    record = Cluster(name=named.name, spec=shown, created_at=now, updated_at=now)
    request = ports.backend(record).plan(record)
    ways = [(way.words, _price(ports, way.spec)) for way in named.ways]
    price = ways[0][1] if ways else _price(ports, shown)
    unpriced = (
        []
        if price is not None
        else ["The price list does not say what these instances cost; look it up before you start."]
    )
    far = [*filesystem_warnings(ports, spec), *reached.warnings(ports, spec)]
    warnings = [*request.warnings, *unpriced, *far]
    files = dict(request.files)
    return DryRun(request.operation, request.request, files, None, price, warnings, ways)


def _price(ports: Ports, spec: ClusterBase) -> float | None:
    return ports.prices.hourly_usd(spec, ports.backend(spec).product)
