"""A filesystem comes into being."""

from __future__ import annotations

from datetime import timedelta

from trainyard.domain import filesystems
from trainyard.domain.errors import BackendRejected
from trainyard.domain.filesystem_records import Filesystem
from trainyard.outside.seen_filesystems import SeenFilesystem
from trainyard.ports import Ports

#: FSx may not show at once what it was asked for.
VISIBLE_SECONDS = 300


def create(ports: Ports, filesystem: Filesystem) -> Filesystem:
    now = ports.clock.now()
    if filesystem.create_requested_at is None:
        return filesystem.changed(create_requested_at=now)
    try:
        seen = ports.lustre.create(filesystem)
    except BackendRejected as refused:
        return filesystems.failed(filesystem, refused.detail, now)
    made = as_seen(filesystem, seen).changed(status="Creating")
    return made.told(now, "FilesystemCreating", f"FSx makes {seen.fsx_id}.")


def as_seen(filesystem: Filesystem, seen: SeenFilesystem) -> Filesystem:
    return filesystem.changed(
        fsx_id=seen.fsx_id,
        arn=seen.arn,
        dns_name=seen.dns_name,
        mount_name=seen.mount_name,
        vpc=seen.vpc,
    )


def await_creation(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    now, seen = ports.clock.now(), ports.lustre.describe(filesystem.fsx_id or "")
    if seen is None:
        asked = filesystem.create_requested_at or filesystem.created_at
        if now - asked < timedelta(seconds=VISIBLE_SECONDS):
            return None
        return filesystems.failed(filesystem, words_of_loss(filesystem), now)
    if seen.life in ("broken", "going"):
        reason = seen.failure_message or f"FSx says that it is {seen.said}, and no reason."
        return filesystems.failed(filesystem, reason, now)
    if seen.life != "there":
        return None
    place = ports.networks.places([filesystem.spec.subnet_id or ""])
    zone = next((found.zone for found in place.values()), "")
    known = as_seen(filesystem, seen).changed(zone=zone)
    if filesystem.spec.repository is None:
        return _available(known, ports)
    words = "FSx made it; it is linked to its repository, and what is there is imported."
    return known.changed(status="Linking").told(now, "FilesystemLinking", words)


def words_of_loss(filesystem: Filesystem) -> str:
    return f"{filesystem.fsx_id} was deleted outside Trainyard."


def _available(filesystem: Filesystem, ports: Ports) -> Filesystem:
    now = ports.clock.now()
    ready = filesystem.changed(status="Available", available_at=now, waits_for="")
    return ready.told(now, "FilesystemAvailable", "Clusters may mount it.")


def await_link(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    now = ports.clock.now()
    if filesystem.association_id is None:
        try:
            return filesystem.changed(association_id=ports.lustre.link(filesystem))
        except BackendRejected as refused:
            return filesystems.failed(filesystem, _of_link(filesystem, refused.detail), now)
    seen = ports.lustre.linked(filesystem.association_id)
    if seen is not None and seen.life == "broken":
        reason = seen.failure_message or f"FSx says that the link is {seen.said}."
        return filesystems.failed(filesystem, _of_link(filesystem, reason), now)
    if seen is None or seen.life != "there":
        return None
    if task := ports.lustre.busy(filesystem.fsx_id or ""):
        return filesystem.changed(waits_for=f"FSx imports what the repository holds ({task}).")
    return _available(filesystem, ports)


def _of_link(filesystem: Filesystem, reason: str) -> str:
    """The field of the spec first: AWS's words name neither it nor the bucket."""
    repository = filesystem.spec.repository
    return f"repository.source ({repository.source}): {reason}" if repository else reason
