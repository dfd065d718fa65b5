"""Looks at what is new or changed among a run's checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from trainyard_agent.checkpoints.findings import Finding, look, signature
from trainyard_agent.checkpoints.kept import stores
from trainyard_agent.checkpoints.names import listing
from trainyard_agent.checkpoints.presence import no_directory
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)
#: So many of the newest checkpoints are looked at again for changes (a corrupted file changes its
#: time or size).
RECHECKED = 2


def directories(root: Path, bundle: JobBundle) -> list[str]:
    """Where checkpoints of a run lie, relative to its directory: its own, and our copies.

    Raises OSError where that cannot be seen just now.
    """
    return [bundle.checkpoint_directory, *(stores(root) if bundle.checkpoint_watch else ())]


def scan(
    root: Path,
    directory: str,
    run_id: str,
    known: Mapping[str, tuple[str, str]],
    later: Collection[str] = (),
) -> tuple[list[Finding], set[str]]:
    """Look at what is new or changed; (findings, paths that exist).

    `known`: path -> (status, signature); `later`: not to look at now.
    """
    findings, present = [], set()
    try:
        listed = listing(root / directory)
    except OSError as error:
        log.warning("%s cannot be listed just now: %s", root / directory, error)
        return [], set()
    for position, path in enumerate(listed):
        name = str(path.relative_to(root))
        present.add(name)
        if name in later or (name in known and position >= RECHECKED):
            continue
        now = signature(path)
        if not now and no_directory(path):
            continue
        if name in known and known[name][1] == now:
            continue
        finding = look(path, name, run_id, now)
        if finding is not None:
            findings.append(finding)
    return findings, present


def scan_all(
    root: Path,
    bundle: JobBundle,
    run_id: str,
    known: Mapping[str, tuple[str, str]],
    later: Collection[str] = (),
) -> tuple[list[Finding], set[str]]:
    """The same for each directory of the run's."""
    findings: list[Finding] = []
    present: set[str] = set()
    try:
        where = directories(root, bundle)
    except OSError as error:
        log.warning("the copies in %s cannot be listed just now: %s", root, error)
        where = [bundle.checkpoint_directory]
    for directory in where:
        found, there = scan(root, directory, run_id, known, later)
        findings += found
        present |= there
    return findings, present
