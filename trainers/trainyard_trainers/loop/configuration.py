"""The configuration lies in every checkpoint, so that a run does not resume with another one
unnoticed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.config import ConfigError
from ..common.meaning import meanings

#: In a checkpoint and in the final model: keys and values, as `--config` takes them.
NAME = "configuration.json"


def shaping(config: Any) -> dict[str, Any]:
    """Keys and values that shape what is trained, in what JSON knows: where files lie, or what is
    printed, is no part of a model.
    """
    known = meanings(type(config))
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            found[field.name] = shaping(value)
        elif field.name not in known or not known[field.name].free:
            found[field.name] = json.loads(json.dumps(value, default=str))
    return found


def content(config: Any) -> bytes:
    """What lies in a checkpoint."""
    return (json.dumps(shaping(config), indent=1, sort_keys=True) + "\n").encode()


def differences(config: Any, saved: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Key -> (the checkpoint's value, this run's), where they differ and may not.

    A key that the checkpoint lacks is younger than the program that wrote it, and its default is
    what that program did.
    """
    return dict(_differences(shaping(config), saved, ""))


def _differences(
    present: Mapping[str, Any], saved: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, now in present.items():
        before = saved.get(name, now)
        if isinstance(now, Mapping) and isinstance(before, Mapping):
            yield from _differences(now, before, f"{prefix}{name}.")
        elif now != before:
            yield prefix + name, (before, now)


def check(config: Any, checkpoint: Path, *, accept: bool) -> str:
    """What changed since the checkpoint was written, for people; "" if nothing did.

    Raises ConfigError, which names each key, unless the change is accepted.
    """
    try:
        saved = json.loads((checkpoint / NAME).read_bytes())
    except FileNotFoundError:  # written before configurations were kept
        return ""
    if not isinstance(saved, dict):
        raise ValueError(f"{NAME} must hold keys and values")
    changed = "; ".join(
        f"{key}: {checkpoint.name} was trained with {before!r}, this run has {now!r}"
        for key, (before, now) in differences(config, saved).items()
    )
    if changed and not accept:
        raise ConfigError(
            f"{changed}; resume with the same, or add --changed-configuration accept to go on with "
            "what this run has"
        )
    return changed
