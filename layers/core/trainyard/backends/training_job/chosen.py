"""Which objects of a run's directory in S3 are exported: whole checkpoints, model, results. Pure.

What a checkpoint's manifest says of a file must hold of its object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainyard_contracts import places
from trainyard_contracts.files import CheckpointManifest

Manifests = Mapping[str, CheckpointManifest]


@dataclass(frozen=True)
class Chosen:
    """`files`: sizes by path; `hashes`: what the SHA-256 of some must be; `steps` by checkpoint."""

    files: Mapping[str, int]
    hashes: Mapping[str, str]
    steps: Mapping[str, int]
    final_model: bool

    @property
    def last_step(self) -> int | None:
        return max(self.steps.values(), default=None)

    def count(self, part: str) -> int:
        """How many of them lie below a directory of the run's."""
        return sum(path.startswith(f"{part}/") for path in self.files)


def groups(files: Mapping[str, int]) -> list[str]:
    """Directories with a manifest: the final model, and checkpoints, the newest first."""
    found = [
        path.rpartition("/")[0]
        for path in files
        if path.rpartition("/")[2] == places.CHECKPOINT_MANIFEST
    ]
    mine = [group for group in found if group == places.FINAL or _age(group) is not None]
    return sorted(mine, key=lambda group: _age(group) or (0, 0), reverse=True)


def _series(group: str) -> str:
    """Where a checkpoint lies beside others of its kind: the program's own have one each."""
    return group.rpartition("/")[0]


def choose(files: Mapping[str, int], manifests: Manifests, selection: str) -> Chosen:
    """`selection` is export.checkpoints: none, last or all."""
    whole = [
        group
        for group in groups(files)
        if group in manifests and _is_whole(group, files, manifests[group])
    ]
    checkpoints = [group for group in whole if group != places.FINAL]
    newest = list({_series(group): group for group in reversed(checkpoints)}.values())
    kept = {"none": [], "last": newest}.get(selection, checkpoints)
    final = [places.FINAL] if places.FINAL in whole else []
    exported = [*kept, *final]
    hashes = {
        f"{group}/{file.path}": file.sha256 for group in exported for file in manifests[group].files
    }
    return Chosen(
        files=dict(_files(files, exported)),
        hashes=hashes,
        steps={group: manifests[group].step for group in kept},
        final_model=bool(final),
    )


def _files(files: Mapping[str, int], exported: list[str]) -> Iterator[tuple[str, int]]:
    """In this order manifests come after the files that they name."""
    own = (f"{places.OUTPUT}/", f"{places.WORK}/")
    last = []
    for path, size in files.items():
        group = next((one for one in exported if path.startswith(f"{one}/")), None)
        if group is not None and path == f"{group}/{places.CHECKPOINT_MANIFEST}":
            last.append((path, size))
        elif group is not None or path.startswith(own):
            yield path, size
    yield from last


def _is_whole(group: str, files: Mapping[str, int], manifest: CheckpointManifest) -> bool:
    return all(files.get(f"{group}/{file.path}") == file.bytes for file in manifest.files)


def _age(group: str) -> tuple[int, int] | None:
    """Step and attempt of a checkpoint; of a copy of a program's own, its number."""
    directory, _, name = group.rpartition("/")
    copy = places.SAVE_NAME.match(name)
    if directory.startswith(f"{places.WATCHED}/") and copy is not None:
        return int(copy.group(1)), 0
    known = places.CHECKPOINT_NAME.match(name)
    if directory != places.CHECKPOINTS or known is None:
        return None
    return int(known.group(1)), int(known.group(2))
