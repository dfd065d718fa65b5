"""Ids and names that arrive in paths: what cannot exist is not found, and nobody is asked."""

from __future__ import annotations

import re
from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Header, Path

from trainyard.app.runs.find_run import LATEST, find_run
from trainyard.domain.errors import (
    ApprovalNotFound,
    ArrayNotFound,
    BudgetNotFound,
    ClusterNotFound,
    FieldError,
    FilesystemNotFound,
    InvalidRequest,
    MethodNotAllowed,
    NodeNotFound,
    ScheduleNotFound,
    UploadNotFound,
    WebhookNotFound,
)
from trainyard.ports import Ports
from trainyard_contracts.base import NAME_PATTERN, told

RunPath = Annotated[
    str,
    Path(
        alias="runId",
        description="run-<ulid>; also the beginning of one, or a name, where it means one run; to "
        "read, also latest, the newest",
    ),
]
ArrayPath = Annotated[str, Path(alias="arrayId", description="arr-<ulid>")]
ApprovalPath = Annotated[str, Path(alias="approvalId", description="apr-<ulid>-<number>")]
ClusterPath = Annotated[str, Path(alias="clusterName")]
BudgetPath = Annotated[str, Path(alias="budgetName")]
SchedulePath = Annotated[str, Path(alias="scheduleName")]
WebhookPath = Annotated[str, Path(alias="webhookId", description="wh-<26 characters>")]
FilesystemPath = Annotated[str, Path(alias="filesystemName")]
InstancePath = Annotated[str, Path(alias="instanceId", description="i-<hex digits>")]
UploadPath = Annotated[str, Path(alias="uploadId", description="SHA-256 of the tree's document")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=128,
        pattern=told(r"^[\x20-\x7e]+$", "must be 1 to 128 printable ASCII characters"),
        description=(
            "the same key and body again answer with the same resource; another body is refused"
        ),
    ),
]

_APPROVAL = re.compile(r"apr-[0-9a-hjkmnp-tv-z]{26}-[1-9][0-9]{0,5}")
_WEBHOOK = re.compile(r"wh-[0-9a-z]{26}")
_ARRAY = re.compile(r"arr-[0-9a-hjkmnp-tv-z]{26}")
_INSTANCE = re.compile(r"i-[0-9a-f]{8}(?:[0-9a-f]{9})?")
_NAME = re.compile(NAME_PATTERN)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def run_id(ports: Ports, value: str) -> str:
    """The run that is meant, to read it. Raises RunNotFound, RunAmbiguous."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    return find_run(ports, value)


def run_to_change(ports: Ports, value: str) -> str:
    """The run that is meant, to change it. Raises also InvalidRequest for the newest.

    A call that is repeated after a lost answer could meet another run.
    """
    if value == LATEST:
        words = "a change needs the run's id: 'latest' may be another run when a call is repeated"
        raise InvalidRequest(
            f"runId: {words}",
            next_step="Read GET /v1/runs/latest, and use its id.",
            errors=[FieldError("runId", words)],
        )
    return find_run(ports, value)


def array_id(value: str) -> str:
    """Raises ArrayNotFound for a text that cannot be an array's id."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    if not _ARRAY.fullmatch(value):
        raise ArrayNotFound.of(value)
    return value


def approval_id(value: str) -> str:
    """Raises ApprovalNotFound for a text that cannot be an approval's id."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    if not _APPROVAL.fullmatch(value):
        raise ApprovalNotFound.of(value)
    return value


def webhook_id(value: str) -> str:
    """Raises WebhookNotFound for a text that cannot be a webhook's id."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    if not _WEBHOOK.fullmatch(value):
        raise WebhookNotFound.of(value)
    return value


def cluster_name(value: str) -> str:
    """Raises ClusterNotFound for a text that cannot be a cluster's name."""
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise ClusterNotFound.of(value)
    return value


def budget_name(value: str) -> str:
    """Raises BudgetNotFound for a text that cannot be a budget's name."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise BudgetNotFound.of(value)
    return value


def filesystem_name(value: str) -> str:
    """Raises FilesystemNotFound for a text that cannot be a filesystem's name."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise FilesystemNotFound.of(value)
    return value


def schedule_name(value: str) -> str:
    """Raises ScheduleNotFound for a text that cannot be a schedule's name."""
    if ":" in value:
        raise MethodNotAllowed(f"'{value[:100]}' names an action; actions are sent with POST.")
    if len(value) > 48 or not _NAME.fullmatch(value):
        raise ScheduleNotFound.of(value)
    return value


def instance_id(value: str) -> str:
    """Raises NodeNotFound for a text that cannot be an instance's id."""
    if not _INSTANCE.fullmatch(value):
        raise NodeNotFound.of(value)
    return value


def upload_id(value: str) -> str:
    """Raises UploadNotFound for a text that cannot be an upload's id."""
    if not _SHA256.fullmatch(value):
        raise UploadNotFound(f"'{value[:100]}' is not the id of an upload.")
    return value
