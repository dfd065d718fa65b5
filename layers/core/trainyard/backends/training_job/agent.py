"""Answers the commands that a cluster's agent answers elsewhere: no node is there between jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep
from typing import Any

from pydantic import ValidationError

from trainyard.backends.training_job import starting, states
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.directory import S3Directory
from trainyard.backends.training_job.exporting import Exporter, ExportImpossible
from trainyard.backends.training_job.jobs import Jobs
from trainyard.backends.training_job.logs import tail
from trainyard.backends.training_job.orders import Order, intent_of
from trainyard.backends.training_job.refusals import NameInUse
from trainyard.backends.training_job.request import create_training_job_request
from trainyard.backends.training_job.source import Source
from trainyard.backends.training_job.verdicts import verdict
from trainyard.domain import errors
from trainyard.domain.records import Cluster
from trainyard.outside.blobs import Blobs
from trainyard.outside.clock import Clock
from trainyard.outside.commands import CommandResult
from trainyard_contracts import commands, places
from trainyard_contracts.files import BundleStart, JobBundle

#: A job that must end first is looked at this often, until this much of a command's time is left.
LOOK_SECONDS = 5.0
_SPARE_SECONDS = 20.0


class Refused(Exception):
    """An answer that is an error; `code` is one of those that agents give."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class JobAgent:
    """One for all clusters of the backend: it remembers nothing."""

    jobs: Jobs
    blobs: Blobs
    s3: Any
    logs: Any
    deployment: JobDeployment
    #: Makes the archive with what the container starts, the same bytes each time.
    source: Callable[[], Source]
    clock: Clock
    #: Between two looks at a job that is ending.
    pause: Callable[[float], None] = sleep

    def run(self, cluster: Cluster, argv: Sequence[str], timeout_seconds: float) -> CommandResult:
        """The answer as an agent prints it. Raises errors.RetryableError."""
        try:
            answer = self._answer(cluster, commands.of_words(argv[1:]), timeout_seconds)
        except commands.BadCommand as error:
            return _error("invalid-request", str(error))
        except Refused as error:
            return _error(error.code, str(error))
        except ExportImpossible as error:
            return _error("invalid-request", str(error))
        return CommandResult(0, json.dumps(answer.as_json()), "")

    def _answer(
        self, cluster: Cluster, given: commands.Command, timeout_seconds: float
    ) -> commands.Answer:
        if isinstance(given, commands.Submit):
            return self._submit(cluster, given, timeout_seconds)
        if isinstance(given, commands.Cancel):
            return self._cancel(given)
        if isinstance(given, commands.Status):
            return self._status(given)
        if isinstance(given, commands.Logs):
            return self._logs(given)
        if isinstance(given, commands.Export):
            return self._export(cluster, given, timeout_seconds)
        raise Refused("invalid-request", _NEVER[given.name])

    # -- submit ------------------------------------------------------------------------------------
    def _submit(
        self, cluster: Cluster, given: commands.Submit, timeout_seconds: float
    ) -> commands.Submitted:
        bundle = self._bundle(given)
        name = self.deployment.job_name(given.run, given.attempt)
        self._check_fence(given)
        self._end_earlier(given.run, name, timeout_seconds)
        if bundle.start_from is not None:
            self._bring_start(cluster, bundle.run_id, bundle.start_from, timeout_seconds)
        archive = self.source()
        key = self.deployment.source_key(cluster, archive.name)
        if self.blobs.head(key) is None:
            self.blobs.put(key, archive.body)
        source = f"s3://{self.deployment.bucket}/{key}"
        asked = bundle.hyperparameters or {}
        order = Order(given.run, given.attempt, given.bundle, given.sha256, source, asked)
        try:
            self.jobs.create(
                create_training_job_request(intent_of(cluster, self.deployment, order))
            )
        except NameInUse:
            pass  # by an earlier try of this very command, unless it is somebody else's
        except errors.InvalidRequest as error:
            raise Refused("submit-failed", error.detail) from error
        except errors.BackendRejected as error:
            code = error.code if error.code in ("no-capacity", "backend-rejected") else ""
            raise Refused(code or "backend-rejected", _with_step(error)) from error
        return self._submitted(cluster, name, given.attempt)

    def _bundle(self, given: commands.Submit) -> JobBundle:
        """What the container will read, which must be what was written for this attempt."""
        bucket, _, key = given.bundle.removeprefix("s3://").partition("/")
        if bucket != self.deployment.bucket:
            raise Refused("bundle-refused", f"the bundle must lie in {self.deployment.bucket}")
        try:
            body = self.blobs.get(key)
            bundle = JobBundle.model_validate_json(body)
        except errors.BlobNotFound:
            raise Refused("bundle-changed", f"{given.bundle} is not there") from None
        except ValidationError as error:
            words = f"{given.bundle} is no bundle: {error.error_count()} errors"
            raise Refused("bundle-refused", words) from None
        if given.sha256 and hashlib.sha256(body).hexdigest() != given.sha256:
            raise Refused("bundle-changed", f"{given.bundle} is not what was written")
        if (bundle.run_id, bundle.attempt) != (given.run, given.attempt):
            raise Refused("bundle-refused", f"{given.bundle} is of another attempt")
        return bundle

    def _check_fence(self, given: commands.Submit) -> None:
        """As an agent's fence: a submission that comes late must not end what followed it."""
        for job in self.jobs.of_run(given.run):
            known = self.deployment.attempt_of(job["TrainingJobName"])
            if known is not None and known[1] > given.attempt:
                words = f"attempt {known[1]} is submitted already; attempt {given.attempt} is late"
                raise Refused("fenced", words)

    def _end_earlier(self, run_id: str, name: str, timeout_seconds: float) -> None:
        """Only one job of a run may write: the others are stopped, and their end is waited for."""
        looks = max(1, int((timeout_seconds - _SPARE_SECONDS) / LOOK_SECONDS))
        for look in range(looks):
            others = [
                job["TrainingJobName"]
                for job in self.jobs.of_run(run_id)
                if job["TrainingJobName"] != name and not states.is_over(job["TrainingJobStatus"])
            ]
            if not others:
                return
            for other in others if look == 0 else []:
                self.jobs.stop(other)
            self.pause(LOOK_SECONDS)
        words = f"job {others[0]} of an earlier attempt is still ending"
        raise Refused("fetching", words)

    def _bring_start(
        self, cluster: Cluster, run_id: str, start: BundleStart, timeout_seconds: float
    ) -> None:
        """Raises Refused, also while S3 still copies."""
        until = monotonic() + max(1.0, timeout_seconds - _SPARE_SECONDS)
        run = places.run_prefix(places.runs_prefix(cluster.name), run_id)
        target = f"{places.start_prefix(run)}{start.path.rpartition('/')[2]}/"
        about = (self.s3, self.deployment.bucket, f"{start.export}/", target)
        try:
            done = starting.bring(*about, in_time=lambda: monotonic() < until)
        except starting.NotThere as why:
            words = f"checkpoint.startFrom: step {start.step} of {start.run_id} is not whole"
            raise Refused("bundle-refused", f"{words}: {why}; name another step") from why
        if not done:
            raise Refused("fetching", "the checkpoint to start from is still being copied")

    def _submitted(self, cluster: Cluster, name: str, attempt: int) -> commands.Submitted:
        """Raises Refused where the job of this name was made for something else."""
        job = self.jobs.describe(name)
        if job is None:
            raise Refused("fetching", f"AWS does not show job {name} yet")
        tags = self.jobs.tags(job["TrainingJobArn"])
        if not cluster.is_marked(tags):
            words = f"a training job named {name} is there, and it was made for something else"
            raise Refused("backend-rejected", words)
        return commands.Submitted(name, str(job["SecondaryStatus"]), attempt)

    # -- what there is -----------------------------------------------------------------------------
    def _cancel(self, given: commands.Cancel) -> commands.Cancelling:
        found = self.jobs.of_run(given.run)
        running = [job for job in found if not states.is_over(job["TrainingJobStatus"])]
        for job in running:
            self.jobs.stop(job["TrainingJobName"])
        return commands.Cancelling("cancelling" if running else "ended" if found else "none")

    def _status(self, given: commands.Status) -> commands.JobState:
        found = self.jobs.of_run(given.run)
        job = self.jobs.describe(found[0]["TrainingJobName"]) if found else None
        if job is None:
            return commands.JobState()
        name, secondary = str(job["TrainingJobName"]), str(job.get("SecondaryStatus") or "")
        attempt = self.deployment.attempt_of(name)
        over = verdict(job["TrainingJobStatus"], secondary, str(job.get("FailureReason") or ""))
        return commands.JobState(
            job_id=name,
            attempt=attempt[1] if attempt else 0,
            state=secondary,
            how=over.how if over else "",
            reason=over.reason if over else "",
        )

    def _logs(self, given: commands.Logs) -> commands.Tail:
        name = self.deployment.job_name(given.run, given.attempt)
        job = self.jobs.describe(name) if given.since else None
        return tail(self.logs, name, given, _ended_at(job), self.clock.now())

    def _export(
        self, cluster: Cluster, given: commands.Export, timeout_seconds: float
    ) -> commands.Exporting:
        bucket, _, prefix = given.destination.removeprefix("s3://").partition("/")
        if bucket != self.deployment.bucket:
            raise Refused("invalid-request", f"an export goes to {self.deployment.bucket}")
        source = places.directory_prefix(cluster.name, given.run)
        directory = S3Directory(self.s3, bucket, source)
        return Exporter(directory, self.blobs, prefix, self.clock).export(given, timeout_seconds)


#: What no training job can do, by the command's name.
_NEVER: Mapping[str, str] = {
    "exclude": "AWS chooses the nodes of a training job: none can be left out",
    "checkout": "job.git: the first host of a training job fetches it",
    "nodes": "the nodes of a training job are listed by AWS, and their samples come with its "
    "heartbeats",
}


def _ended_at(job: Mapping[str, Any] | None) -> datetime | None:
    return job.get("TrainingEndTime") if job else None


def _with_step(error: errors.TrainyardError) -> str:
    """AWS's reason, and what to do where we know more than that it refused."""
    own = error.next_step if error.next_step != type(error).next_step else ""
    return f"{error.detail.rstrip('.')}. {own}".rstrip()


def _error(code: str, message: str) -> CommandResult:
    return CommandResult(1, json.dumps({"error": code, "message": message}), "")
