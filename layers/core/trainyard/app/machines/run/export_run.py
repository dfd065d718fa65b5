"""Export to S3 and verify every object from here, before anything may be deleted."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from trainyard.app.facts.situation import still
from trainyard.app.machines.inputs import StepInput, done, store_wait, superseded
from trainyard.app.machines.run.agent_answers import agent_answer
from trainyard.app.machines.run.delays import tell_delay
from trainyard.app.machines.run.only_copy import record_copies
from trainyard.domain import names, results
from trainyard.domain.book import Book
from trainyard.domain.directories import beyond
from trainyard.domain.errors import BlobNotFound, CommandFailed, RetryableError
from trainyard.domain.job_facts import SavedRun
from trainyard.domain.records import Export, Run, TimelineEntry
from trainyard.domain.words import counted, size
from trainyard.ports import Ports
from trainyard_contracts import commands
from trainyard_contracts.events import ExportFinished
from trainyard_contracts.files import ExportedObject, ExportManifest

EXPORT_COMMAND_SECONDS = 60.0


@dataclass(frozen=True)
class Ended:
    """How the agent says that the export ended: with a manifest, or with a reason why not."""

    reason: str = ""
    manifest_key: str = ""
    manifest_sha256: str = ""


def export_run(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Ask the agent for the export, or conclude it when the agent has reported its end.

    Waits only when training is over.
    """
    run = ports.runs.get(given.run_id)
    if superseded(ports, run, given.generation, given.token):
        return {"export": "superseded"}
    owner = names.run_owner(run.id)
    store_wait(ports, owner, "export", given)
    export = run.export
    if export is None or export.state not in ("requested", "running"):
        done(ports, owner, given.token)
        return {"export": "nothing to do"}
    finished, paused = _finished(ports, run, export), False
    if finished is None:
        try:
            run, finished, paused = _ask(ports, run, export)
        except RetryableError as error:
            if still(ports, run.id, "export"):
                tell_delay(
                    ports, run.id, export.id, "The request for the export has no answer yet", error
                )
                raise
            done(ports, owner, given.token)
            return {"export": "given up"}
    if finished is not None and run.export is not None:
        # An export that is only 'requested' in the record may have ended, too: the step may have
        # died between asking and writing that down.
        run = _save(ports, run, conclude(ports, run, run.export, finished))
    if (
        run.outcome is None
        or paused
        or finished is not None
        or (run.export is not None and run.export.state == "failed")
    ):
        done(ports, owner, given.token)
    return {"export": run.export.state if run.export else "none"}


def conclude(ports: Ports, run: Run, export: Export, ended: Ended) -> Export:
    """Believe nothing: read the manifest and look at every object's size and checksum."""
    key, reason, manifest = ended.manifest_key or run.export_manifest_key, ended.reason, None
    if not reason:
        manifest, reason = _manifest(ports, run, key, ended.manifest_sha256)
    if manifest is not None:
        reason = _lacking(ports, run, export, manifest) or _first_wrong(
            ports, run, manifest.objects
        )
    if reason or manifest is None:
        return export.changed(state="failed", reason=reason)
    size = sum(entry.bytes for entry in manifest.objects)
    update = {
        "state": "verified",
        "reason": "",
        "objects": len(manifest.objects),
        "bytes": size,
        "manifest_key": key,
    }
    left = {
        "left_behind": results.left_behind(manifest),
        "found_nothing": results.found_nothing(manifest, run.spec.export),
    }
    return export.changed(**update, **left)


def lacks(ports: Ports, run: Run, held: Mapping[str, int]) -> str:
    """What the verified export lacks now, of the files that the run's directory holds (sizes by
    path) and of all that is known of the run; '' if it has all.
    """
    if run.export is None or run.export.state != "verified":
        return "there is no verified export"
    key = run.export.manifest_key or run.export_manifest_key
    manifest, reason = _manifest(ports, run, key, "")
    if manifest is None:
        return reason
    if path := beyond(held, {entry.key: entry.bytes for entry in manifest.objects}):
        return f"{path} is not in it"
    return _lacking(ports, run, run.export, manifest) or _first_wrong(ports, run, manifest.objects)


def _lacking(ports: Ports, run: Run, export: Export, manifest: ExportManifest) -> str:
    """What the run's last export lacks: the final model, or the newest checkpoint that we know of.

    '' if it lacks nothing. This is needed because an export of an empty directory verifies, too.
    """
    if not export.final or manifest.final_model or run.spec.export.checkpoints == "none":
        return ""
    known = [
        item.step
        for item in ports.runs.checkpoints(run.id, limit=20, token=None).items
        if item.status == "whole"
    ]
    if not known or (manifest.last_step is not None and manifest.last_step >= known[0]):
        return ""
    own = run.spec.cluster.spec
    in_s3 = own is not None and own.nodes_come_with_jobs
    where = "directory in S3 whole" if in_s3 else "shared filesystem there"
    return f"the checkpoint of step {known[0]} is not in it; is the {where}?"


def _manifest(ports: Ports, run: Run, key: str, written: str) -> tuple[ExportManifest | None, str]:
    """The manifest if it is the very one that the agent wrote, or why not."""
    try:
        body = ports.blobs.get(key)
        if written and sha256(body).hexdigest() != written:
            return None, f"{key} is not what the agent wrote: someone else changed it"
        manifest = ExportManifest.model_validate_json(body)
    except BlobNotFound:
        return None, f"{key} is not in the data bucket"
    except ValidationError as error:
        return None, f"{key} is not an export manifest: {error.error_count()} errors"
    return (
        (manifest, "")
        if manifest.run_id == run.id
        else (None, f"{key} belongs to {manifest.run_id}")
    )


def _first_wrong(ports: Ports, run: Run, objects: list[ExportedObject]) -> str:
    """'' if every object is in the bucket with the size and the checksum of the manifest."""

    def wrong(entry: ExportedObject) -> str:
        head = ports.blobs.head(run.export_prefix + entry.key)
        if head is None:
            return f"{entry.key} is missing"
        if head[0] != entry.bytes:
            return f"{entry.key} has {head[0]} bytes, not {entry.bytes}"
        expected = entry.checksum or b64encode(bytes.fromhex(entry.sha256)).decode()
        return (
            ""
            if head[1] == expected
            else f"{entry.key} has another checksum than the manifest says"
        )

    with ThreadPoolExecutor(max_workers=8) as pool:
        return next((reason for reason in pool.map(wrong, objects) if reason), "")


def _finished(ports: Ports, run: Run, export: Export) -> Ended | None:
    event = next(
        (
            fact
            for fact in Book(ports.runs.facts(run.id)).of(ExportFinished)
            if fact.export_id == export.id
        ),
        None,
    )
    if event is None:
        return None
    reason = "" if event.ok else event.reason or "the agent gave no reason"
    return Ended(reason, event.manifest_key, event.manifest_sha256)


def _ask(ports: Ports, run: Run, export: Export) -> tuple[Run, Ended | None, bool]:
    """Ask the agent to export; at last whether it goes on only when it is asked again.

    The same export id does not start a second export. So asking again also finds the end of an
    export whose event was lost.
    """
    cluster = ports.clusters.get(run.cluster_name)
    destination = names.s3_uri(ports.blobs.bucket, run.export_prefix)
    command = commands.Export(run.id, export.id, destination, run.spec.export.checkpoints)
    try:
        result = ports.backend(cluster).run(
            cluster, command.argv(), timeout_seconds=EXPORT_COMMAND_SECONDS
        )
        answer = commands.Exporting.of(agent_answer(result, "export"))
    except CommandFailed as failed:
        return _save(ports, run, export.changed(state="failed", reason=failed.detail)), None, False
    running = export.changed(state="running")
    run = run if export.state == "running" else _save(ports, run, running)
    if answer.state == "finished":
        return run, Ended(manifest_sha256=answer.manifest_sha256), False
    return run, _finished(ports, run, running), answer.state == "paused"


def _save(ports: Ports, run: Run, export: Export) -> Run:
    lines = [_entry(ports, export)] if export.state in ("verified", "failed") else []
    if export.state == "verified" and export.final and not export.left_behind:
        record_copies(ports, run, SavedRun)
    return ports.runs.put(run.changed(export=export), lines)


def _entry(ports: Ports, export: Export) -> TimelineEntry:
    found = f"{counted(export.objects, 'object')}, {size(export.bytes)}"
    verified = f"Export verified: {found}; size and SHA-256 of each checked."
    if export.left_behind:
        verified += f" Not exported: {export.left_behind}."
    if export.final and export.found_nothing:
        verified += f" {results.NOTHING}"
    message = (
        verified
        if export.state == "verified"
        else f"Export failed (try {export.tries}): {export.reason}."
    )
    type_ = "ExportVerified" if export.state == "verified" else "ExportFailed"
    return TimelineEntry(
        id=f"status-{export.state}-{export.id}",
        at=ports.clock.now(),
        kind="status",
        type=type_,
        message=message,
    )
