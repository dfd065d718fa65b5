"""Builds the backend `hyperpod` for a deployment."""

from __future__ import annotations

from trainyard.aws.clients import Lazy
from trainyard.aws.roles import IamRoles
from trainyard.aws.session_channel import SessionChannel
from trainyard.backends.hyperpod.backend import HyperPod
from trainyard.backends.hyperpod.naming import HyperPodSettings
from trainyard.outside.blobs import Blobs
from trainyard.settings import Settings


def hyperpod(settings: Settings, blobs: Blobs) -> HyperPod:
    """Clients of AWS are made on their first call."""
    own = HyperPodSettings(
        stage=settings.stage,
        region=settings.region,
        bucket=settings.data_bucket,
        event_bus=settings.event_bus_name,
        secret_prefix=settings.secret_prefix,
        node_boundary_arn=settings.node_boundary_arn,
        heartbeat_seconds=settings.heartbeat_seconds,
        default_subnet_ids=settings.default_subnet_ids,
        default_security_group_ids=settings.default_security_group_ids,
    )
    region = settings.region
    roles = IamRoles(Lazy("iam", region))
    channel = SessionChannel(Lazy("ssm", region))
    return HyperPod(Lazy("sagemaker", region), Lazy("logs", region), blobs, roles, channel, own)
