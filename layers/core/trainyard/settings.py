"""The functions' settings, read from the environment once; nothing else reads `os.environ`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace


class MissingSetting(RuntimeError):
    """A variable that template.yaml sets is missing or malformed; the function cannot start."""


@dataclass(frozen=True)
class Settings:
    """What template.yaml gives every function (docs/reference/settings.md)."""

    #: the stack's name; on all that we make it is the tag `trainyard:stage`
    stage: str
    #: where the functions run (`AWS_DEFAULT_REGION` where Lambda does not set it)
    region: str
    #: the DynamoDB table of runs, clusters and facts
    table_name: str
    #: bundles, logs and exports; its name begins with `sagemaker-`
    data_bucket: str
    #: the bus that the agents report to, and on which people's own rules listen
    event_bus_name: str
    #: the queue of events that could not be recorded; the sweep records them
    dead_letters_url: str
    #: the state machine that owns runs
    run_machine_arn: str
    #: the one that makes clusters
    cluster_machine_arn: str
    #: the one that deletes them
    teardown_machine_arn: str
    #: EventBridge Scheduler's group of all schedules of this stack
    schedule_group: str
    #: the function that does steps, which schedules call
    steps_function_arn: str
    #: the role under which EventBridge Scheduler calls it
    schedules_role_arn: str
    #: the most that the role of any cluster's nodes may do
    node_boundary_arn: str
    #: all secrets of this stack lie below it
    secret_prefix: str
    #: of clusters whose spec names no network; separated by commas
    default_subnet_ids: tuple[str, ...] = ()
    #: of the same clusters
    default_security_group_ids: tuple[str, ...] = ()
    #: the address of ParallelCluster's API; '' where it is not deployed
    parallelcluster_api_url: str = ""
    #: between two ClusterHeartbeats of a cluster
    heartbeat_seconds: float = 60.0
    #: age at which a cluster with our tag and without a living record is looked at as an orphan
    orphan_seconds: float = 600.0
    #: patterns of ARNs of those who may do everything; separated by commas
    admins: tuple[str, ...] = ("*",)
    #: of those who submit and create, and change what is theirs
    members: tuple[str, ...] = ("*",)
    #: of those who read
    viewers: tuple[str, ...] = ("*",)
    #: entries of the audit list are kept so long
    audit_days: int = 400
    #: a run that may cost more waits for an approval; None: no run does
    approval_above_usd: float | None = None
    #: so many people approve it, none of them the one who asked
    approvals_needed: int = 1
    #: nobody approves it after that
    approval_seconds: float = 86400.0
    #: patterns of ARNs of those who approve, separated by commas; '' are the admins
    approvers: tuple[str, ...] = ()
    #: whether somebody shows runs and is woken at each change of one; steps alone has it
    tell_changes: bool = False
    #: the topic of notices; the sweep alone has it
    notice_topic_arn: str = ""
    #: the secret with the list of Slack's people; '' where there is none
    slack_people: str = ""
    #: where AWS is; '' on AWS itself. On the local cloud webhooks may be sent to this machine
    aws_endpoint: str = ""
    #: what every response_url of Slack begins with
    slack_hooks: str = "https://hooks.slack.com/"
    #: the id of the channel that has a message for each run; '' where there is none
    slack_channel: str = ""
    #: after this hour of each day the channel has a digest; None: there is none
    slack_digest_hour: int | None = None
    #: the IANA time zone of that hour
    slack_digest_zone: str = "UTC"
    #: the secret with the token of the app's bot
    slack_bot_token: str = ""
    #: what the addresses of Slack's Web API begin with
    slack_api: str = "https://slack.com/api/"

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings.

        Raises MissingSetting with the name of the missing or wrong variable.
        """
        env = os.environ if environ is None else environ
        return _with_slack(_with_people(_of_stack(cls, env), env), env)


def _of_stack(cls: type[Settings], env: Mapping[str, str]) -> Settings:
    return cls(
        stage=_required(env, "STAGE"),
        region=_region(env),
        table_name=_required(env, "TABLE_NAME"),
        data_bucket=_required(env, "DATA_BUCKET"),
        event_bus_name=_required(env, "EVENT_BUS_NAME"),
        dead_letters_url=_required(env, "DEAD_LETTERS_URL"),
        run_machine_arn=_required(env, "RUN_MACHINE_ARN"),
        cluster_machine_arn=_required(env, "CLUSTER_MACHINE_ARN"),
        teardown_machine_arn=_required(env, "TEARDOWN_MACHINE_ARN"),
        schedule_group=_required(env, "SCHEDULE_GROUP"),
        steps_function_arn=_required(env, "STEPS_FUNCTION_ARN"),
        schedules_role_arn=_required(env, "SCHEDULES_ROLE_ARN"),
        node_boundary_arn=_required(env, "NODE_BOUNDARY_ARN"),
        secret_prefix=_required(env, "SECRET_PREFIX"),
        default_subnet_ids=_comma_list(env, "DEFAULT_SUBNET_IDS"),
        default_security_group_ids=_comma_list(env, "DEFAULT_SECURITY_GROUP_IDS"),
        parallelcluster_api_url=env.get("PARALLELCLUSTER_API_URL", "").strip(),
        heartbeat_seconds=_positive_seconds(env, "HEARTBEAT_SECONDS", 60.0),
        orphan_seconds=_positive_seconds(env, "ORPHAN_SECONDS", 600.0),
        tell_changes=env.get("TELL_CHANGES", "").strip() == "true",
        notice_topic_arn=env.get("NOTICE_TOPIC_ARN", "").strip(),
        aws_endpoint=env.get("AWS_ENDPOINT_URL", "").strip(),
    )


def _with_people(settings: Settings, env: Mapping[str, str]) -> Settings:
    """Who may what, and what others approve."""
    return replace(
        settings,
        admins=_patterns(env, "ADMINS"),
        members=_patterns(env, "MEMBERS"),
        viewers=_patterns(env, "VIEWERS"),
        audit_days=_days(env, "AUDIT_DAYS", 400),
        approval_above_usd=_usd(env, "APPROVAL_ABOVE_USD"),
        approvals_needed=_people(env, "APPROVALS_NEEDED"),
        approval_seconds=_positive_seconds(env, "APPROVAL_SECONDS", 86400.0),
        approvers=_comma_list(env, "APPROVERS"),
    )


def _with_slack(settings: Settings, env: Mapping[str, str]) -> Settings:
    return replace(
        settings,
        slack_people=env.get("SLACK_PEOPLE", "").strip(),
        slack_hooks=env.get("SLACK_HOOKS", "").strip() or settings.slack_hooks,
        slack_channel=env.get("SLACK_CHANNEL", "").strip(),
        slack_digest_hour=_hour(env, "SLACK_DIGEST_HOUR"),
        slack_digest_zone=env.get("SLACK_DIGEST_ZONE", "").strip() or settings.slack_digest_zone,
        slack_bot_token=env.get("SLACK_BOT_TOKEN", "").strip(),
        slack_api=env.get("SLACK_API", "").strip() or settings.slack_api,
    )


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise MissingSetting(
            f"the environment variable {name} is not set; template.yaml sets it on every function"
        )
    return value


def _region(env: Mapping[str, str]) -> str:
    return env.get("AWS_REGION", "").strip() or _required(env, "AWS_DEFAULT_REGION")


def _comma_list(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in env.get(name, "").split(",") if part.strip())


def _patterns(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Everybody where the variable is not set; nobody where it is empty."""
    return _comma_list(env, name) if name in env else ("*",)


def _days(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    if text and not (text.isdecimal() and int(text) > 0):
        raise MissingSetting(
            f"the environment variable {name} is '{text}'; it must be a whole number of days "
            "above 0, such as 400"
        )
    return int(text) if text else default


def _usd(env: Mapping[str, str], name: str) -> float | None:
    text = env.get(name, "").strip()
    if not text:
        return None
    try:
        usd = float(text)
    except ValueError:
        usd = -1.0
    if not 0 <= usd < float("inf"):
        raise MissingSetting(
            f"the environment variable {name} is '{text}'; it must be an amount in USD, such as "
            "500, or empty"
        )
    return usd


def _hour(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "").strip()
    if text and not (text.isascii() and text.isdecimal() and int(text) < 24):
        raise MissingSetting(
            f"the environment variable {name} is '{text}'; it must be an hour from 0 to 23, or "
            "empty"
        )
    return int(text) if text else None


def _people(env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "").strip() or "1"
    if text not in ("1", "2"):
        raise MissingSetting(f"the environment variable {name} is '{text}'; it must be 1 or 2")
    return int(text)


def _positive_seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "").strip()
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise MissingSetting(
            f"the environment variable {name} is '{text}'; it must be a number of seconds "
            "above 0, such as 60"
        )
    return seconds
