"""The JSON schema of every class that crosses a process boundary, so that a diff shows changes."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter

from . import curves, files, trees
from .cluster_specs import BACKEND_EVENTS, ClusterSpec
from .events import AGENT_EVENTS
from .filesystems import FilesystemSpec
from .specs import RunSpec
from .user_events import UserEvent

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILES: tuple[type[BaseModel], ...] = (
    files.CheckpointManifest, files.Progress, files.JobBundle, files.ExportManifest,
    files.AgentConfig, files.ClusterFile, files.LaunchReport, files.KeptCode, files.SyncManifest,
    files.SyncLatest, files.LogTimes, files.KeptRankLogs, trees.Tree, trees.CompleteUpload,
    trees.HeldParts, curves.KeptCurves,
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
