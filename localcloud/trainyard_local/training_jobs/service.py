"""Training jobs' operations for moto's SageMaker: each runs in a thread, on its own hosts."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.sagemaker.capacity import Capacity
from trainyard_local.sagemaker.errors import ResourceInUse, ValidationException
from trainyard_local.sagemaker.model import check
from trainyard_local.sagemaker.operations import install as install_operation
from trainyard_local.sagemaker.operations import install_tags
from trainyard_local.training_jobs import inputs, listing, namespaces, words
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.job import TrainingJob
from trainyard_local.training_jobs.life import Life
from trainyard_local.training_jobs.objects import Objects
from trainyard_local.training_jobs.pools import WarmPools
from trainyard_local.training_jobs.requests import check_job, check_parameters
from trainyard_local.training_jobs.settings import JobSettings
from trainyard_local.training_jobs.views import STATE_CHANGE, describe, event

#: At the end of the cloud; what is left then is killed with all its processes.
CLOSE_SECONDS = 5.0
Params = dict[str, Any]
Answers = dict[str, Callable[["TrainingJobs", Params], Params]]


class TrainingJobs:
    """All training jobs of the local cloud."""

    def __init__(self, cloud: LocalCloud, settings: JobSettings) -> None:
        self.cloud, self.settings = cloud, settings
        self.capacity = Capacity(settings.without_capacity)
        self._pools = WarmPools()
        self._jobs: dict[str, TrainingJob] = {}
        self._lives: dict[str, Life] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()

    def all(self) -> list[TrainingJob]:
        """Those that are described."""
        with self._lock:
            return list(self._jobs.values())

    def find(self, name: str) -> TrainingJob:
        """Raises ValidationException, as AWS does, and not ResourceNotFound."""
        with self._lock:
            if job := self._jobs.get(name):
                return job
        raise ValidationException("Requested resource not found.")

    def arn(self, name: str) -> str:
        """The ARN of the job with this name."""
        place = f"{self.cloud.region}:{self.cloud.account_id}"
        return f"arn:aws:sagemaker:{place}:training-job/{name}"

    def create(self, request: Params) -> TrainingJob:
        """Begin a job. Raises ServiceException for one that is refused."""
        check_job(request)
        self._refuse_what_cannot_run()
        self._refuse_what_the_role_may_not(request)
        job = TrainingJob(copy.deepcopy(request), self.arn(request["TrainingJobName"]), self._tell)
        life = Life(self.cloud, self.settings, job, self._pools, self.capacity)
        with self._lock:
            if job.name in self._jobs:
                raise ResourceInUse(
                    "Training job names must be unique within an AWS account and region, and a "
                    f"training job with this name already exists ({job.arn})"
                )
            self._jobs[job.name], self._lives[job.name] = job, life
        self._tell(job)
        self._run(life)
        return job

    def hosts(self, job: TrainingJob) -> list[Host]:
        """Those that the job has now."""
        life = self._lives.get(job.name)
        fleet = life.fleet if life else None
        return list(fleet.hosts) if fleet else []

    def _run(self, life: Life) -> None:
        thread = threading.Thread(target=life.run, daemon=True, name=f"job {life.job.name}")
        thread.start()
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]

    def _tell(self, job: TrainingJob) -> None:
        self.cloud.put_event("aws.sagemaker", STATE_CHANGE, event(job), [job.arn])

    def _refuse_what_cannot_run(self) -> None:
        if lacking := namespaces.missing():
            raise ValidationException(f"the local cloud runs no training jobs here: {lacking}")
        if not self.settings.python.exists():
            raise ValidationException(
                "the local cloud runs no training jobs here: there is no environment that stands "
                f"for images at {self.settings.python.parent.parent}; make it with: "
                "make setup-trainers"
            )

    def _refuse_what_the_role_may_not(self, request: Params) -> None:
        role = request["RoleArn"]
        if not self.cloud.access.may_assume(role, "sagemaker.amazonaws.com"):
            raise ValidationException(
                f"Could not assume role {role}. Please ensure that the role exists and allows "
                "principal 'sagemaker.amazonaws.com' to assume the role."
            )
        missing = inputs.first_missing(request, Objects(self.cloud, role), self.cloud.region)
        if missing:
            raise ValidationException(missing)

    def stop(self, job: TrainingJob) -> None:
        """Raises ValidationException for a job that has ended."""
        with job.lock:
            if job.ended:
                raise ValidationException(
                    f"The request was rejected because the training job is in status {job.status}."
                )
            job.wishes.stop()
        job.enter("Stopping", words.STOPPING)

    def update(self, job: TrainingJob, seconds: int) -> None:
        """Keep its warm pool for another period. Raises ValidationException without one."""
        if job.warm_pool is None or job.warm_pool.status not in ("InUse", "Available"):
            raise ValidationException(
                "resourceConfig.keepAlivePeriodInSeconds: the training job has no warm pool that "
                "is in use or available"
            )
        job.keep_alive(seconds)
        self._pools.changed(job)

    def delete(self, job: TrainingJob) -> None:
        """Forget a job that has ended. Raises ResourceInUse."""
        with self._lock, job.lock:
            kept = job.warm_pool is not None and job.warm_pool.status == "Available"
            if not job.ended or kept:
                state = "retains a warm pool" if kept else f"is in status {job.status}"
                raise ResourceInUse(f"Training job {job.arn} cannot be deleted while it {state}")
            self._jobs.pop(job.name, None)
            self._lives.pop(job.name, None)

    def tags_of(self, arn: str) -> dict[str, str]:
        """The tags of a job; none for what is not there."""
        with self._lock:
            job = self._jobs.get(arn.rpartition("/")[2])
        return job.tags if job else {}

    def close(self) -> None:
        """End of the local cloud: no host of any job stays."""
        for job in self.all():
            job.wishes.close()
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)
        self._pools.close()


_installed: dict[int, TrainingJobs] = {}


def of(cloud: LocalCloud) -> TrainingJobs:
    """The training jobs of an installed cloud."""
    return _installed[id(cloud)]


def install(cloud: LocalCloud, settings: JobSettings | None = None) -> TrainingJobs:
    """Put training jobs' operations on moto's SageMakerResponse. Call once for a server."""
    jobs = TrainingJobs(cloud, settings or JobSettings.from_env())
    _installed[id(cloud)] = jobs
    for operation, answer in ANSWERS.items():
        install_operation(operation, _checked(jobs, operation, answer))
    install_tags("training-job", lambda arn: jobs.find(arn.rpartition("/")[2]).tags)
    others = cloud.access.resource_tags.get("sagemaker")

    def tags_of(arn: str) -> Mapping[str, str]:
        if ":training-job/" in arn:
            return jobs.tags_of(arn)
        return others(arn) if others else {}

    cloud.access.resource_tags["sagemaker"] = tags_of
    cloud.on_shutdown.append(jobs.close)
    return jobs


def _checked(
    jobs: TrainingJobs, operation: str, answer: Callable[[TrainingJobs, Params], Params]
) -> Callable[[Params], Params]:
    def answered(params: Params) -> Params:
        check(operation, params)
        check_parameters(operation, params)
        return answer(jobs, params)

    return answered


def _named(jobs: TrainingJobs, params: Params) -> TrainingJob:
    return jobs.find(params["TrainingJobName"])


def _create(jobs: TrainingJobs, params: Params) -> Params:
    return {"TrainingJobArn": jobs.create(params).arn}


def _stop(jobs: TrainingJobs, params: Params) -> Params:
    jobs.stop(_named(jobs, params))
    return {}


def _update(jobs: TrainingJobs, params: Params) -> Params:
    job = _named(jobs, params)
    if "ResourceConfig" not in params:
        raise ValidationException("resourceConfig: give KeepAlivePeriodInSeconds to change it")
    jobs.update(job, params["ResourceConfig"]["KeepAlivePeriodInSeconds"])
    return {"TrainingJobArn": job.arn}


def _delete(jobs: TrainingJobs, params: Params) -> Params:
    jobs.delete(_named(jobs, params))
    return {}


ANSWERS: Answers = {
    "CreateTrainingJob": _create,
    "DescribeTrainingJob": lambda jobs, params: describe(_named(jobs, params)),
    "ListTrainingJobs": lambda jobs, params: listing.answer(jobs.all(), params),
    "StopTrainingJob": _stop,
    "UpdateTrainingJob": _update,
    "DeleteTrainingJob": _delete,
}
