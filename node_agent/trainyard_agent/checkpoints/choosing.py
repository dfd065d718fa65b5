"""Which checkpoints of a run are exported or synced, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainyard_agent.checkpoints.kept import stores
from trainyard_agent.checkpoints.names import listing, step_of
from trainyard_contracts import places


def chosen(
    root: Path, checkpoint_directory: str, selection: str
) -> Iterator[tuple[Path, str, str]]:
    """Checkpoints to export, newest first, each with its group.

    Of those of one kind (the third) 'last' means the first that is whole. Of copies the one of the
    highest step goes along with the newest, which may be of an attempt that began anew. Raises
    OSError.
    """
    if selection == "none":
        return
    for path in listing(root / checkpoint_directory):
        yield path, f"{places.CHECKPOINTS}/{path.name}", ""
    for store in stores(root):
        copies = listing(root / store)
        for path in copies:
            yield path, f"{store}/{path.name}", store
        for path in sorted(copies, key=lambda one: step_of(one.name), reverse=True):
            if selection == "last":
                yield path, f"{store}/{path.name}", f"{store} by step"
