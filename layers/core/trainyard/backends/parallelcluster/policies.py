"""What our agent, and so any job, may do on each node of one cluster: a policy beside SSM's.

ParallelCluster makes the nodes' roles itself and attaches policies to them that are named
parallelcluster..., so this one is. A policy allows nothing that belongs to another cluster.
"""

from __future__ import annotations

from typing import Any

from trainyard.backends.parallelcluster.making import Making, ParallelClusterSettings
from trainyard.domain import names
from trainyard.outside.policies import NodePolicy
from trainyard_contracts import places
from trainyard_contracts.events import SOURCE
from trainyard_contracts.places import CLUSTER_TAG, STAGE_TAG

_PULL = ("BatchGetImage", "GetDownloadUrlForLayer", "BatchCheckLayerAvailability")


def policy_name(settings: ParallelClusterSettings, cluster: str, generation: int) -> str:
    """Unique in the account, as the name of a node's role is."""
    return f"parallelcluster-{names.node_role(settings.stage, cluster, generation)}"


def policies_path(settings: ParallelClusterSettings) -> str:
    """Below it lie the policies of a stack's clusters, and nothing else."""
    return f"/parallelcluster{places.roles_path(settings.stage)}"


def policy_path(settings: ParallelClusterSettings, cluster: str, generation: int) -> str:
    """The path tells whose it is, as that of a node's role does."""
    return f"/parallelcluster{names.node_role_path(settings.stage, cluster, generation)}"


def arn_of(settings: ParallelClusterSettings, cluster: str, generation: int) -> str:
    named = policy_name(settings, cluster, generation)
    path = policy_path(settings, cluster, generation)
    return f"{_arn(settings, 'iam', '')}:policy{path}{named}"


def policy_arn(making: Making) -> str:
    return arn_of(making.settings, making.spec.name, making.generation)


def policy_of(making: Making) -> NodePolicy:
    """What is made before the cluster, and is deleted after it."""
    settings, cluster, generation = making.settings, making.spec.name, making.generation
    return NodePolicy(
        arn=policy_arn(making),
        name=policy_name(settings, cluster, generation),
        path=policy_path(settings, cluster, generation),
        document=node_policy(making),
        tags={STAGE_TAG: settings.stage, CLUSTER_TAG: cluster},
    )


def node_policy(making: Making) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": _statements(making)}


def _statements(making: Making) -> list[dict[str, Any]]:
    settings, cluster = making.settings, making.spec.name
    bucket = f"arn:{settings.partition}:s3:::{settings.bucket}"
    runs = f"{bucket}/{places.runs_prefix(cluster)}"
    synced = f"{bucket}/{places.SYNC}/{cluster}/*"
    scripts = f"{bucket}/{places.lifecycle_prefix(cluster, making.generation)}/*"
    written = [f"{runs}/*/{name}/*" for name in (places.LOGS, places.EXPORT, places.FETCHED)]
    write = ["s3:PutObject", "s3:AbortMultipartUpload"]
    return [
        {
            **_allow(
                "ReportFacts",
                ["events:PutEvents"],
                [f"{_arn(settings, 'events')}:event-bus/{settings.event_bus}"],
            ),
            "Condition": {"StringEquals": {"events:source": SOURCE}},
        },
        _allow("ReadBundles", ["s3:GetObject"], [scripts, f"{runs}/*", synced]),
        _allow("WriteLogsAndExports", write, written),
        _allow("Sync", [*write, "s3:DeleteObject"], [synced]),
        _allow("ListData", ["s3:ListBucket"], [bucket]),
        _allow("Secrets", ["secretsmanager:GetSecretValue"], _secrets(making)),
        _allow("LogInToRegistries", ["ecr:GetAuthorizationToken"], ["*"]),
        _allow(
            "PullImages",
            [f"ecr:{action}" for action in _PULL],
            [f"arn:{settings.partition}:ecr:*:*:repository/*"],
        ),
    ]


def _secrets(making: Making) -> list[str]:
    """The agents' key, and what the spec gives to jobs; AWS ends each ARN with six characters."""
    key = places.agent_key_secret(making.settings.secret_prefix, making.spec.name)
    held = f"{_arn(making.settings, 'secretsmanager')}:secret"
    return [f"{held}:{name}-??????" for name in (key, *sorted(set(making.spec.job_secrets)))]


def _arn(settings: ParallelClusterSettings, service: str, region: str | None = None) -> str:
    place = settings.region if region is None else region
    return f"arn:{settings.partition}:{service}:{place}:{settings.account}"


def _allow(sid: str, actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
