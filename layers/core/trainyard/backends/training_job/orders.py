"""An attempt's training job as it is ordered: what the container must know of run and stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.intent import Intent, Program
from trainyard.backends.training_job.source import ENTRY, SOURCE, bootstrap
from trainyard.domain.records import Cluster
from trainyard_contracts import places
from trainyard_contracts.places import CLUSTER_TAG, RECORD_TAG, RUN_TAG, STAGE_TAG
from trainyard_contracts.training_job import TrainingJobClusterSpec


@dataclass(frozen=True)
class Order:
    """One attempt of a run; its bundle says what the container does."""

    run_id: str
    attempt: int
    bundle_uri: str
    bundle_sha256: str
    source_uri: str
    #: The user's; the program gets them from the container.
    hyperparameters: Mapping[str, JsonValue] = field(default_factory=dict)


def intent_of(cluster: Cluster, deployment: JobDeployment, order: Order) -> Intent:
    """The training job of the order."""
    data, spec = deployment.data_uri(cluster.name, order.run_id), own(cluster)
    # AWS's toolkit does not hand SIGTERM on, so it is left out where nothing is asked of it.
    alone = spec.distribution.kind == "none"
    return Intent(
        spec=spec,
        program=Program(ENTRY, order.source_uri),
        entrypoint=bootstrap() if alone else (),
        job_name=deployment.job_name(order.run_id, order.attempt),
        region=deployment.region,
        role_arn=deployment.role_arn(cluster),
        output_uri=f"{data}{places.ATTEMPTS}/",
        hyperparameters=order.hyperparameters,
        environment=_variables(cluster, deployment, order, data),
        tags=tags(cluster, deployment.stage, order.run_id),
    )


def own(cluster: Cluster) -> TrainingJobClusterSpec:
    """The spec by its own class: every cluster that comes here has it."""
    assert isinstance(cluster.spec, TrainingJobClusterSpec)
    return cluster.spec


def tags(cluster: Cluster, stage: str, run_id: str) -> dict[str, str]:
    """Those by which we know what is ours."""
    return {
        STAGE_TAG: stage,
        CLUSTER_TAG: cluster.name,
        RECORD_TAG: cluster.mark,
        RUN_TAG: run_id,
    }


def _variables(
    cluster: Cluster, deployment: JobDeployment, order: Order, data: str
) -> dict[str, str]:
    secret = places.agent_key_secret(deployment.secret_prefix, cluster.name)
    return {
        "TRAINYARD_RUN_ID": order.run_id,
        "TRAINYARD_ATTEMPT": str(order.attempt),
        "TRAINYARD_BUNDLE": order.bundle_uri,
        "TRAINYARD_BUNDLE_SHA256": order.bundle_sha256,
        "TRAINYARD_DATA": data,
        "TRAINYARD_EVENT_BUS": deployment.event_bus,
        "TRAINYARD_CLUSTER": cluster.name,
        "TRAINYARD_CLUSTER_ARN": deployment.role_arn(cluster),
        "TRAINYARD_KEY_SECRET": secret,
        SOURCE: order.source_uri,
    }
