"""The JSON schema of every class that crosses a process boundary, so that a diff shows changes."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter

from .agent_config import AgentConfig
from .bundle_parts import KeptCode
from .checkpoint_manifest import CheckpointManifest
from .cluster_file import ClusterFile
from .cluster_specs import BACKEND_EVENTS, ClusterSpec
from .curves import KeptCurves
from .events import AGENT_EVENTS
from .export_manifest import ExportManifest
from .filesystems import FilesystemSpec
from .job_bundle import JobBundle
from .kept_logs import KeptRankLogs, LogTimes
from .launch_report import LaunchReport
from .progress_file import Progress
from .specs import RunSpec
from .sync_manifest import SyncLatest, SyncManifest
from .trees import CompleteUpload, HeldParts, Tree
from .user_events import UserEvent

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILES: tuple[type[BaseModel], ...] = (
    CheckpointManifest, Progress, JobBundle, ExportManifest, AgentConfig, ClusterFile, LaunchReport,
    KeptCode, SyncManifest, SyncLatest, LogTimes, KeptRankLogs, Tree, CompleteUpload, HeldParts,
    KeptCurves,
)  # fmt: skip


def contract_classes() -> list[Any]:
    """Every top-level class or union of specs, events and files; parts are in their schemas."""
    sent = [*AGENT_EVENTS.values(), *BACKEND_EVENTS, UserEvent]
    return [RunSpec, ClusterSpec, FilesystemSpec, *sent, *FILES]


def schema_files() -> dict[str, str]:
    """File name -> content, ready to be written or compared."""
    found = {}
    for cls in contract_classes():
        schema = {
            "$schema": DIALECT,
            "$id": f"urn:trainyard:schema:{cls.__name__}:v1",
            **TypeAdapter(cls).json_schema(by_alias=True),
        }
        found[f"{cls.__name__}.v1.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return found
