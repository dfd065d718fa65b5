"""How a program that knows nothing of Trainyard is understood: its checkpoints and its steps."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from typing_extensions import Self

from .base import RelativePath, Strict, accepted, judged, rule, told

#: A pattern of files has so many directories in it at most.
MOST_SEGMENTS = 8
_PRINTABLE = re.compile(r"^[^\x00-\x1f\x7f]{1,256}$")
#: A user's regular expression has so many characters at most.
MOST_REGEX = 500


def file_pattern(value: str) -> str:
    """Return `value` if it is a glob that stays inside its root. Raise ValueError otherwise."""
    segments = value.split("/")
    if not _PRINTABLE.match(value) or value.startswith("/") or {"", ".", ".."} & {*segments}:
        raise ValueError(
            "must be a name such as 'snapshot*.pt' or 'out/checkpoint-*', relative to the working "
            "or the output directory (no '..', no leading or trailing '/')"
        )
    if len(segments) > MOST_SEGMENTS:
        raise ValueError(f"has {len(segments)} directories in it; {MOST_SEGMENTS} are the most")
    return value


def line_pattern(value: str) -> str:
    """Return `value` if it is a regular expression that finds a step. Raise ValueError otherwise.

    What it costs to match is bounded where it is used: by time, in a process of its own.
    """
    try:
        groups = re.compile(value).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression of Python's: {error}") from error
    if "step" not in groups:
        raise ValueError(r"must name the step: a group such as (?P<step>\d+)")
    if unknown := sorted({*groups} - {"step", "loss"}):
        raise ValueError(f"has the group '{unknown[0]}'; only 'step' and 'loss' are read")
    return value


class WatchSpec(Strict):
    """Checkpoints that a program writes in its own way, which the agent looks for and copies.

    One file or directory that matches is one checkpoint.
    """

    pattern: str | list[str] = Field(
        description="names such as 'snapshot.pt' or 'checkpoint-*', one or several, relative to "
        "the working or the output directory; '*' is any part of a name, '**' any directories; a "
        "directory that matches is one checkpoint with all its files",
    )
    complete: Literal["auto", "rename", "stable-seconds", "marker-file"] = Field(
        default="auto",
        description="when one is complete. auto: files whose format proves it (torch.save's, "
        "safetensors, Hugging Face's directories) at once, all others after stableSeconds; rename: "
        "the program writes under another name and renames, so what has the name is complete, and "
        "is never written to again; stable-seconds: after that time without a change; marker-file: "
        "once 'marker' is there",
    )
    stable_seconds: float = Field(
        default=5, ge=1, le=3600, description="without a change, after which one is complete"
    )
    marker: str | None = Field(
        default=None,
        max_length=128,
        pattern=told(
            r"^[A-Za-z0-9_.{}=+@-]+$",
            "must be a file's name: letters, digits and _ . = + @ -, with {name} for its "
            "checkpoint's own",
        ),
        description="of complete: marker-file: a name such as '{name}.done', beside a file or in a "
        "directory; {name} is the checkpoint's own",
    )

    @field_validator("pattern", mode="before")
    @classmethod
    def _some(cls, value: object, info: ValidationInfo) -> object:
        # A union's own errors would name its members, which nobody wrote.
        given = value if isinstance(value, list) else [value]
        if not 1 <= len(given) <= 16 or not all(isinstance(one, str) for one in given):
            raise ValueError("must be a name such as 'snapshot.pt', or a list of 1 to 16 of them")
        for one in () if accepted(info) else given:
            file_pattern(str(one))
        return value

    @rule
    def _marked(self) -> Self:
        if (self.complete == "marker-file") != (self.marker is not None):
            raise ValueError(
                "marker: give it with complete 'marker-file', and with nothing else"
                if self.marker is not None
                else "complete: 'marker-file' needs 'marker', such as '{name}.done'"
            )
        if self.marker is not None and self.marker.replace("{name}", "x") in (".", ".."):
            raise ValueError("marker: must be a file's name, such as '{name}.done'")
        return self

    @property
    def patterns(self) -> list[str]:
        return [self.pattern] if isinstance(self.pattern, str) else self.pattern


class ProgressSource(Strict):
    """Where the steps of a program that reports none are read, instead of its log."""

    regex: Annotated[str, judged(line_pattern)] | None = Field(
        default=None,
        max_length=MOST_REGEX,
        description=r"of Python; matches a line of the log that says (?P<step>\d+), and perhaps "
        r"(?P<loss>\S+)",
    )
    tensorboard: RelativePath | None = Field(
        default=None,
        description="directory of TensorBoard's event files, in the working or output directory",
    )
    mlflow: RelativePath | None = Field(
        default=None,
        description="directory where MLflow keeps its files (mlruns), in the working or output "
        "directory",
    )
    wandb: RelativePath | None = Field(
        default=None,
        description="directory where Weights & Biases keeps its files (wandb), in the working or "
        "output directory",
    )

    @rule
    def _one(self) -> Self:
        given = (self.regex, self.tensorboard, self.mlflow, self.wandb)
        if sum(one is not None for one in given) != 1:
            raise ValueError("give one of 'regex', 'tensorboard', 'mlflow' and 'wandb'")
        return self


def progress_setting(value: object, info: ValidationInfo) -> object:
    """A union's own errors would name its members, which nobody wrote."""
    if isinstance(value, dict):
        extra: Literal["ignore"] | None = "ignore" if accepted(info) else None
        return ProgressSource.model_validate(value, extra=extra, context=info.context)
    if value in ("auto", "none") or isinstance(value, ProgressSource):
        return value
    raise ValueError(
        "must be 'auto', 'none', or one of 'regex', 'tensorboard', 'mlflow' and 'wandb'"
    )


ProgressSetting = Annotated[
    Literal["auto", "none"] | ProgressSource, BeforeValidator(progress_setting)
]
