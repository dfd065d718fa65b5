"""Whether a run can begin with another run's checkpoint: a whole one that its nodes reach."""

from __future__ import annotations

from trainyard.app.facts.situation import all_checkpoints, cluster_of
from trainyard.app.filesystems.attach import mounted
from trainyard.domain.errors import FieldError, InvalidRequest, RunNotFound
from trainyard.domain.records import Checkpoint, Cluster, Run, Start
from trainyard.domain.runs import same_filesystem
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.specs import RunSpec, StartSpec

_FIELD = "checkpoint.startFrom"
#: So many of the newest steps are named to who asked for one that is not there.
_SHOWN = 8


def check_start(ports: Ports, spec: RunSpec, cluster: Cluster | None) -> Start | None:
    """The checkpoint that the run would begin with. Raises InvalidRequest.

    `cluster`: the one that the spec names; None if one is made for the run.
    """
    asked = spec.checkpoint.start_from
    if asked is None:
        return None
    start = _start(ports, spec, cluster, asked)
    for other in spec.cluster.otherwise:
        if _start(ports, spec.on(other), None, asked) != start:
            raise _wrong(
                "",
                "training jobs read it from S3 and clusters from their filesystem, so "
                f"cluster.otherwise cannot name backend '{other.backend}' here; remove one of both",
            )
    return start


def _start(ports: Ports, spec: RunSpec, cluster: Cluster | None, asked: StartSpec) -> Start:
    try:
        source = ports.runs.get(asked.run)
    except RunNotFound:
        raise _wrong(
            ".run",
            f"there is no run {asked.run}; list runs with 'trainyard run ls' (GET /v1/runs)",
        ) from None
    whole = [found for found in all_checkpoints(ports, source.id) if found.status == "whole"]
    mine = [found for found in whole if found.step == asked.step]
    if not mine:
        steps = sorted({found.step for found in whole}, reverse=True)
        there = ", ".join(map(str, steps[:_SHOWN])) or "none"
        more = ", ..." if len(steps) > _SHOWN else ""
        raise _wrong(
            ".step",
            f"run {source.id} has no whole checkpoint at step {asked.step}; it has {there}{more}",
        )
    newest = max(mine, key=lambda found: found.attempt)
    made = spec.cluster.spec
    if made is not None and made.nodes_come_with_jobs:
        place = _in_s3(ports, source, newest)
        return Start(run_id=source.id, path=newest.path, step=newest.step, export=place)
    export = _exported(ports, source, newest, cluster) if cluster else ""
    if not export:
        _check_filesystem(ports, source, _filesystem(ports, spec, cluster))
    return Start(run_id=source.id, path=newest.path, step=newest.step, export=export)


def _in_s3(ports: Ports, source: Run, found: Checkpoint) -> str:
    """Where S3 has it: in the directory of a run of training jobs, or in a verified export.

    Nodes that come with jobs share no filesystem. Raises InvalidRequest.
    """
    name = found.path.rpartition("/")[2]
    if not places.is_own_checkpoint(found.path):
        raise _wrong(
            ".step",
            f"run {source.id} saved that checkpoint in its program's own way, which a training job "
            "does not put back; use a cluster with that run's filesystem",
        )
    there = [f"{places.directory_prefix(source.cluster_name, source.id)}{found.path}"]
    if source.export is not None and source.export.state == "verified":  # it stays, and comes first
        there.insert(0, f"{source.export_prefix}{places.CHECKPOINTS}/{name}")
    for place in there:
        if ports.blobs.head(f"{place}/{places.CHECKPOINT_MANIFEST}") is not None:
            return place
    raise _wrong(
        ".run",
        f"S3 does not have step {found.step} of run {source.id}, and training jobs read nothing "
        f"else; export it first (trainyard run export {source.id}, with export.checkpoints 'all'), "
        "or use a cluster with that run's filesystem",
    )


def _exported(ports: Ports, source: Run, found: Checkpoint, cluster: Cluster) -> str:
    """Where the export has the checkpoint; '' where it has not, or these nodes read no such run."""
    export = source.export
    if export is None or export.state != "verified":
        return ""
    if not source.prefix.startswith(f"{places.runs_prefix(cluster.name)}/"):
        return ""
    name = found.path.rpartition("/")[2]
    own = places.is_own_checkpoint(found.path)
    place = source.export_prefix + (f"{places.CHECKPOINTS}/{name}" if own else found.path)
    there = ports.blobs.head(f"{place}/{places.CHECKPOINT_MANIFEST}") is not None
    return place if there else ""


def _filesystem(ports: Ports, spec: RunSpec, cluster: Cluster | None) -> str:
    if cluster is not None:
        return cluster.filesystem
    assert spec.cluster.spec is not None
    return mounted(ports, spec.cluster.spec, "cluster.spec.").filesystem


def _check_filesystem(ports: Ports, source: Run, ours: str) -> None:
    theirs, owner = source.filesystem, cluster_of(ports, source)
    if not theirs and owner is not None:
        theirs = owner.filesystem
    if not ours or not same_filesystem(theirs, ours):
        raise _wrong(
            ".run",
            f"the checkpoints of run {source.id} lie on the filesystem {theirs or 'of no cluster'},"
            f" and this run's cluster has {ours or 'one of its own'}; use a cluster with that "
            "filesystem, or the cluster of this name below which the run was exported",
        )
    if owner is not None and owner.went_unarchived:
        raise _wrong(
            ".run",
            f"the checkpoints of run {source.id} went with the filesystem of cluster "
            f"'{owner.name}', and no verified export to {theirs} is known, so a new filesystem of "
            "that archive may lack them; name a run whose cluster was archived, or one that "
            "was exported",
        )


def _wrong(place: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{_FIELD}{place}: {words}", errors=[FieldError(_FIELD + place, words)])
