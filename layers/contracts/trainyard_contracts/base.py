"""The two model bases: strict for what people send us, lenient for what other processes report."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

#: SageMaker's own pattern for cluster and instance group names (botocore: ClusterName).
NAME_PATTERN = r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$"
#: A relative path of plain segments: no leading slash, no `..`, no control characters.
RELATIVE_PATH_PATTERN = r"^(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_][A-Za-z0-9_.=+@-]*(/[A-Za-z0-9_][A-Za-z0-9_.=+@-]*)*$"

Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=63, pattern=NAME_PATTERN),
    Field(description="1 to 63 letters, digits and inner hyphens; no underscore"),
]
# pydantic's Rust regex engine has no look-around, so the path rule is a validator in specs.py.
RunId = Annotated[str, StringConstraints(pattern=r"^run-[0-9a-hjkmnp-tv-z]{26}$")]
Sha256Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Strict(BaseModel):
    """A model of something a person or client sends: camelCase on the wire, unknown fields refused.

    Types are as JSON has them: "1" and true are no numbers, and a spec that says so is a mistake somewhere.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)


class Lenient(BaseModel):
    """A model of something another version of Trainyard may have written: unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
