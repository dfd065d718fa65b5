"""Each minute: repair what lost events and crashes left behind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger

from trainyard.app.sweep.filesystems import UNKNOWN_FILESYSTEM
from trainyard.app.sweep.sweep import sweep
from trainyard.app.sweep.unknown_clusters import UNKNOWN_CLUSTER
from trainyard.wiring import ports

logger = Logger(service="sweep")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Log one line for each thing done, and none when nothing was to do.

    A failed duty rings, and so does a cluster or filesystem that no record accounts for.
    """
    done = sweep(ports())
    for swept in done:
        logger.info(f"{swept.action}: {swept.reason}", extra=asdict(swept))
    if unknown := sum(swept.action == UNKNOWN_CLUSTER for swept in done):
        ports().metrics.put("UnknownClusters", unknown)  # template.yaml, UnknownClustersAlarm
    if kept := sum(swept.action == UNKNOWN_FILESYSTEM for swept in done):
        ports().metrics.put("UnknownFilesystems", kept)  # UnknownFilesystemsAlarm there
    failed = [swept for swept in done if swept.action == "failed"]
    if failed:
        raise RuntimeError("; ".join(f"{swept.subject}: {swept.reason}" for swept in failed))
    return {"done": len(done)}
