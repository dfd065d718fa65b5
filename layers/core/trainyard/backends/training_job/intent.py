"""What a training job is made of: a cluster's spec, the program, and what the deployment adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from trainyard_contracts.training_job import TrainingJobClusterSpec

#: `logging.INFO`, as the SDK has it.
LOG_LEVEL = 20


@dataclass(frozen=True)
class Program:
    """A file in an archive (sourcedir.tar.gz) that lies in S3."""

    entry_point: str
    source_uri: str
    log_level: int = LOG_LEVEL


@dataclass(frozen=True)
class Intent:
    """One training job as it is wanted; `output_uri` is a prefix, below which AWS adds the name."""

    spec: TrainingJobClusterSpec
    program: Program
    job_name: str
    region: str
    role_arn: str
    output_uri: str
    #: What the container starts in the place of its image's own program.
    entrypoint: Sequence[str] = ()
    hyperparameters: Mapping[str, JsonValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
