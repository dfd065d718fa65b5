"""Checks byte by byte what a run exported: it downloads every object."""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass, field
from typing import Any

from trainyard_contracts.files import ExportManifest
from trainyard_contracts.places import EXPORT_MANIFEST


@dataclass
class Exported:
    """The objects under a run's export prefix.

    `wrong` says what does not agree with the manifest; empty = verified.
    """

    objects: int = 0
    size: int = 0
    wrong: list[str] = field(default_factory=list)
    final: dict[str, bytes] = field(default_factory=dict)
    last_step: int | None = None


def verify_export(s3: Any, bucket: str, run_id: str, objects_prefix: str = "") -> Exported:
    """Download every object of the run's export and compare size and SHA-256 with the manifest.

    Objects that the manifest does not name are reported too.
    """
    prefix = f"{objects_prefix or f'runs/{run_id}'}/export/"
    found = Exported()
    listed = {
        item["Key"].removeprefix(prefix): item["Size"]
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for item in page.get("Contents", [])
    }
    if EXPORT_MANIFEST not in listed:
        found.wrong.append(f"s3://{bucket}/{prefix}{EXPORT_MANIFEST} is missing")
        return found
    manifest = ExportManifest.model_validate_json(
        s3.get_object(Bucket=bucket, Key=prefix + EXPORT_MANIFEST)["Body"].read()
    )
    found.last_step = manifest.last_step
    if manifest.run_id != run_id:
        found.wrong.append(f"the manifest is of {manifest.run_id}")
    for item in manifest.objects:
        if item.key not in listed:
            found.wrong.append(f"{item.key} is missing")
            continue
        body = s3.get_object(Bucket=bucket, Key=prefix + item.key)["Body"].read()
        if len(body) != item.bytes or hashlib.sha256(body).hexdigest() != item.sha256:
            found.wrong.append(f"{item.key} is not what the manifest says")
        found.objects += 1
        found.size += len(body)
        if item.key.startswith("final/"):
            found.final[item.key] = body
    found.wrong += [
        f"{key} is not in the manifest"
        for key in listed.keys() - {EXPORT_MANIFEST} - {item.key for item in manifest.objects}
    ]
    if not manifest.objects:
        found.wrong.append("the manifest is empty")
    return found


def weights(final: dict[str, bytes]) -> dict[str, bytes]:
    """Name and shape -> raw bytes of every tensor of the final model: equal means every bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would warn that numpy is not here
        import torch

        torch.tensor(0)

    found: dict[str, bytes] = {}
    for key, body in sorted(final.items()):
        if key.endswith((".pt", ".pth")):
            _collect(key, torch.load(io.BytesIO(body), weights_only=True), found)
    return found


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Names of tensors that differ in a bit or exist on one side only."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _collect(name: str, value: Any, found: dict[str, bytes]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        found[f"{name} {tuple(value.shape)} {value.dtype}"] = bytes(
            value.contiguous().flatten().view(torch.uint8).tolist()
        )
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(f"{name}/{key}", item, found)
