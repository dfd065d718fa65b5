"""From what a person has (a file, a dict, a class) to a spec that the API takes.

The directory that a run's spec names goes up first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from .client import Client
from .connection import Connection
from .problems import ApiProblem, InvalidInput
from .progress import Shown
from .spec_files import Kind, read_spec
from .upload.packing import Packed
from .upload.workdir import anchored, brought_up, packed_workdir, with_workdir

#: A spec as a file's path, as plain data, or as a class of trainyard_contracts.
Spec = str | Path | Mapping[str, Any] | BaseModel


@dataclass(frozen=True)
class Prepared:
    """A spec to send, and the directory that went up for it; `sent` packs were new."""

    spec: dict[str, Any]
    packed: Packed | None = None
    sent: int = 0


def plain_spec(given: Spec, kind: Kind) -> dict[str, Any]:
    """The spec as the API reads it. Raises InvalidInput."""
    if isinstance(given, (str, Path)):
        document = read_spec(str(given), kind)
        return anchored(document, str(given)) if kind == "run" else document
    if isinstance(given, BaseModel):
        # What was not given means the default of the stack, which may be another version.
        return given.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dict(given)


def prepared(client: Client, spec: Mapping[str, Any], *, dryrun: bool, shown: Shown) -> Prepared:
    """With the id of the upload in place of a directory; with `dryrun` nothing is sent.

    Raises InvalidInput and what the client raises.
    """
    check_image(client.connection, spec)
    packed, sent = packed_workdir(spec, shown=shown), 0
    if packed is None:
        return Prepared(dict(spec))
    if not dryrun:
        _check(client, with_workdir(spec, packed.id))
        packed, sent = brought_up(client, spec, packed, shown=shown)
    return Prepared(with_workdir(spec, packed.id), packed, sent)


def check_image(connection: Connection, spec: Mapping[str, Any]) -> None:
    """No cluster of the local cloud could ever run it, so nothing need go up to learn that.

    Raises InvalidInput.
    """
    job = spec.get("job")
    if isinstance(job, dict) and job.get("image") and connection.local is not None:
        raise InvalidInput(
            "The local cloud runs no containers",
            f"job.image: {job['image']}",
            "Leave it out here with --set job.image=null; the nodes' own Python then runs the "
            "program, with the packages of job.pythonEnvironment",
        )


def _check(client: Client, spec: Mapping[str, Any]) -> None:
    """What is wrong with the rest of the spec is known before hours of uploading."""
    try:
        if client.upload(spec["job"]["workdir"])["state"] == "Complete":
            return
    except ApiProblem as problem:
        if problem.status != 404:
            raise
    try:
        client.plan_run(spec)
    except ApiProblem as problem:
        if problem.code != "upload-incomplete":  # of a stack of an older version
            raise
