"""One tree of errors, so that the HTTP edge and the state machines each map it in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class FieldError:
    """What was wrong with one field of a request, and what would be right."""

    field: str
    message: str


class TrainyardError(Exception):
    """`code` is closed (docs/reference/problems.md); `next_step` tells a person what to do."""

    code = "internal"
    title = "Something went wrong inside Trainyard"
    next_step = (
        "Try again; if it stays, look at the logs of the function and report it with the "
        "request id."
    )
    retryable = False

    def __init__(
        self, detail: str = "", *, next_step: str | None = None, errors: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        if next_step is not None:
            self.next_step = next_step
        self.errors = list(errors)


class InvalidRequest(TrainyardError):
    code = "invalid-request"
    title = "The request is not valid"
    next_step = "Correct the named fields and send the request again."


class BadPageToken(InvalidRequest):
    code = "invalid-page-token"
    title = "The page token does not belong to this query"
    next_step = (
        "Start again without nextToken, and keep the other parameters the same from page to page."
    )

    def __init__(
        self, detail: str = "", *, next_step: str | None = None, errors: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(detail, next_step=next_step, errors=errors)
        words = self.detail.removeprefix("nextToken: ")
        self.errors = self.errors or [FieldError("nextToken", f"{words}; start again without it")]


class BodyTooLarge(InvalidRequest):
    code = "body-too-large"
    title = "The body is too large"
    next_step = "Keep the body under 256 KiB; put large files into S3 or the shared filesystem."


class MethodNotAllowed(TrainyardError):
    code = "method-not-allowed"
    title = "This path does not know that method"
    next_step = "See docs/openapi.json for the methods of each path."


class Forbidden(TrainyardError):
    code = "not-allowed"
    title = "You may not do that"
    next_step = "Ask an admin of this stack; docs/people.md says who may what."


class NotFound(TrainyardError):
    """A person reads the title and then the detail: the detail only adds what was asked for.

    `given` is the name that nothing has, so that one like it can be found.
    """

    code = "not-found"
    title = "There is no such resource"
    next_step = "Check the path; docs/openapi.json lists every one."
    given = ""

    def of_name(self, given: str) -> Self:
        self.given = given
        return self

    def meaning(self, words: str) -> Self:
        """With what may have been meant, as the end of the sentence; '' if nobody knows."""
        self.detail = self.detail.rstrip(".") + (words or ".")
        return self


class RunNotFound(NotFound):
    code = "run-not-found"
    title = "There is no such run"
    next_step = "List runs with GET /v1/runs or 'trainyard run ls'."

    @classmethod
    def of(cls, run_id: str) -> RunNotFound:
        return cls(f"'{run_id[:100]}' is not the id of a run.")


class NoRuns(RunNotFound):
    title = "There is no run yet"
    next_step = "Submit one: POST /v1/runs, or 'trainyard run submit FILE'."


class AttemptNotFound(NotFound):
    title = "The run has no such attempt"
    next_step = "Look at its attempts with GET /v1/runs/{id} or 'trainyard run show RUN'."


class LogNotKept(NotFound):
    title = "That log was not kept"
    next_step = "Leave rank and node out: the job's log has what all ranks printed last."


class ClusterNotFound(NotFound):
    code = "cluster-not-found"
    title = "There is no such cluster"
    next_step = "List clusters with GET /v1/clusters or 'trainyard cluster ls'."

    @classmethod
    def of(cls, name: str) -> ClusterNotFound:
        return cls(f"'{name[:100]}' is not the name of a cluster.").of_name(name)


class NodeNotFound(NotFound):
    code = "node-not-found"
    title = "The cluster has no such node"
    next_step = (
        "List nodes with GET /v1/clusters/{name}/nodes or 'trainyard node ls CLUSTER'; "
        "an instance id changes when the node is replaced."
    )

    @classmethod
    def of(cls, instance_id: str) -> NodeNotFound:
        return cls(f"'{instance_id[:100]}' is not the instance id of one of its nodes.")


class ArrayNotFound(NotFound):
    title = "There is no such array"
    next_step = "List arrays with GET /v1/arrays or 'trainyard array ls'."

    @classmethod
    def of(cls, array_id: str) -> ArrayNotFound:
        return cls(f"'{array_id[:100]}' is not the id of an array.")


class ApprovalNotFound(NotFound):
    title = "There is no such approval"
    next_step = "List approvals with GET /v1/approvals or 'trainyard approval ls'."

    @classmethod
    def of(cls, approval_id: str) -> ApprovalNotFound:
        return cls(f"'{approval_id[:100]}' is not the id of an approval.")


class WebhookNotFound(NotFound):
    title = "There is no such webhook"
    next_step = "List webhooks with GET /v1/webhooks or 'trainyard webhook ls'."

    @classmethod
    def of(cls, webhook_id: str) -> WebhookNotFound:
        return cls(f"'{webhook_id[:100]}' is not the id of a webhook.")


class BudgetNotFound(NotFound):
    title = "There is no such budget"
    next_step = "List budgets with GET /v1/budgets or 'trainyard budget ls'."

    @classmethod
    def of(cls, name: str) -> BudgetNotFound:
        return cls(f"No budget is named '{name[:100]}'.")


class DeliveryNotFound(NotFound):
    title = "The webhook has no such delivery"
    next_step = (
        "Look at its newest ones with GET /v1/webhooks/{id} or 'trainyard webhook show WEBHOOK'; "
        "they are kept for 30 days."
    )

    @classmethod
    def of(cls, delivery_id: str) -> DeliveryNotFound:
        return cls(f"'{delivery_id[:100]}' is not the id of a delivery.")


class ScheduleNotFound(NotFound):
    title = "There is no such schedule"
    next_step = "List schedules with GET /v1/schedules or 'trainyard schedule ls'."

    @classmethod
    def of(cls, name: str) -> ScheduleNotFound:
        return cls(f"'{name[:100]}' is not the name of a schedule.").of_name(name)


class FilesystemNotFound(NotFound):
    code = "filesystem-not-found"
    title = "There is no such filesystem"
    next_step = "List filesystems with GET /v1/filesystems or 'trainyard filesystem ls'."

    @classmethod
    def of(cls, name: str) -> FilesystemNotFound:
        return cls(f"'{name[:100]}' is not the name of a filesystem.").of_name(name)


class UploadNotFound(NotFound):
    title = "There is no such upload"
    next_step = (
        "Upload the directory again: 'trainyard run submit FILE' does so (POST /v1/uploads)."
    )


class UploadIncomplete(TrainyardError):
    code = "upload-incomplete"
    title = "The upload that the run names is not complete"
    next_step = (
        "Upload the directory again (POST /v1/uploads until it is Complete; the CLI does so), "
        "then submit the run."
    )


class BlobNotFound(NotFound):
    title = "The data bucket has no such object"


class ConflictError(TrainyardError):
    """Someone else changed it in between.

    State machines repeat the step; clients read again and repeat.
    """

    code = "conflict"
    title = "It was changed by someone else in between"
    next_step = "Read it again and repeat."


class WrongState(ConflictError):
    """Nobody changed anything: what is asked for is not possible as things are."""

    code = "wrong-state"
    title = "That is not possible as things are now"
    next_step = (
        "Look at the run ('trainyard run show RUN') or the cluster ('trainyard cluster show "
        "CLUSTER')."
    )


class TooManyWebhooks(WrongState):
    title = "There are as many webhooks as there may be"
    next_step = (
        "Remove one that nobody needs: DELETE /v1/webhooks/{id}, or 'trainyard webhook ls' and "
        "'trainyard webhook rm WEBHOOK'."
    )

    @classmethod
    def of(cls, most: int) -> TooManyWebhooks:
        return cls(f"There are {most} already, those that are Disabled included.")


class BudgetUsedUp(WrongState):
    """A budget that runs share has too little left; it may have more later."""

    code = "budget-used-up"
    title = "A budget that it would share is used up"
    next_step = (
        "Wait until its period ends, or ask an admin to raise it: trainyard budget set BUDGET "
        "--max-usd USD."
    )


class PreconditionFailed(ConflictError):
    """If-Match named another state than the one that is there."""

    code = "precondition-failed"
    title = "It is not in the state that If-Match names any more"
    next_step = (
        "Read it again (GET), look whether the change is still right, and send it with the new "
        "ETag; or leave If-Match out."
    )


class RunAmbiguous(ConflictError):
    code = "run-ambiguous"
    title = "That means several runs"
    next_step = "Give the id of one of them, or more of its letters."


class IdempotencyConflict(ConflictError):
    code = "idempotency-conflict"
    title = "This Idempotency-Key was used with another body"
    next_step = "Use a new Idempotency-Key for a new request."


class RunFinished(ConflictError):
    code = "run-finished"
    title = "The run is over"
    next_step = "Submit a new run."


class RunActive(ConflictError):
    code = "run-active"
    title = "The run is still active"
    next_step = "Wait until it ends, or cancel it first."


class NotExported(ConflictError):
    code = "not-exported"
    title = "The run has no verified export"
    next_step = (
        "Export it with 'trainyard run export RUN' (POST /v1/runs/{id}:export), and ask again when "
        "it is verified."
    )


class ClusterExists(ConflictError):
    code = "cluster-exists"
    title = "A cluster of that name exists"
    next_step = "Choose another name, or delete the cluster first."


class ClusterNameTaken(ClusterExists):
    title = "Something else in this account has a cluster of that name"
    next_step = "Choose another name: Trainyard never touches a cluster that it did not create."


class ClusterInUse(ConflictError):
    code = "cluster-in-use"
    title = "The cluster is in use"
    next_step = "Wait for its runs to end, or cancel them first."


class ScheduleExists(ConflictError):
    title = "A schedule of that name exists"
    next_step = "Choose another name, or delete the schedule first: trainyard schedule rm NAME."


class FilesystemExists(ConflictError):
    code = "filesystem-exists"
    title = "A filesystem of that name exists"
    next_step = "Choose another name, or delete the filesystem first."


class FilesystemInUse(ConflictError):
    code = "filesystem-in-use"
    title = "The filesystem is in use"
    next_step = "Wait for its clusters and runs to end, or delete them first."


class FilesystemHoldsOnlyCopy(ConflictError):
    code = "filesystem-holds-only-copy"
    title = "The filesystem holds what is nowhere else"
    next_step = (
        "Copy what is needed, then give the rest up: trainyard filesystem delete NAME --discard "
        "REASON (discard=true and reason=...)."
    )


class BackendRejected(TrainyardError):
    code = "backend-rejected"
    title = "AWS refused the request"
    next_step = "Read AWS's reason in the detail, correct the specification, and submit it again."


class NoCapacity(BackendRejected):
    code = "no-capacity"
    title = "AWS has no capacity for these instances now"
    next_step = "Try again later, or ask for another instance type, zone or a training plan."


class SessionEncrypted(TrainyardError):
    code = "session-encrypted"
    title = "Session Manager is set to encrypt sessions with KMS, which Trainyard does not support"
    next_step = (
        "Turn KMS encryption off in the account's Session Manager preferences, then resume the run."
    )


class RecordUnreadable(TrainyardError):
    """A record of the table that this version cannot read: nothing is decided for it."""

    title = "This version of Trainyard cannot read a record"
    next_step = "Deploy the version that wrote it, or a newer one."


class CommandFailed(TrainyardError):
    """A command ran on the node and failed for a reason that a repetition does not cure."""

    title = "A command on the cluster's controller failed"


class AgentTooOld(CommandFailed):
    title = "The cluster's agent is too old for what the run needs"


class JobRefused(CommandFailed):
    """The cluster can never run this job; `problem` is the code of what is wrong."""

    title = "The cluster cannot run the job"

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


class RetryableError(TrainyardError):
    """The step may be repeated as it is: state machines retry it by this very name."""

    code = "internal"
    title = "A step could not be finished now"
    next_step = "Nothing: it is repeated."
    retryable = True


class NodeUnreachable(RetryableError):
    code = "node-unreachable"
    title = "The node could not be reached through Session Manager"
    next_step = (
        "Nodes are unreachable for a while after boot; try again in a minute, then look at the "
        "node's health."
    )


class CommandTimeout(NodeUnreachable):
    title = "The command on the node did not end in time"


class Throttled(RetryableError):
    code = "throttled"
    title = "AWS throttles our calls"
    next_step = "Try again in a few seconds."


#: Codes of problem+json answers (docs/reference/problems.md).
CODES: frozenset[str] = frozenset({
    "invalid-request", "invalid-page-token", "body-too-large", "not-found", "run-not-found",
    "cluster-not-found", "node-not-found", "idempotency-conflict", "conflict", "wrong-state",
    "run-finished", "run-active", "not-exported", "cluster-exists", "cluster-in-use",
    "backend-rejected", "no-capacity", "node-unreachable", "session-encrypted", "throttled",
    "method-not-allowed", "not-allowed", "upload-incomplete", "internal",
    "filesystem-not-found", "filesystem-exists", "filesystem-in-use",
    "filesystem-holds-only-copy", "precondition-failed", "run-ambiguous",
    "budget-used-up",
})  # fmt: skip
