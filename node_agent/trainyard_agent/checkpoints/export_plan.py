"""What an export copies of checkpoints: verified first, file by file."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.checkpoints import best
from trainyard_agent.checkpoints.choosing import chosen
from trainyard_agent.checkpoints.presence import absent
from trainyard_agent.checkpoints.verifying import NotWhole, verify
from trainyard_agent.host.digests import Digest, digest
from trainyard_contracts import places

log = logging.getLogger(__name__)


class ExportFailed(Exception):
    """The export cannot be completed; the text says what failed."""


@dataclass(frozen=True)
class Item:
    """One file to upload; `key` is relative to the export's prefix.

    Files of a `group` are exported together or not at all.
    """

    key: str
    path: Path
    known: Digest
    group: str


@dataclass(frozen=True)
class Plan:
    """What is verified before it is exported. `steps`: of each checkpoint, by its group.

    `lost`: how many vanished meanwhile.
    """

    items: tuple[Item, ...]
    steps: Mapping[str, int]
    final_model: bool
    lost: int = 0

    def without(self, gone: Collection[str]) -> Plan:
        items = tuple(item for item in self.items if item.group not in gone)
        steps = {group: step for group, step in self.steps.items() if group not in gone}
        return Plan(items, steps, self.final_model, self.lost + len(gone))

    @property
    def last_step(self) -> int | None:
        return max(self.steps.values(), default=None)


def make_plan(
    root: Path,
    run_id: str,
    checkpoint_directory: str,
    selection: str,
    *,
    without_unreadable: bool = False,
) -> Plan:
    """Read and verify what is to be exported (blocks).

    Raises ExportFailed, and OSError where something cannot be read just now. `without_unreadable`:
    checkpoints that cannot be read are left out, as if they were not whole.
    """
    items: list[Item] = []
    steps: dict[str, int] = {}
    lost = 0
    done: set[str] = set()
    wanted = best.names(root) if selection == "last" else frozenset()
    for path, group, kind in chosen(root, checkpoint_directory, selection):
        if (kind in done and path.name not in wanted) or group in steps:
            done.add(kind)
            continue
        try:
            manifest, digests = verify(path, run_id)
            items.extend(_items(group, path, digests))
        except (NotWhole, OSError) as error:
            pruned = absent(path)  # newer ones are there
            lost += pruned
            if isinstance(error, OSError) and not pruned and not without_unreadable:
                raise
            log.warning("%s: checkpoint %s is not exported: %s", run_id, path.name, error)
            continue
        steps[group] = manifest.step
        if selection == "last":
            done.add(kind)
    final = root / places.FINAL
    if final.is_dir():
        try:
            items.extend(_items(places.FINAL, final, verify(final, run_id)[1]))
        except NotWhole as error:
            raise ExportFailed(f"the final model does not verify: {error}") from error
    return Plan(tuple(items), steps, final.is_dir(), lost)


def _items(group: str, directory: Path, digests: dict[str, Digest]) -> list[Item]:
    """The files of a verified checkpoint and its manifest, which goes last here, too."""
    found = [
        Item(f"{group}/{name}", directory / name, known, group) for name, known in digests.items()
    ]
    manifest = directory / places.CHECKPOINT_MANIFEST
    return [
        *found,
        Item(
            f"{group}/{places.CHECKPOINT_MANIFEST}",
            manifest,
            digest(manifest, below=directory.parent),
            group,
        ),
    ]
