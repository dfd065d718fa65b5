"""What a run's program reads: where it comes from, and where the program finds it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from . import spec_rules
from .base import NAME_PATTERN, RUN_ID, Strict, judged, matching, relative_path, rule

_PREFIX = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=+@-]+)*/?"
_WORDS = (
    "s3://BUCKET/PREFIX/, of letters, digits and _ . = + @ - between the slashes, such as "
    "s3://my-corpus/tokens/v1/"
)
#: Below the mount path of the shared filesystem: where Trainyard keeps what is its own.
OURS = "trainyard"


class S3Prefix(NamedTuple):
    """Objects of a bucket; `prefix` ends with a slash, '' is all of the bucket."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, source: str) -> S3Prefix:
        bucket, _, prefix = source.removeprefix("s3://").partition("/")
        prefix = prefix.rstrip("/")
        return cls(bucket, f"{prefix}/" if prefix else "")

    def holds(self, other: S3Prefix) -> bool:
        return self.bucket == other.bucket and other.prefix.startswith(self.prefix)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def _straight(source: str) -> str:
    named = source.startswith(("s3://", "run:"))
    if named and {".", ".."} & set(source.split("/")):
        raise ValueError("must not contain '.' or '..' as a part")
    return source


def _place(path: str) -> str:
    if not path.startswith("/"):
        return relative_path(path)
    if problem := spec_rules.climbing(path):
        raise ValueError(problem)
    return path


#: A prefix of a bucket that nodes may read.
S3Source = Annotated[
    str, matching(rf"^{_PREFIX}$", f"must be {_WORDS}", max_length=512), judged(_straight)
]


#: What another run exported, all of it or what lies below a path there. In the chain of a schedule
#: a run has its name there; RunSpec wants an id, which its `after` must name.
_OUTPUTS = rf"run:({RUN_ID}|{NAME_PATTERN.strip('^$')})/outputs(/[A-Za-z0-9_.=+@-]+)*/?"


def is_s3(source: str) -> bool:
    return source.startswith("s3://")


class RunOutputs(NamedTuple):
    """What a run exported; `path` is below its export, '' is all of it."""

    run_id: str
    path: str

    @classmethod
    def of(cls, source: str) -> RunOutputs | None:
        """None where the source is something else."""
        if not source.startswith("run:"):
            return None
        run_id, _, path = source.removeprefix("run:").partition("/outputs")
        return cls(run_id, path.strip("/"))

    def source(self) -> str:
        """As a spec names it."""
        return f"run:{self.run_id}/outputs" + (f"/{self.path}" if self.path else "")

    def below(self, export_prefix: str) -> str:
        """Where the objects lie; ends with a slash, as `export_prefix` does."""
        return f"{export_prefix}{self.path}/" if self.path else export_prefix


class InputSpec(Strict):
    """Data that are there before the program starts, at each attempt."""

    source: Annotated[
        str,
        matching(
            rf"^({_PREFIX}|{_OUTPUTS}|{NAME_PATTERN.strip('^$')})$",
            f"must be {_WORDS}; or the name of data that 'trainyard data upload DIRECTORY NAME' "
            "brought up; or run:RUN/outputs of a run that 'after' names",
            max_length=512,
        ),
        judged(_straight),
    ] = Field(
        description="s3://BUCKET/PREFIX/ that the cluster's jobInputs or s3Mounts hold; or the "
        "name of data that were uploaded (trainyard data upload DIRECTORY NAME), as they are at "
        "the submission; or run:RUN/outputs, what a run of 'after' exported, or "
        "run:RUN/outputs/PATH of it"
    )
    path: Annotated[str, StringConstraints(max_length=256), judged(_place)] = Field(
        description="where the program finds them: relative to its working directory, of which "
        "the run has a copy of its own; or absolute, below the cluster's shared filesystem, where "
        "all runs that name the same share one copy"
    )
    mode: Literal["copy", "mount"] = Field(
        default="copy",
        description="copy: once, to the shared filesystem, before the first attempt; mount: the "
        "objects themselves, read-only, where the cluster's s3Mounts have them",
    )

    @rule
    def _mountable(self) -> InputSpec:
        if self.mode == "mount" and not is_s3(self.source):
            raise ValueError(
                "mode: data that were uploaded are copied, as are outputs of runs; use mode 'copy'"
            )
        return self


def meeting(inputs: Sequence[InputSpec], files: Iterable[str]) -> str | None:
    """Refuse two things at one path, or one in the other; `files` are those of the job."""
    taken = [(f"job.files '{name}'", name) for name in files]
    for number, one in enumerate(inputs):
        for what, path in taken:
            if path == one.path or _below(path, one.path) or _below(one.path, path):
                return f"inputs.{number}.path: '{one.path}' meets {what}; give it a path of its own"
        taken.append((f"inputs.{number} '{one.path}'", one.path))
    return None


def _below(path: str, above: str) -> bool:
    return path.startswith(above + "/")


def misplaced(path: str, mount_path: str) -> str | None:
    """Refuse an absolute path that is not below the shared filesystem, or is Trainyard's own."""
    if not path.startswith("/"):
        return None
    if not _below(path, mount_path):
        return (
            f"'{path}' is not below '{mount_path}', the cluster's shared filesystem; give a path "
            "below it, or one relative to the working directory"
        )
    own = f"{mount_path}/{OURS}"
    if path == own or _below(path, own):
        return f"'{path}' is where Trainyard keeps its runs; give another path"
    return None


_TOKEN = re.compile(r"[=:,\s]")


def names_path(text: str, mount_path: str) -> bool:
    """Whether an argument or a variable names something below the mount path."""
    return any(part == mount_path or _below(part, mount_path) for part in _TOKEN.split(text))
