"""The only place that builds adapters: use cases get them as `Ports` and know nothing of AWS."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from trainyard.ports import Config, Ports
from trainyard.settings import Settings

if TYPE_CHECKING:
    from trainyard.aws.blobs import S3Blobs
    from trainyard.aws.executions import Machine
    from trainyard.backends.hyperpod import HyperPod


@cache
def ports() -> Ports:
    """Everything a use case may reach, built once a process. Raises settings.MissingSetting."""
    return build(Settings.from_env())


def build(settings: Settings) -> Ports:
    """Adapters for these settings; boto3's clients are made on their first call."""
    from trainyard.aws.blobs import S3Blobs
    from trainyard.aws.clients import Lazy
    from trainyard.aws.clock import SystemClock, Ulids
    from trainyard.aws.clusters import TableClusters
    from trainyard.aws.dead_letters import QueueDeadLetters
    from trainyard.aws.executions import StateMachines
    from trainyard.aws.pricing import PriceList
    from trainyard.aws.run_commands import SessionCommands
    from trainyard.aws.runs import TableRuns
    from trainyard.aws.secrets import SecretKeys
    from trainyard.aws.session_channel import SessionChannel
    from trainyard.aws.table import Table
    from trainyard.aws.waits import TableWaits

    table, clock = Table(Lazy("dynamodb", settings.region), settings.table_name), SystemClock()
    blobs = S3Blobs(Lazy("s3", settings.region), settings.data_bucket)
    backend = _backend(settings, blobs)
    return Ports(
        runs=TableRuns(table, clock),
        clusters=TableClusters(table, clock),
        waits=TableWaits(table),
        backend=backend,
        commands=SessionCommands(
            SessionChannel(Lazy("ssm", settings.region)), backend.command_target
        ),
        blobs=blobs,
        executions=StateMachines(Lazy("stepfunctions", settings.region), _machines(settings)),
        dead_letters=QueueDeadLetters(Lazy("sqs", settings.region), settings.dead_letters_url),
        secrets=SecretKeys(Lazy("secretsmanager", settings.region), settings.stage),
        prices=PriceList(Lazy("pricing", "us-east-1"), settings.region),
        clock=clock,
        ids=Ulids(),
        config=_config(settings),
    )


def _backend(settings: Settings, blobs: S3Blobs) -> HyperPod:
    from trainyard.aws.clients import Lazy
    from trainyard.aws.roles import IamRoles
    from trainyard.backends.hyperpod import HyperPod
    from trainyard.backends.hyperpod_request import HyperPodSettings

    hyperpod = HyperPodSettings(
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
    roles = IamRoles(Lazy("iam", settings.region))
    return HyperPod(
        Lazy("sagemaker", settings.region), Lazy("logs", settings.region), blobs, roles, hyperpod
    )


def _machines(settings: Settings) -> dict[Machine, str]:
    return {
        "run": settings.run_machine_arn,
        "cluster": settings.cluster_machine_arn,
        "teardown": settings.teardown_machine_arn,
    }


def _config(settings: Settings) -> Config:
    has_network = bool(settings.default_subnet_ids and settings.default_security_group_ids)
    return Config(
        settings.heartbeat_seconds,
        settings.secret_prefix,
        settings.orphan_seconds,
        has_network,
        settings.data_bucket,
    )
