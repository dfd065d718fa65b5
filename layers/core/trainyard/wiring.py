"""The only place that builds adapters: use cases get them as `Ports` and know nothing of AWS."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.people import RolesOfPeople
from trainyard.outside.backends import Backend
from trainyard.outside.blobs import Blobs
from trainyard.ports import Config, Ports
from trainyard.settings import Settings

if TYPE_CHECKING:
    from trainyard.aws.executions import Machine
    from trainyard.chat.mornings import Morning
    from trainyard.chat.threads import Telling
    from trainyard.chat.worker import Chat


@cache
def ports() -> Ports:
    """Everything a use case may reach, built once a process. Raises settings.MissingSetting."""
    return build(Settings.from_env())


@cache
def chat() -> Chat:
    """What answering Slack needs besides. Raises settings.MissingSetting."""
    from trainyard.aws.clients import Lazy
    from trainyard.aws.clock import SystemClock
    from trainyard.aws.secrets import SecretKeys
    from trainyard.aws.slack_requests import TableClaims
    from trainyard.aws.table import Table
    from trainyard.chat.replies import ResponseUrls
    from trainyard.chat.web_api import WebApi
    from trainyard.chat.worker import Chat

    settings = Settings.from_env()
    table = Table(Lazy("dynamodb", settings.region), settings.table_name)
    secrets = SecretKeys(Lazy("secretsmanager", settings.region), settings.stage)

    def people() -> str | None:
        return secrets.read(settings.slack_people) if settings.slack_people else None

    def token() -> str | None:
        return secrets.read(settings.slack_bot_token)

    views = WebApi(settings.slack_api, token) if settings.slack_bot_token else None
    claims = TableClaims(table, SystemClock())
    return Chat(claims, ResponseUrls(settings.slack_hooks), people, views)


@cache
def telling() -> Telling:
    """What showing runs in a channel of Slack needs besides. Raises settings.MissingSetting."""
    from trainyard.aws.clients import Lazy
    from trainyard.aws.clock import SystemClock
    from trainyard.aws.secrets import SecretKeys
    from trainyard.aws.slack_requests import TableClaims
    from trainyard.aws.slack_threads import TableThreads
    from trainyard.aws.table import Table
    from trainyard.chat.threads import Telling
    from trainyard.chat.web_api import WebApi

    settings, clock = Settings.from_env(), SystemClock()
    table = Table(Lazy("dynamodb", settings.region), settings.table_name)
    secrets = SecretKeys(Lazy("secretsmanager", settings.region), settings.stage)

    def people() -> str | None:
        return secrets.read(settings.slack_people) if settings.slack_people else None

    def token() -> str | None:
        return secrets.read(settings.slack_bot_token)

    return Telling(
        TableThreads(table, clock),
        TableClaims(table, clock),
        WebApi(settings.slack_api, token),
        settings.slack_channel,
        people,
    )


@cache
def morning() -> Morning | None:
    """When the channel has a digest; None where it has none. Raises settings.MissingSetting."""
    from trainyard.aws.clients import Lazy
    from trainyard.aws.clock import SystemClock
    from trainyard.aws.slack_threads import TableThreads
    from trainyard.aws.table import Table
    from trainyard.chat.mornings import Morning

    settings = Settings.from_env()
    if settings.slack_digest_hour is None:
        return None
    table = Table(Lazy("dynamodb", settings.region), settings.table_name)
    digests = TableThreads(table, SystemClock())
    return Morning(settings.slack_digest_hour, settings.slack_digest_zone, digests)


def build(settings: Settings) -> Ports:
    """Adapters for these settings; boto3's clients are made on their first call."""
    from trainyard.aws.approvals import TableApprovals
    from trainyard.aws.arrays import TableArrays
    from trainyard.aws.audit import TableAudit
    from trainyard.aws.blobs import S3Blobs
    from trainyard.aws.clients import Lazy
    from trainyard.aws.clock import SystemClock, Ulids
    from trainyard.aws.clusters import TableClusters
    from trainyard.aws.dead_letters import QueueDeadLetters
    from trainyard.aws.directories import S3Directories
    from trainyard.aws.executions import StateMachines
    from trainyard.aws.exports import S3Exports
    from trainyard.aws.filesystems import TableFilesystems
    from trainyard.aws.fsx import Fsx
    from trainyard.aws.metrics import LogMetrics
    from trainyard.aws.networks import Subnets
    from trainyard.aws.notices import TableNotices
    from trainyard.aws.pricing import PriceList
    from trainyard.aws.receivers import HttpsReceivers
    from trainyard.aws.runs import TableRuns
    from trainyard.aws.scheduler import EventBridgeScheduler
    from trainyard.aws.schedules import TableSchedules
    from trainyard.aws.secrets import SecretKeys
    from trainyard.aws.sources import S3Sources
    from trainyard.aws.table import Table
    from trainyard.aws.team_budgets import TableTeamBudgets
    from trainyard.aws.turns import TableTurns
    from trainyard.aws.uploads import S3Uploads
    from trainyard.aws.waits import TableWaits
    from trainyard.aws.webhooks import TableWebhooks

    table, clock = Table(Lazy("dynamodb", settings.region), settings.table_name), SystemClock()
    s3, events = Lazy("s3", settings.region), Lazy("events", settings.region)
    blobs = S3Blobs(s3, settings.data_bucket)
    return Ports(
        runs=TableRuns(table, clock),
        arrays=TableArrays(table, clock),
        turns=TableTurns(table),
        approvals=TableApprovals(table, clock),
        schedules=TableSchedules(table, clock),
        scheduler=EventBridgeScheduler(
            Lazy("scheduler", settings.region),
            settings.schedule_group,
            settings.steps_function_arn,
            settings.schedules_role_arn,
        ),
        team_budgets=TableTeamBudgets(table, clock),
        webhooks=TableWebhooks(table, clock, events, settings.event_bus_name),
        receivers=HttpsReceivers(loopback=_on_this_machine(settings.aws_endpoint)),
        clusters=TableClusters(table, clock),
        filesystems=TableFilesystems(table, clock),
        audit=TableAudit(table, clock, timedelta(days=settings.audit_days)),
        lustre=Fsx(
            Lazy("fsx", settings.region), Lazy("cloudwatch", settings.region), settings.stage, clock
        ),
        networks=Subnets(Lazy("ec2", settings.region)),
        waits=TableWaits(table),
        backends=_backends(settings, blobs),
        blobs=blobs,
        uploads=S3Uploads(s3, settings.data_bucket),
        sources=S3Sources(s3),
        exports=S3Exports(s3, settings.data_bucket),
        directories=S3Directories(s3, settings.data_bucket),
        executions=StateMachines(Lazy("stepfunctions", settings.region), _machines(settings)),
        dead_letters=QueueDeadLetters(Lazy("sqs", settings.region), settings.dead_letters_url),
        notices=TableNotices(
            table,
            events,
            settings.event_bus_name,
            Lazy("sns", settings.region),
            settings.notice_topic_arn,
            shown=settings.tell_changes,
        ),
        secrets=SecretKeys(Lazy("secretsmanager", settings.region), settings.stage),
        metrics=LogMetrics(settings.stage),
        prices=PriceList(Lazy("pricing", "us-east-1"), settings.region),
        clock=clock,
        ids=Ulids(),
        config=_config(settings),
    )


def _on_this_machine(aws_endpoint: str) -> bool:
    """Whether AWS itself is the local cloud."""
    from urllib.parse import urlsplit

    from trainyard.domain.webhooks import is_loopback

    return is_loopback(urlsplit(aws_endpoint).hostname or "")


def _backends(settings: Settings, blobs: Blobs) -> dict[str, Backend]:
    """One entry for each value of `ClusterSpec.backend`."""
    from trainyard.backends.hyperpod.build import hyperpod
    from trainyard.backends.parallelcluster.build import parallelcluster
    from trainyard.backends.training_job.build import training_jobs

    return {
        "hyperpod": hyperpod(settings, blobs),
        "parallelcluster": parallelcluster(settings, blobs),
        "training-job": training_jobs(settings, blobs),
    }


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
        settings.region,
        settings.default_subnet_ids,
        settings.default_security_group_ids,
        RolesOfPeople(settings.admins, settings.members, settings.viewers),
        settings.audit_days,
        ApprovalRules(
            settings.approval_above_usd,
            settings.approvals_needed,
            timedelta(seconds=settings.approval_seconds),
            settings.approvers,
        ),
    )
