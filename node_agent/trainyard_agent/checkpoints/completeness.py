"""Whether a file of a directory is missing of which another one speaks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from trainyard_agent.checkpoints.json_format import JSON_BYTES
from trainyard_agent.checkpoints.torn import Torn
from trainyard_agent.host.job_files import open_inside

_OF_RANK = re.compile(r"^(rng_state|random_states)_(\d{1,6})\.(?:pth|pkl)$")


def sealed(listed: Collection[PurePosixPath]) -> bool:
    """Whether the file is there that its library writes last."""
    return any(name.name in ("trainer_state.json", ".metadata") for name in listed)


def complete(root: Path, listed: Collection[PurePosixPath], ranks: int | None) -> None:
    """No file of a directory is missing that another one speaks of. Raises Torn, OSError."""
    by_directory: dict[PurePosixPath, set[str]] = {}
    for path in listed:
        by_directory.setdefault(path.parent, set()).add(path.name)
    for directory, names in by_directory.items():
        if "training_args.bin" in names and _is_trainers(directory):
            _needs(directory, names, "trainer_state.json")
        if any(name.endswith(".distcp") for name in names):
            _needs(directory, names, ".metadata")
        for name in names:
            if name.endswith(".index.json"):
                for shard in _shards(root, directory / name):
                    _needs(directory, names, shard)
        _all_ranks(directory, names, ranks)


def _is_trainers(directory: PurePosixPath) -> bool:
    """A checkpoint of Hugging Face's Trainer, and not a model that it saved at the end."""
    return re.fullmatch(r"checkpoint-\d+", directory.name) is not None


def _needs(directory: PurePosixPath, names: Collection[str], name: str) -> None:
    if name not in names:
        raise Torn(f"{directory / name} is missing")


def _shards(root: Path, index: PurePosixPath) -> set[str]:
    try:
        found = json.loads(_small(root, index))
        shards = found.get("weight_map", {}) if isinstance(found, dict) else {}
        return {str(shard) for shard in shards.values()} if isinstance(shards, dict) else set()
    except (ValueError, RecursionError) as error:
        raise Torn(f"{index} is cut off") from error


def _all_ranks(directory: PurePosixPath, names: Collection[str], ranks: int | None) -> None:
    """Where each rank writes a file of its own, none is missing."""
    kinds: dict[str, set[int]] = {}
    for name in names:
        if match := _OF_RANK.match(name):
            kinds.setdefault(match.group(1), set()).add(int(match.group(2)))
    for kind, numbers in kinds.items():
        wanted = set(range(max(max(numbers) + 1, ranks or 0)))
        if missing := sorted(wanted - numbers):
            raise Torn(f"{directory}: {kind} of rank {missing[0]} is missing")


def _small(root: Path, name: PurePosixPath) -> bytes:
    with open_inside(root, root / name) as stream:
        return stream.read(JSON_BYTES)
