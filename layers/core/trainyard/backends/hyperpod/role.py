"""The role of one cluster's nodes: what a node, and so any job on it, may do.

The code is pure, and a role allows nothing that belongs to another cluster.
"""

from __future__ import annotations

from typing import Any

from trainyard.backends.hyperpod.generated_files import own_spec
from trainyard.backends.hyperpod.naming import HyperPodSettings, account_arn, lifecycle_prefix
from trainyard.backends.hyperpod.request import network
from trainyard.backends.sagemaker_role import (
    TRUST,
    agent_key,
    allow,
    images,
    job_secrets,
    metrics,
    report_facts,
)
from trainyard.domain import names
from trainyard.domain.records import Cluster
from trainyard.outside.roles import NodeRole
from trainyard_contracts import places
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.places import CLUSTER_TAG, STAGE_TAG


def node_role(cluster: Cluster, settings: HyperPodSettings) -> NodeRole:
    return NodeRole(
        name=names.node_role(settings.stage, cluster.name, cluster.generation),
        path=names.node_role_path(settings.stage, cluster.name, cluster.generation),
        boundary=settings.node_boundary_arn,
        trust=TRUST,
        policy={"Version": "2012-10-17", "Statement": _statements(cluster, settings)},
        tags={STAGE_TAG: settings.stage, CLUSTER_TAG: cluster.name},
    )


def _statements(cluster: Cluster, settings: HyperPodSettings) -> list[dict[str, Any]]:
    scripts = lifecycle_prefix(cluster)
    found = [*_agent(cluster, settings, scripts), *_platform(cluster, settings)]
    reads = [*_mounts(cluster, settings), *_inputs(cluster, settings)]
    return [*found, *reads, *_network(cluster, settings)]


def agent_statements(cluster: Cluster, settings: HyperPodSettings) -> list[dict[str, Any]]:
    """What agent and jobs need where the role is another's, who gave it what HyperPod needs.

    It is the same whenever the cluster is adopted again.
    """
    scripts = f"{places.cluster_prefix(cluster.name)}*/lifecycle"
    return [*_agent(cluster, settings, scripts), *_inputs(cluster, settings)]


def _agent(cluster: Cluster, settings: HyperPodSettings, scripts: str) -> list[dict[str, Any]]:
    bucket = f"{_partition(settings)}:s3:::{settings.bucket}"
    runs = f"{bucket}/{places.runs_prefix(cluster.name)}"
    synced = f"{bucket}/{places.SYNC}/{cluster.name}"
    secrets = f"{account_arn(settings, 'secretsmanager')}:secret"
    return [
        report_facts(f"{account_arn(settings, 'events')}:event-bus/{settings.event_bus}"),
        allow(
            "ReadBundles",
            ["s3:GetObject"],
            [f"{bucket}/{scripts}/*", f"{runs}/*", f"{synced}/*"],
        ),
        allow(
            "WriteLogsAndExports",
            ["s3:PutObject", "s3:AbortMultipartUpload"],
            [f"{runs}/*/{name}/*" for name in (places.LOGS, places.EXPORT, places.FETCHED)],
        ),
        # An export is never deleted by a node; what was synced makes room for what is newer.
        allow(
            "Sync",
            ["s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"],
            [f"{synced}/*"],
        ),
        # HyperPod lists the lifecycle scripts, and without it S3 says 403 and not 404 of an object
        # that is not there.
        allow("ListData", ["s3:ListBucket"], bucket),
        agent_key(secrets, places.agent_key_secret(settings.secret_prefix, cluster.name)),
        *job_secrets(secrets, cluster.spec.job_secrets),
        *images(_partition(settings), account_arn(settings, "ecr", "*")),
    ]


def _platform(cluster: Cluster, settings: HyperPodSettings) -> list[dict[str, Any]]:
    """What AmazonSageMakerClusterInstanceRolePolicy allows.

    Its reading of every bucket named sagemaker-* is left out.
    """
    group = f"{account_arn(settings, 'logs')}:log-group:/aws/sagemaker/Clusters/{cluster.name}/*"
    channels = [
        f"ssmmessages:{verb}{kind}Channel"
        for verb in ("Create", "Open")
        for kind in ("Control", "Data")
    ]
    return [
        allow(
            "WriteLogs",
            [
                "logs:PutLogEvents",
                "logs:CreateLogStream",
                "logs:DescribeLogStreams",
                "logs:CreateLogGroup",
            ],
            group,
        ),
        metrics("/aws/sagemaker/Clusters"),
        allow("Sessions", channels, "*"),
    ]


def _mounts(cluster: Cluster, settings: HyperPodSettings) -> list[dict[str, Any]]:
    if not own_spec(cluster).s3_mounts:
        return []
    buckets = [
        f"{_partition(settings)}:s3:::{mount.bucket}" for mount in own_spec(cluster).s3_mounts
    ]
    objects = [
        f"{bucket}/{mount.prefix.rstrip('/')}/*" if mount.prefix else f"{bucket}/*"
        for bucket, mount in zip(buckets, own_spec(cluster).s3_mounts, strict=True)
    ]
    return [
        allow("ReadMounts", ["s3:GetObject"], sorted(set(objects))),
        allow("ListMounts", ["s3:ListBucket"], sorted(set(buckets))),
    ]


def _inputs(cluster: Cluster, settings: HyperPodSettings) -> list[dict[str, Any]]:
    """What the cluster's spec lets its runs copy from."""
    if not cluster.spec.job_inputs:
        return []
    named = [S3Prefix.of(source) for source in cluster.spec.job_inputs]
    s3 = f"{_partition(settings)}:s3:::"
    objects = sorted({f"{s3}{source.bucket}/{source.prefix}*" for source in named})
    return [
        allow("ReadInputs", ["s3:GetObject"], objects),
        allow("ListInputs", ["s3:ListBucket"], sorted({s3 + one.bucket for one in named})),
    ]


def _network(cluster: Cluster, settings: HyperPodSettings) -> list[dict[str, Any]]:
    """The calls that HyperPod documents for nodes in a network of the user's."""
    chosen = network(own_spec(cluster), settings)
    # Any account: a shared subnet belongs to another one.
    ec2 = f"{_partition(settings)}:ec2:{settings.region}:*"
    interfaces = f"{ec2}:network-interface/*"
    subnets = [f"{ec2}:subnet/{subnet}" for subnet in chosen["Subnets"]]
    groups = [f"{ec2}:security-group/{group}" for group in chosen["SecurityGroupIds"]]
    joins = [
        "ec2:CreateNetworkInterface",
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterfacePermission",
    ]
    looks = ["NetworkInterfaces", "Vpcs", "DhcpOptions", "Subnets", "SecurityGroups"]
    return [
        allow(
            "JoinTheVpc",
            [*joins, "ec2:DetachNetworkInterface"],
            [interfaces, f"{ec2}:instance/*", *subnets, *groups],
        ),
        allow(
            "LeaveTheVpc",
            ["ec2:DeleteNetworkInterface"],
            interfaces,
            {"ArnLike": {"ec2:Subnet": subnets}},
        ),
        allow("NameInterfaces", ["ec2:CreateTags"], interfaces),
        allow("LookAtTheVpc", [f"ec2:Describe{what}" for what in looks], "*"),
    ]


def _partition(settings: HyperPodSettings) -> str:
    return ":".join(settings.node_boundary_arn.split(":")[:2])
