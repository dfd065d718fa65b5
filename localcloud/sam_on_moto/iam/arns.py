"""Which resources an AWS request touches, as ARNs: what IAM policies are written about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

Parameters = Mapping[str, Any]


class Namer:
    """Builds ARNs of one account and region."""

    def __init__(self, region: str, account: str) -> None:
        self.region = region
        self.account = account

    def arn(self, service: str, rest: str) -> str:
        return (
            rest
            if rest.startswith("arn:")
            else f"arn:aws:{service}:{self.region}:{self.account}:{rest}"
        )


Finder = Callable[[str, Parameters, str, Namer], list[str]]
"""finder(action, parameters, path, namer) -> the ARNs of what a request of its service touches."""


def resources(
    finders: Mapping[str, Finder],
    service: str,
    action: str,
    parameters: Parameters,
    path: str,
    namer: Namer,
) -> list[str]:
    """ARNs of the request's resources; ["*"] for a service or action that has none we know."""
    finder = finders.get(service)
    return (finder(action, parameters, path, namer) if finder else []) or ["*"]


def _dynamodb(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    if action in ("TransactWriteItems", "TransactGetItems"):
        return [
            n.arn("dynamodb", "table/" + next(iter(item.values()))["TableName"])
            for item in p.get("TransactItems", [])
        ]
    if action in ("BatchWriteItem", "BatchGetItem"):
        return [n.arn("dynamodb", f"table/{table}") for table in p.get("RequestItems", {})]
    if "TableName" not in p:
        return []
    index = f"/index/{p['IndexName']}" if p.get("IndexName") else ""
    return [n.arn("dynamodb", f"table/{p['TableName']}{index}")]


def _events(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    if action == "PutEvents":
        names = {
            (entry.get("EventBusName") or "default").split("/")[-1]
            for entry in p.get("Entries", [])
        }
        return [n.arn("events", f"event-bus/{name}") for name in sorted(names)]
    return []


def _sqs(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    return [n.arn("sqs", p["QueueUrl"].split("/")[-1])] if p.get("QueueUrl") else []


def _sns(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    topic = p.get("TopicArn") or p.get("TargetArn")
    return [topic] if topic else []


def _states(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    # SendTask* name no resource. On AWS, too, a policy restricts them to "*" or to a machine that
    # the request does not carry.
    return [p[key] for key in ("stateMachineArn", "executionArn", "resourceArn") if p.get(key)][:1]


def _secretsmanager(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    name = p.get("SecretId") or p.get("Name")
    # AWS appends six random characters to a secret's ARN, and policies end in -?????? or *.
    return (
        [name if name.startswith("arn:") else n.arn("secretsmanager", f"secret:{name}-AbCdEf")]
        if name
        else []
    )


def _logs(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    group = p.get("logGroupName")
    if not group and action == "DescribeLogGroups":
        return [n.arn("logs", "log-group:*")]
    if not group:
        return []
    stream = p.get("logStreamName")
    return [
        n.arn(
            "logs", f"log-group:{group}:log-stream:{stream}" if stream else f"log-group:{group}:*"
        )
    ]


def _lambda(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    found = re.search(r"/functions/([^/]+)", unquote(path))
    return (
        [n.arn("lambda", found[1] if found[1].startswith("arn:") else f"function:{found[1]}")]
        if found
        else []
    )


def _iam(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    if p.get("RoleName"):
        return [
            f"arn:aws:iam::{n.account}:role"
            f"{p.get('Path') or _path_of(p['RoleName'], n.account)}{p['RoleName']}"
        ]
    if action == "CreatePolicy":
        return [f"arn:aws:iam::{n.account}:policy{p.get('Path') or '/'}{p['PolicyName']}"]
    return [p["PolicyArn"]] if p.get("PolicyArn") else []


def _path_of(role: str, account: str) -> str:
    """A request names a role by its name alone; its ARN has its path."""
    from moto.iam.models import iam_backends

    return next(
        (found.path for found in iam_backends[account]["aws"].get_roles() if found.name == role),
        "/",
    )


def _scheduler(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    found = re.search(r"/schedules/([^/?]+)", unquote(path))
    group = p.get("GroupName") or p.get("groupName") or "default"
    return [n.arn("scheduler", f"schedule/{group}/{found[1]}")] if found else []


def scheduler_roles(action: str, parameters: Parameters) -> list[str]:
    """The role under which EventBridge Scheduler calls a schedule's target is passed to it."""
    role = (parameters.get("Target") or {}).get("RoleArn")
    return [role] if role and action in ("CreateSchedule", "UpdateSchedule") else []


def _sts(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    return [p["RoleArn"]] if p.get("RoleArn") else []


#: By a service's signing name. What a product does besides, it adds.
FINDERS: dict[str, Finder] = {
    "dynamodb": _dynamodb,
    "events": _events,
    "sqs": _sqs,
    "sns": _sns,
    "states": _states,
    "secretsmanager": _secretsmanager,
    "logs": _logs,
    "lambda": _lambda,
    "iam": _iam,
    "scheduler": _scheduler,
    "sts": _sts,
}
