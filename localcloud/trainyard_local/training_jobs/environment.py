"""The environment of a job's containers, before the toolkit adds its own variables."""

from __future__ import annotations

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.machines.host import SEARCH_PATH
from trainyard_local.training_jobs import images
from trainyard_local.training_jobs.job import TrainingJob
from trainyard_local.training_jobs.objects import SESSION
from trainyard_local.training_jobs.settings import JobSettings


def variables(cloud: LocalCloud, settings: JobSettings, job: TrainingJob) -> dict[str, str]:
    """The image's own, SageMaker's, the role's keys, and those of the request."""
    image = str(job.request["AlgorithmSpecification"]["TrainingImage"])
    return {
        "PATH": f"{settings.python.parent}:{SEARCH_PATH}",
        **images.variables(image),
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": job.arn,
        "AWS_REGION": cloud.region,
        "AWS_DEFAULT_REGION": cloud.region,
        **_rights(cloud, job),
        **(job.request.get("Environment") or {}),
    }


def _rights(cloud: LocalCloud, job: TrainingJob) -> dict[str, str]:
    """An isolated container has no keys, and nothing to use them at."""
    if job.request.get("EnableNetworkIsolation"):
        return {}
    keys = cloud.access.environment(job.request["RoleArn"], SESSION)
    return {"AWS_ENDPOINT_URL": cloud.endpoint, **keys}
