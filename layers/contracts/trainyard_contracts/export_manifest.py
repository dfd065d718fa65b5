"""What an export copied, and what S3 holds of it."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from .base import Lenient, Sha256Hex


class ExportedObject(Lenient):
    """One verified object of an export; `key` is relative to the export's prefix."""

    key: str
    bytes: int = Field(ge=0)
    sha256: Sha256Hex
    checksum: str = Field(
        default="",
        description=(
            "what S3 shows: base64, of the parts' hashes with '-<parts>' for a file that went "
            "up in parts; '' = sha256's"
        ),
    )


class KeptLink(Lenient):
    """A symbolic link of the program's to something in the same directory as it."""

    key: str = Field(description="as a file there would have it")
    target: str = Field(description="relative to the link")


class ExportManifest(Lenient):
    """export-manifest.json, written last, after HeadObject verified every object."""

    schema_name: Literal["trainyard.export.v1"] = Field(
        default="trainyard.export.v1", alias="schema"
    )
    run_id: str
    created_at: datetime
    objects: list[ExportedObject]
    links: list[KeptLink] = Field(default_factory=list)
    last_step: int | None = Field(
        default=None, description="step of the newest whole checkpoint exported"
    )
    final_model: bool = Field(
        default=False, description="the run's final/ directory is among the objects"
    )
    output_files: int = Field(
        default=0, ge=0, description="objects from the run's output directory"
    )
    output_left_out: int = Field(
        default=0, ge=0, description="files of the output directory that are not among the objects"
    )
    working_files: int = Field(
        default=0,
        ge=0,
        description="objects from the working directory, and from beside it in the run's directory",
    )
    working_left_out: int = Field(
        default=0,
        ge=0,
        description="files of these directories that are not among the objects",
    )
    left_out_bytes: int = Field(
        default=0, ge=0, description="size of all that was left out, as far as it is known"
    )
