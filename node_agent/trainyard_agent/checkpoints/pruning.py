"""Which checkpoints are removed, and how."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from trainyard_agent.checkpoints.names import order
from trainyard_agent.checkpoints.presence import absent

log = logging.getLogger(__name__)


def to_prune(known: Mapping[str, str], keep: int) -> list[str]:
    """Paths of the whole checkpoints beyond the `keep` newest; never the last whole one.

    Each directory has its own. `known`: path -> status.
    """
    whole: dict[str, list[str]] = {}
    for path in sorted(known, key=order, reverse=True):
        if known[path] == "whole":
            whole.setdefault(path.rpartition("/")[0], []).append(path)
    return [path for found in whole.values() for path in found[max(1, keep) :]]


def removed(root: Path, missing: Collection[str], present: Collection[str]) -> list[str]:
    """Those of the missing checkpoints that were removed, oldest first.

    The trainer and the agent prune, and always leave a newer checkpoint. If there is none at all,
    the shared filesystem may be away (an empty mount point is listed without an error): then we
    know nothing.
    """
    newest: dict[str, tuple[int, int]] = {}
    for path in present:
        directory = path.rpartition("/")[0]
        newest[directory] = max(order(path), newest.get(directory, (-1, -1)))

    def is_older(path: str) -> bool:
        return order(path) < newest.get(path.rpartition("/")[0], (-1, -1))

    return sorted((path for path in missing if is_older(path) and absent(root / path)), key=order)


def remove(path: Path) -> bool:
    """Remove a checkpoint; it is renamed first, so that no reader finds half of it.

    Returns False if it cannot be renamed or is not there. If the agent dies in between, the next
    attempt's trainer removes what is left under the new name.
    """
    aside = path.with_name(f".old-by-agent-{path.name}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True
