"""What AWS takes of a training job beside the spec: its name, program, hyperparameters, variables.

The numbers and patterns are those of CreateTrainingJob in botocore's model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainyard.backends.training_job.environment import environment
from trainyard.backends.training_job.hyperparameters import encoded, own
from trainyard.backends.training_job.intent import Intent
from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard_contracts.hyperparameters import LONGEST_NAME, LONGEST_VALUE, MOST_HYPERPARAMETERS
from trainyard_contracts.training_job_words import PLAIN, ROLE_ARN_PATTERN, S3_URI_PATTERN

#: Environment variables of a training job, Trainyard's own among them.
MOST_VARIABLES = 100
#: Characters of a variable's name, and of its value.
LONGEST_VARIABLE = 512
#: Tags of a training job, Trainyard's own among them.
MOST_TAGS = 50
_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_S3 = re.compile(S3_URI_PATTERN)
_ROLE = re.compile(ROLE_ARN_PATTERN)
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LINE = re.compile(f"{PLAIN}*")
_LONGEST_URI = 1024


def check(intent: Intent) -> None:
    """Raise errors.InvalidRequest that names every field that AWS would refuse."""
    found = [*_names(intent), *_program(intent), *_hyperparameters(intent), *_variables(intent)]
    if found:
        first, more = found[0], f" ({len(found) - 1} more)" if found[1:] else ""
        raise InvalidRequest(f"{first.field}: {first.message}{more}", errors=found)


def _names(intent: Intent) -> Iterator[FieldError]:
    if len(intent.job_name) > 63 or not _JOB_NAME.fullmatch(intent.job_name):
        yield FieldError(
            "name",
            f"'{intent.job_name[:100]}' must be letters, digits and inner hyphens, 1 to 63 of them",
        )
    role = intent.spec.role or intent.role_arn
    if not 20 <= len(role) <= 2048 or not _ROLE.fullmatch(role):
        yield FieldError(
            "role", "must be the ARN of a role, such as arn:aws:iam::123456789012:role/x"
        )
    if not _uri(intent.output_uri):
        yield FieldError("output", "must be s3://BUCKET/PREFIX of at most 1024 characters")
    if len({**intent.spec.tags, **intent.tags}) > MOST_TAGS:
        yield FieldError("tags", f"must be at most {MOST_TAGS}, with those of Trainyard")


def _uri(text: str) -> bool:
    return len(text) <= _LONGEST_URI and bool(_S3.fullmatch(text))


def _program(intent: Intent) -> Iterator[FieldError]:
    entry = intent.program.entry_point
    if not entry or entry.startswith("/") or ".." in entry.split("/"):
        yield FieldError("program.entryPoint", "must be a file in the archive, such as train.py")
    elif intent.spec.distribution.kind == "torchrun" and not entry.endswith(".py"):
        yield FieldError(
            "program.entryPoint", f"'{entry[:100]}' must be a Python file (.py): torchrun starts it"
        )
    if not _uri(intent.program.source_uri):
        yield FieldError(
            "program.source", "must be an archive in S3, such as s3://BUCKET/job/sourcedir.tar.gz"
        )


def _hyperparameters(intent: Intent) -> Iterator[FieldError]:
    ours = own(intent)
    for name, value in encoded(intent.hyperparameters).items():
        if name in ours:
            yield FieldError(f"hyperparameters.{name}", "is set by Trainyard; remove it")
        if len(name) > LONGEST_NAME or not _LINE.fullmatch(name):
            yield FieldError(
                f"hyperparameters.{name[:100]}",
                f"must be a name on one line, of at most {LONGEST_NAME} characters",
            )
        if len(value) > LONGEST_VALUE:
            yield _too_long(f"hyperparameters.{name[:100]}", len(value))
    for name, value in encoded(ours).items():
        if len(value) > LONGEST_VALUE:
            yield _too_long(name, len(value))
    total = len({**intent.hyperparameters, **ours})
    if total > MOST_HYPERPARAMETERS:
        yield FieldError(
            "hyperparameters",
            f"must be at most {MOST_HYPERPARAMETERS - len(ours)}: AWS takes "
            f"{MOST_HYPERPARAMETERS}, and {len(ours)} start the program",
        )


def _too_long(field: str, length: int) -> FieldError:
    return FieldError(
        field, f"has {length} characters as JSON, and AWS takes {LONGEST_VALUE}; put it into a file"
    )


def _variables(intent: Intent) -> Iterator[FieldError]:
    types = [group.instance_type for group in intent.spec.host_groups]
    given = environment(intent.environment, types)
    if len(given) > MOST_VARIABLES:
        most = MOST_VARIABLES - (len(given) - len(intent.environment))
        yield FieldError("environment", f"must be at most {most} variables here")
    for name, value in given.items():
        field = f"environment.{name[:100]}"
        if len(name) > LONGEST_VARIABLE or not _VARIABLE.fullmatch(name):
            yield FieldError(field, "must be named by letters, digits and _, no digit first")
        if len(value) > LONGEST_VARIABLE:
            yield FieldError(
                field,
                f"has {len(value)} characters; AWS takes {LONGEST_VARIABLE}: put it into a file",
            )
