"""The only place that builds adapters: use cases get them as `Ports` and know nothing of AWS."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.people import RolesOfPeople
from trainyard.ports import Config, Ports
from trainyard.settings import Settings

if TYPE_CHECKING:
    from trainyard.aws.clients import Lazy
    from trainyard.aws.executions import Machine
    from trainyard.aws.table import Table
    from trainyard.chat.mornings import Morning
    from trainyard.chat.telling import Telling
    from trainyard.chat.worker import Chat
    from trainyard.outside.backends import Backend
    from trainyard.outside.blobs import Blobs
    from trainyard.outside.clock import Clock
    from trainyard.outside.lustre import Lustre
    from trainyard.outside.notices import Notices
    from trainyard.outside.schedules import Scheduler


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
    from trainyard.chat.telling import Telling
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
    from trainyard.aws.bucket_adapters import bucket_adapters
    from trainyard.aws.clients import Lazy
    from trainyard.aws.clock import SystemClock, Ulids
    from trainyard.aws.dead_letters import QueueDeadLetters
    from trainyard.aws.executions import StateMachines
    from trainyard.aws.metrics import LogMetrics
    from trainyard.aws.networks import Subnets
    from trainyard.aws.pricing import PriceList
    from trainyard.aws.receivers import HttpsReceivers
    from trainyard.aws.secrets import SecretKeys
    from trainyard.aws.table import Table
    from trainyard.aws.table_adapters import table_adapters
    from trainyard.aws.webhooks import TableWebhooks

    table, clock = Table(Lazy("dynamodb", settings.region), settings.table_name), SystemClock()
    events = Lazy("events", settings.region)
    in_buckets = bucket_adapters(Lazy("s3", settings.region), settings.data_bucket)
    return Ports(
        **table_adapters(table, clock, timedelta(days=settings.audit_days)),
        **in_buckets,
        scheduler=_scheduler(settings),
        webhooks=TableWebhooks(table, clock, events, settings.event_bus_name),
        receivers=HttpsReceivers(loopback=_on_this_machine(settings.aws_endpoint)),
        lustre=_lustre(settings, clock),
        networks=Subnets(Lazy("ec2", settings.region)),
        backends=_backends(settings, in_buckets["blobs"]),
        executions=StateMachines(Lazy("stepfunctions", settings.region), _machines(settings)),
        dead_letters=QueueDeadLetters(Lazy("sqs", settings.region), settings.dead_letters_url),
        notices=_notices(settings, table, events),
        secrets=SecretKeys(Lazy("secretsmanager", settings.region), settings.stage),
        metrics=LogMetrics(settings.stage),
        prices=PriceList(Lazy("pricing", "us-east-1"), settings.region),
        clock=clock,
        ids=Ulids(),
        config=_config(settings),
    )


def _scheduler(settings: Settings) -> Scheduler:
    from trainyard.aws.clients import Lazy
    from trainyard.aws.scheduler import EventBridgeScheduler

    return EventBridgeScheduler(
        Lazy("scheduler", settings.region),
        settings.schedule_group,
        settings.steps_function_arn,
        settings.schedules_role_arn,
    )


def _lustre(settings: Settings, clock: Clock) -> Lustre:
    from trainyard.aws.clients import Lazy
    from trainyard.aws.fsx import Fsx

    fsx, cloudwatch = Lazy("fsx", settings.region), Lazy("cloudwatch", settings.region)
    return Fsx(fsx, cloudwatch, settings.stage, clock)


def _notices(settings: Settings, table: Table, events: Lazy) -> Notices:
    from trainyard.aws.clients import Lazy
    from trainyard.aws.notices import TableNotices

    return TableNotices(
        table,
        events,
        settings.event_bus_name,
        Lazy("sns", settings.region),
        settings.notice_topic_arn,
        shown=settings.tell_changes,
    )


def _on_this_machine(aws_endpoint: str) -> bool:
    """Whether AWS itself is the local cloud."""
    from urllib.parse import urlsplit

    from trainyard.domain.webhook_urls import is_loopback

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
