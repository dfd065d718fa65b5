"""What roles have in common that SageMaker assumes: of a cluster's nodes, and of a job's hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainyard_contracts.events import SOURCE

Statement = dict[str, Any]
#: The account of AWS's Deep Learning Containers in most regions.
AWS_IMAGES = "763104351884"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


def report_facts(bus: str) -> Statement:
    return allow(
        "ReportFacts", ["events:PutEvents"], bus, {"StringEquals": {"events:source": SOURCE}}
    )


def agent_key(secrets: str, name: str) -> Statement:
    """Secrets Manager ends a secret's ARN with six characters of its own."""
    return allow("AgentKey", ["secretsmanager:GetSecretValue"], f"{secrets}:{name}-??????")


def job_secrets(secrets: str, names: Iterable[str]) -> list[Statement]:
    """The secrets that the cluster's spec gives to its jobs, and no others."""
    named = [f"{secrets}:{name}-??????" for name in sorted(set(names))]
    return [allow("JobSecrets", ["secretsmanager:GetSecretValue"], named)] if named else []


def images(partition: str, registry: str) -> list[Statement]:
    """Images that jobs run in; the stack's boundary says of which repositories.

    Any run may name another image, also long after its cluster was made.
    """
    pull = ["BatchGetImage", "GetDownloadUrlForLayer", "BatchCheckLayerAvailability"]
    accounts = (registry, f"{partition}:ecr:*:{AWS_IMAGES}")
    return [
        allow("LogInToRegistries", ["ecr:GetAuthorizationToken"], "*"),
        allow(
            "PullImages",
            [f"ecr:{action}" for action in pull],
            [f"{account}:repository/*" for account in accounts],
        ),
    ]


def metrics(namespace: str) -> Statement:
    condition = {"StringEquals": {"cloudwatch:namespace": namespace}}
    return allow("Metrics", ["cloudwatch:PutMetricData"], "*", condition)


def allow(
    sid: str,
    actions: list[str],
    resource: str | list[str],
    condition: Mapping[str, Any] | None = None,
) -> Statement:
    statement = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}
    return statement | ({"Condition": condition} if condition else {})
