"""The role of one cluster's training jobs: what a container, and so any program in it, may do."""

from __future__ import annotations

from typing import Any

from trainyard.backends.sagemaker_role import (
    TRUST,
    agent_key,
    allow,
    images,
    job_secrets,
    metrics,
    report_facts,
)
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.orders import own
from trainyard.domain.records import Cluster
from trainyard.outside.roles import NodeRole
from trainyard_contracts import places
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.places import CLUSTER_TAG, STAGE_TAG
from trainyard_contracts.training_job import TrainingJobClusterSpec

LOG_GROUP = "/aws/sagemaker/TrainingJobs"


def job_role(cluster: Cluster, deployment: JobDeployment) -> NodeRole:
    return NodeRole(
        name=deployment.role_name(cluster),
        path=deployment.role_path(cluster),
        boundary=deployment.node_boundary_arn,
        trust=TRUST,
        policy={"Version": "2012-10-17", "Statement": _statements(cluster, deployment)},
        tags={STAGE_TAG: deployment.stage, CLUSTER_TAG: cluster.name},
    )


def _statements(cluster: Cluster, deployment: JobDeployment) -> list[dict[str, Any]]:
    spec = own(cluster)
    return [
        *_trainyard(cluster, deployment),
        *job_secrets(f"{deployment.account_arn('secretsmanager')}:secret", spec.job_secrets),
        *images(f"arn:{deployment.partition}", deployment.account_arn("ecr", "*")),
        *_platform(deployment),
        *_channels(spec, deployment),
        *_inputs(spec, deployment),
        *(_network(spec, deployment) if spec.network is not None else []),
    ]


def _trainyard(cluster: Cluster, deployment: JobDeployment) -> list[dict[str, Any]]:
    bucket = f"arn:{deployment.partition}:s3:::{deployment.bucket}"
    runs = f"{bucket}/{places.runs_prefix(cluster.name)}/*"
    source = f"{bucket}/{places.lifecycle_prefix(cluster.name, cluster.generation)}/*"
    directories = f"{bucket}/{places.directories_prefix(cluster.name)}*"
    secrets = f"{deployment.account_arn('secretsmanager')}:secret"
    write = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"]
    return [
        report_facts(f"{deployment.account_arn('events')}:event-bus/{deployment.event_bus}"),
        allow("ReadBundles", ["s3:GetObject"], [source, runs]),
        # Older checkpoints make room for newer ones.
        allow("RunDirectories", ["s3:GetObject", *write], [directories]),
        # Without it S3 says 403 and not 404 of an object that is not there.
        allow("ListData", ["s3:ListBucket"], bucket),
        # Where AWS's own launcher starts the program, it asks whether its job is being stopped.
        allow(
            "OwnJobs",
            ["sagemaker:DescribeTrainingJob"],
            f"{deployment.account_arn('sagemaker')}:training-job/{_own_jobs(cluster, deployment)}",
        ),
        agent_key(secrets, places.agent_key_secret(deployment.secret_prefix, cluster.name)),
    ]


def _own_jobs(cluster: Cluster, deployment: JobDeployment) -> str:
    """The names of the jobs of the run that the cluster is for, one for each attempt."""
    if cluster.owner_run is None:
        return f"{deployment.stage}-*"
    return deployment.job_name(cluster.owner_run, 1).removesuffix("1") + "*"


def _platform(deployment: JobDeployment) -> list[dict[str, Any]]:
    """What SageMaker itself does under the role, by its guide's page on execution roles."""
    group = f"{deployment.account_arn('logs')}:log-group:{LOG_GROUP}"
    writes = ["PutLogEvents", "CreateLogStream", "DescribeLogStreams", "CreateLogGroup"]
    return [
        allow("WriteLogs", [f"logs:{action}" for action in writes], [group, f"{group}:*"]),
        metrics(LOG_GROUP),
    ]


def _channels(spec: TrainingJobClusterSpec, deployment: JobDeployment) -> list[dict[str, Any]]:
    """The data that the spec names."""
    named = [S3Prefix.of(one.s3.uri) for one in spec.channels if one.s3 is not None]
    if not named:
        return []
    s3 = f"arn:{deployment.partition}:s3:::"
    objects = sorted({f"{s3}{source.bucket}/{source.prefix.rstrip('/')}*" for source in named})
    return [
        allow("ReadChannels", ["s3:GetObject"], objects),
        allow("ListChannels", ["s3:ListBucket"], sorted({s3 + one.bucket for one in named})),
    ]


def _inputs(spec: TrainingJobClusterSpec, deployment: JobDeployment) -> list[dict[str, Any]]:
    """What the spec lets its runs copy from."""
    named = [S3Prefix.of(source) for source in spec.job_inputs]
    if not named:
        return []
    s3 = f"arn:{deployment.partition}:s3:::"
    objects = sorted({f"{s3}{source.bucket}/{source.prefix}*" for source in named})
    return [
        allow("ReadInputs", ["s3:GetObject"], objects),
        allow("ListInputs", ["s3:ListBucket"], sorted({s3 + one.bucket for one in named})),
    ]


def _network(spec: TrainingJobClusterSpec, deployment: JobDeployment) -> list[dict[str, Any]]:
    """The calls that SageMaker documents for jobs in a network of the user's."""
    assert spec.network is not None
    # Any account: a shared subnet belongs to another one.
    ec2 = f"arn:{deployment.partition}:ec2:{deployment.region}:*"
    interfaces = f"{ec2}:network-interface/*"
    subnets = [f"{ec2}:subnet/{subnet}" for subnet in spec.network.subnet_ids]
    groups = [f"{ec2}:security-group/{group}" for group in spec.network.security_group_ids]
    joins = ["", "Permission"]
    looks = ["NetworkInterfaces", "Vpcs", "DhcpOptions", "Subnets", "SecurityGroups"]
    return [
        allow(
            "JoinTheVpc",
            [f"ec2:{verb}NetworkInterface{end}" for verb in ("Create", "Delete") for end in joins],
            [interfaces, *subnets, *groups],
        ),
        allow("LookAtTheVpc", [f"ec2:Describe{what}" for what in looks], "*"),
    ]
