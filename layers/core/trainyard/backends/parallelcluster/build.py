"""Builds the backend `parallelcluster` for a deployment."""

from __future__ import annotations

from typing import Any

from trainyard.aws.clients import Lazy, session
from trainyard.aws.policies import IamPolicies
from trainyard.aws.send_command import SendCommand
from trainyard.backends.parallelcluster.api import ParallelClusterApi
from trainyard.backends.parallelcluster.backend import Adapters, ParallelCluster
from trainyard.backends.parallelcluster.making import ParallelClusterSettings
from trainyard.backends.parallelcluster.subscription import Subscriptions
from trainyard.outside.blobs import Blobs
from trainyard.settings import Settings


def parallelcluster(settings: Settings, blobs: Blobs) -> ParallelCluster:
    """Clients of AWS are made on their first call."""
    region = settings.region
    _, partition, _, _, account, _ = settings.node_boundary_arn.split(":", 5)
    own = ParallelClusterSettings(
        stage=settings.stage,
        region=region,
        account=account,
        partition=partition,
        bucket=settings.data_bucket,
        event_bus=settings.event_bus_name,
        secret_prefix=settings.secret_prefix,
        heartbeat_seconds=settings.heartbeat_seconds,
    )
    function = f"arn:{partition}:lambda:{region}:{account}:function:{settings.stage}-on-fact"
    adapters = Adapters(
        blobs=blobs,
        policies=IamPolicies(Lazy("iam", region)),
        commands=SendCommand(Lazy("ssm", region)),
        subscriptions=Subscriptions(Lazy("logs", region), settings.stage, function),
        ec2=Lazy("ec2", region),
    )
    url = settings.parallelcluster_api_url
    api = ParallelClusterApi(url, region, _credentials) if url else None
    return ParallelCluster(api, adapters, own)


def _credentials() -> Any:
    return session().get_credentials()
