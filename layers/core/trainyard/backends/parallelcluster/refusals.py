"""ParallelCluster's refusals in our errors, with its own words whole and the field of our spec."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainyard.backends.parallelcluster.answers import UpdateError, ValidationMessage
from trainyard.backends.parallelcluster.fields import field_of, field_of_update
from trainyard.domain import errors
from trainyard.domain.errors import FieldError
from trainyard_contracts.parallelcluster import ParallelClusterSpec

#: The version whose configuration and answers are known here.
VERSION = "3.16.1"
_SHOWN = 2000
_EXISTS = re.compile(r"\bCluster \S+ already exists")
#: Of an update that changes nothing.
_NO_CHANGES = "No changes found in your cluster configuration"
#: Of a parameter that could change if the compute fleet were stopped, in each of its wordings.
_STOP = "Stop the compute fleet"
_UNKNOWN = re.compile(r"\bCluster '?\S+ does not exist")
NO_STACK = (
    "Deploy ParallelCluster's API stack (AWS's template parallelcluster-api.yaml of version "
    f"{VERSION}) in this account and region, and give its address to Trainyard's stack."
)
_NOT_ALLOWED = (
    "Let Trainyard's functions call the API. Its own policy lets nobody but a role of its stack do "
    "so, unless that stack has CreateApiUserRole=false; else execute-api:Invoke is missing in the "
    "template's permissions."
)
_TOO_LATE = "The API's function has 30 seconds for everything. Ask again in a minute."


class Gone(errors.ClusterNotFound):
    """ParallelCluster knows no such cluster, or one of another major version only."""


class Invalid(errors.BackendRejected):
    """The configuration is refused. `findings` are ParallelCluster's own, at least one.

    What breaks its validators themselves (a subnet that is not there) is a sentence without any:
    that sentence is the finding then, of no type.
    """

    def __init__(
        self,
        detail: str,
        findings: Sequence[ValidationMessage],
        errors: Sequence[FieldError] = (),
        updates: Sequence[UpdateError] = (),
    ) -> None:
        super().__init__(detail, errors=errors)
        self.findings = list(findings)
        self.updates = list(updates)

    @property
    def needs_stop(self) -> bool:
        """Whether an update would be taken if the compute fleet were stopped."""
        return bool(self.updates) and all(_STOP in one.message for one in self.updates)

    def told_of(self, spec: ParallelClusterSpec) -> Invalid:
        """The same, each finding with the field of this spec that it is about."""
        named = [
            FieldError(field_of(spec, finding), finding.message)
            for finding in self.findings
            if finding.level == "ERROR"
        ]
        named += [FieldError(field_of_update(spec, one), one.message) for one in self.updates]
        return Invalid(self.detail, self.findings, named, self.updates)


class NoChanges(errors.BackendRejected):
    """The configuration is the one that the cluster has."""


@dataclass(frozen=True)
class Refused:
    """An answer that is not what was asked for; `doing` is the method and the path."""

    doing: str
    status: int
    body: bytes
    message: str
    findings: Sequence[ValidationMessage]
    updates: Sequence[UpdateError] = ()

    @classmethod
    def of(cls, doing: str, status: int, body: bytes) -> Refused:
        said = _document(body)
        found = said.get("configurationValidationErrors") or said.get("validationMessages") or []
        findings = [ValidationMessage.model_validate(one) for one in found if isinstance(one, dict)]
        message = str(said.get("message") or said.get("Message") or "")
        about = said.get("updateValidationErrors") or []
        updates = [UpdateError.model_validate(one) for one in about if isinstance(one, dict)]
        return cls(doing, status, body, message, findings, updates)

    @property
    def is_json(self) -> bool:
        return bool(_document(self.body))

    @property
    def text(self) -> str:
        words = self.message or self.body[:200].decode("utf-8", "replace")
        lines = [f"{one.type}: {one.message}" for one in self.findings if one.level == "ERROR"]
        lines += [f"{one.parameter}: {one.message}" for one in self.updates]
        whole = "\n".join([words, *lines])
        return f"ParallelCluster refused {self.doing} ({self.status}): {whole}"[:_SHOWN]


def refused(answer: Refused) -> errors.TrainyardError:
    """Our error for such an answer."""
    if not answer.is_json:
        return _not_its_own(answer)
    if answer.status == 404:
        return Gone(answer.text)
    if answer.status == 409:
        return errors.ConflictError(answer.text)
    if answer.status == 429:
        return errors.Throttled(answer.text)
    if answer.status in (401, 403):
        return errors.BackendRejected(answer.text, next_step=_not_allowed(answer))
    if answer.status == 400:
        return _bad_request(answer)
    return errors.RetryableError(answer.text)


def unreadable(answer: Refused, mistake: ValidationError) -> errors.TrainyardError:
    """An answer of a version whose forms are other ones."""
    fields = ", ".join(".".join(map(str, one["loc"])) or "(all)" for one in mistake.errors())
    return errors.BackendRejected(
        f"ParallelCluster answered {answer.doing} in a form that is not known here ({fields}): "
        f"{answer.body[:300].decode('utf-8', 'replace')}",
        next_step=f"The API stack must be of ParallelCluster {VERSION}. {NO_STACK}",
    )


def wrong_version(version: str) -> errors.BackendRejected | None:
    """Refuse a cluster or an API of another minor version: its configuration differs."""
    if version.split(".")[:2] == VERSION.split(".")[:2]:
        return None
    return errors.BackendRejected(
        f"ParallelCluster's API is of version {version}, and Trainyard speaks {VERSION}.",
        next_step=NO_STACK,
    )


def _bad_request(answer: Refused) -> errors.TrainyardError:
    if answer.message.startswith("Invalid cluster configuration"):
        said = ValidationMessage(level="ERROR", message=answer.message)
        return Invalid(answer.text, answer.findings or [said])
    if _EXISTS.search(answer.message):
        return errors.ClusterExists(answer.text)
    if _UNKNOWN.search(answer.message):
        return Gone(answer.text)
    if answer.updates:
        return Invalid(answer.text, [], updates=answer.updates)
    if _NO_CHANGES in answer.message:
        return NoChanges(answer.text)
    if "in progress" in answer.message.lower() or "IN_PROGRESS" in answer.message:
        return errors.ConflictError(answer.text)
    return Invalid(answer.text, [ValidationMessage(level="ERROR", message=answer.message)])


def _not_allowed(answer: Refused) -> str:
    """API Gateway says so of a path that it does not have, too."""
    return NO_STACK if "Missing Authentication Token" in answer.message else _NOT_ALLOWED


def _not_its_own(answer: Refused) -> errors.TrainyardError:
    """No JSON object: a gateway's page, or an address that is another program's."""
    if answer.status >= 500:
        return errors.RetryableError(answer.text, next_step=_TOO_LATE)
    return errors.BackendRejected(answer.text, next_step=NO_STACK)


def _document(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
