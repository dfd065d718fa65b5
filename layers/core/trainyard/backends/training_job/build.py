"""Builds the backend `training-job` for a deployment."""

from __future__ import annotations

from trainyard.aws.clients import Lazy
from trainyard.aws.clock import SystemClock
from trainyard.aws.roles import IamRoles
from trainyard.backends.training_job.agent import JobAgent
from trainyard.backends.training_job.backend import TrainingJobs
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.jobs import Jobs
from trainyard.backends.training_job.source import SourceFiles, build
from trainyard.outside.blobs import Blobs
from trainyard.settings import Settings


def training_jobs(settings: Settings, blobs: Blobs) -> TrainingJobs:
    """Clients of AWS are made on their first call."""
    deployment = JobDeployment(
        stage=settings.stage,
        region=settings.region,
        bucket=settings.data_bucket,
        event_bus=settings.event_bus_name,
        secret_prefix=settings.secret_prefix,
        node_boundary_arn=settings.node_boundary_arn,
    )
    region = settings.region
    jobs = Jobs(Lazy("sagemaker", region), deployment)
    agent = JobAgent(
        jobs=jobs,
        blobs=blobs,
        s3=Lazy("s3", region),
        logs=Lazy("logs", region),
        deployment=deployment,
        source=lambda: build(SourceFiles.of_layers()),
        clock=SystemClock(),
    )
    return TrainingJobs(jobs, IamRoles(Lazy("iam", region)), agent, deployment)
