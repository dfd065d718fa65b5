"""What of a run was copied to S3 while it trained; it outlives the cluster."""

from __future__ import annotations

from pydantic import ValidationError

from trainyard.domain.errors import TrainyardError
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.files import SyncLatest


def latest_sync(ports: Ports, run: Run) -> SyncLatest | None:
    """None where there is none, or S3 does not say: a run is shown all the same."""
    if run.spec.export.every_seconds is None:
        return None
    try:
        body = ports.blobs.get(f"{run.sync_prefix}/{places.SYNC_LATEST}")
        found = SyncLatest.model_validate_json(body)
    except (TrainyardError, ValidationError):
        return None
    return found if found.run_id == run.id and found.number else None


def sync_manifest_key(run: Run, number: int) -> str:
    """Of one list of a run's sync."""
    return f"{run.sync_prefix}/{places.sync_manifest(number)}"
