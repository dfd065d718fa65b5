"""What a run's inputs are at its submission, and whether they are there, as far as we can see."""

from __future__ import annotations

from pydantic import ValidationError

from trainyard.app.runs.kept_trees import usable_code
from trainyard.domain.errors import BlobNotFound, FieldError, InvalidRequest
from trainyard.domain.records import Code
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.inputs import RunOutputs, S3Prefix, is_s3
from trainyard_contracts.specs import RunSpec
from trainyard_contracts.trees import NamedData


def check_inputs(ports: Ports, spec: RunSpec) -> dict[str, Code]:
    """The uploads that the names in `inputs` mean now.

    Raises InvalidRequest for what is not there, UploadIncomplete for what has expired.
    """
    found = {}
    for number, one in enumerate(spec.inputs):
        field = f"inputs.{number}.source"
        if is_s3(one.source):
            _check_objects(ports, S3Prefix.of(one.source), field)
        elif RunOutputs.of(one.source) is None:  # app/runs/after.py looks at those of runs
            found[one.source] = _named(ports, one.source, field)
    return found


def _check_objects(ports: Ports, source: S3Prefix, field: str) -> None:
    """What this stack may not see is left to the nodes, which say so before the job starts."""
    state = ports.sources.look(source)
    if state == "no-bucket":
        raise _wrong(field, f"there is no bucket '{source.bucket}'; correct the name")
    if state == "empty":
        raise _wrong(
            field, f"there is no object below {source}; give the prefix of what is to be read"
        )


def _named(ports: Ports, name: str, field: str) -> Code:
    try:
        known = NamedData.model_validate_json(ports.blobs.get(places.named_data_key(name)))
    except (BlobNotFound, ValidationError):
        raise _wrong(
            field,
            f"no data are named '{name}'; bring them up: trainyard data upload DIRECTORY {name}",
        ) from None
    again = f"bring them up again: trainyard data upload DIRECTORY {name}"
    return usable_code(ports, known.tree, field, again)[0]


def _wrong(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])
