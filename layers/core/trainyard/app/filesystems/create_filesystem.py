"""Accept a filesystem: store it; the sweep asks FSx for it and follows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainyard.domain.errors import (
    FieldError,
    FilesystemExists,
    FilesystemNotFound,
    IdempotencyConflict,
    InvalidRequest,
)
from trainyard.domain.filesystem_records import Filesystem
from trainyard.outside.seen_clusters import BackendRequest
from trainyard.ports import Ports
from trainyard_contracts.filesystems import FilesystemSpec
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.people import Person


@dataclass(frozen=True)
class FilesystemPlan:
    """What would be sent, and what it would cost in a month."""

    requests: list[BackendRequest]
    monthly_usd: float | None
    warnings: list[str] = field(default_factory=list)


def create_filesystem(
    ports: Ports,
    spec: FilesystemSpec,
    *,
    idempotency_key: str | None = None,
    by: Person | None = None,
) -> Filesystem:
    """Store the filesystem's record.

    The same key and spec again answer with the same filesystem. Raises InvalidRequest,
    FilesystemExists, IdempotencyConflict.
    """
    record = _record(ports, spec, idempotency_key).changed(created_by=by)
    stored = _repeated(ports, record)
    if stored is not None:
        return stored
    try:
        return ports.filesystems.create(record)
    except FilesystemExists:
        stored = _repeated(ports, record)  # the same request at the same moment
        if stored is None:
            raise
        return stored


def plan_filesystem(ports: Ports, spec: FilesystemSpec) -> FilesystemPlan:
    """The exact requests of its creation and its price; nothing is stored."""
    record = _record(ports, spec, None)
    price = ports.prices.monthly_usd(spec)
    warnings = [
        *(
            []
            if price is not None
            else ["The price list does not say what this filesystem costs; look it up before."]
        ),
        *(
            []
            if spec.repository is not None
            else [
                "It has no repository, so nothing of it is ever exported: it can only be deleted "
                "by giving up what it holds."
            ]
        ),
        *(
            ["SCRATCH_2 keeps no second copy of a file: what a broken server held is lost."]
            if spec.deployment == "SCRATCH_2"
            else []
        ),
    ]
    return FilesystemPlan(ports.lustre.plan(record), price, warnings)


def _record(ports: Ports, spec: FilesystemSpec, key: str | None) -> Filesystem:
    now = ports.clock.now()
    spec = _in_the_stacks_network(ports, spec)
    _check_repository(ports, spec)
    record = Filesystem(
        name=spec.name, spec=spec, created_at=now, updated_at=now, idempotency_key=key
    )
    return record.told(now, "FilesystemRequested", "Accepted; FSx is asked within a minute.")


def _in_the_stacks_network(ports: Ports, spec: FilesystemSpec) -> FilesystemSpec:
    """A spec that names no network gets the stack's, as it is now."""
    subnet = spec.subnet_id or next(iter(ports.config.subnet_ids), None)
    groups = spec.security_group_ids or list(ports.config.security_group_ids)
    lacking = {
        "subnetId": "" if subnet else "give a subnet of the nodes' zone",
        "securityGroupIds": "" if groups else "give the nodes' security group",
    }
    fields = [
        FieldError(field, f"is needed, for the stack names none; {remedy}")
        for field, remedy in lacking.items()
        if remedy
    ]
    if fields:
        words = "; ".join(f"{one.field}: {one.message}" for one in fields)
        raise InvalidRequest(words, errors=fields)
    return spec.changed(subnet_id=subnet, security_group_ids=groups)


def _check_repository(ports: Ports, spec: FilesystemSpec) -> None:
    if spec.repository is None:
        return
    bucket = S3Prefix.of(spec.repository.source).bucket
    if bucket == ports.config.data_bucket:
        raise _refused(
            "repository.source",
            f"'{bucket}' is Trainyard's own bucket, with every cluster's runs; use another one",
        )


def _repeated(ports: Ports, record: Filesystem) -> Filesystem | None:
    """The filesystem that an earlier request with the same key made, whatever became of it."""
    if record.idempotency_key is None:
        return None
    try:
        known = ports.filesystems.get(record.name)
    except FilesystemNotFound:
        return None
    if known.idempotency_key != record.idempotency_key:
        return None
    if known.spec != record.spec:
        words = "was used with another body for this filesystem; use a new one for a new request"
        raise IdempotencyConflict(
            f"this Idempotency-Key was used for filesystem '{record.name}' with another body",
            errors=[FieldError("idempotency-key", words)],
        )
    return known


def _refused(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])
