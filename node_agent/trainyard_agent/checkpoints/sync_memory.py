"""What one pass of a sync is about, and what it knows for the next one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_agent.checkpoints.own_files import Submission
from trainyard_agent.host.digests import Digest
from trainyard_contracts.sync_manifest import SyncedObject, SyncLatest, SyncManifest


class Superseded(Exception):
    """A newer attempt of the run is there, and this one's files count no more."""


class Changed(Exception):
    """The file changed while it was read or sent."""


@dataclass(frozen=True)
class Subject:
    """What is synced: the directory of a run while this attempt of it is the newest."""

    run_id: str
    attempt: int
    root: Path
    checkpoint_directory: str
    checkpoints: bool = True


@dataclass
class Memory:
    """What one pass knows for the next one. If it is lost, everything is read once more."""

    there: set[str] | None = None
    """Names of all objects and lists in S3; None: nobody looked yet."""
    number: int = 0
    """The highest that a list has. A pass that died may have written one that is not in force."""
    listed: int = 0
    sha256: str = ""
    manifest: SyncManifest | None = None
    """The list that is in force, its number and its hash."""
    groups: dict[str, list[SyncedObject]] = field(default_factory=dict)
    digests: dict[str, tuple[tuple[int, int], Digest]] = field(default_factory=dict)
    brought: dict[str, tuple[tuple[int, int], bool]] = field(default_factory=dict)
    garbage: dict[str, float] = field(default_factory=dict)
    """What is on no list, and since when."""

    submission: Submission = field(default_factory=Submission)
    """What the submission brought; it never changes, and may be long."""

    def take(self, submission: Submission) -> None:
        self.submission = submission

    def keep(self, groups: dict[str, list[SyncedObject]]) -> None:
        """These checkpoints are whole in S3."""
        self.groups = groups


@dataclass(frozen=True)
class Done:
    """`undeleted`: why what nobody needs is still there."""

    latest: SyncLatest
    sent: int
    undeleted: str = ""


def objects_of(manifest: SyncManifest | None) -> Iterable[SyncedObject]:
    return manifest.objects if manifest is not None else []
