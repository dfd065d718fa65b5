"""The names by which others import what one process writes and another reads: they stay."""

from .agent_config import AgentConfig
from .bundle_parts import (
    BundleCode,
    BundleGit,
    BundleImage,
    BundleInput,
    BundleStart,
    KeptCode,
    SyncOrder,
)
from .checkpoint_manifest import CheckpointManifest, ManifestFile, WatchedSource
from .cluster_file import ClusterFile, WorkerGroup
from .export_manifest import ExportedObject, ExportManifest, KeptLink
from .job_bundle import JobBundle
from .kept_logs import KeptRankLog, KeptRankLogs, LogMark, LogTimes
from .launch_report import ERROR_CHARACTERS, TRACEBACK_CHARACTERS, LaunchReport
from .progress_file import LATEST, Progress
from .sync_manifest import SyncedObject, SyncLatest, SyncManifest

__all__ = [
    "ERROR_CHARACTERS",
    "LATEST",
    "TRACEBACK_CHARACTERS",
    "AgentConfig",
    "BundleCode",
    "BundleGit",
    "BundleImage",
    "BundleInput",
    "BundleStart",
    "CheckpointManifest",
    "ClusterFile",
    "ExportManifest",
    "ExportedObject",
    "JobBundle",
    "KeptCode",
    "KeptLink",
    "KeptRankLog",
    "KeptRankLogs",
    "LaunchReport",
    "LogMark",
    "LogTimes",
    "ManifestFile",
    "Progress",
    "SyncLatest",
    "SyncManifest",
    "SyncOrder",
    "SyncedObject",
    "WatchedSource",
    "WorkerGroup",
]
