"""The backend `training-job`: each attempt of a run is a SageMaker training job.

No cluster outlives a job, so a cluster is the role that its jobs act under, and its key.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from trainyard.backends.training_job import states, warnings
from trainyard.backends.training_job.agent import JobAgent
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.events import read_event
from trainyard.backends.training_job.jobs import Jobs
from trainyard.backends.training_job.orders import Order, intent_of, own
from trainyard.backends.training_job.prices import product
from trainyard.backends.training_job.request import create_training_job_request
from trainyard.backends.training_job.role import job_role
from trainyard.domain import errors, names
from trainyard.domain.records import Cluster, ClusterNode, mark_of
from trainyard.domain.states import BackendStatus
from trainyard.outside.commands import CommandResult
from trainyard.outside.roles import FoundRole, Roles
from trainyard.outside.seen_clusters import (
    BackendCluster,
    BackendRequest,
    BatchResult,
    Product,
    Remains,
)
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts import places
from trainyard_contracts.specs import JobSpec

NAME = "training-job"
#: In a plan, what is known once a run is submitted.
_UNKNOWN_RUN, _UNKNOWN_SHA256 = f"run-{'0' * 26}", "0" * 64
_NO_NODES = "AWS chooses and repairs the nodes of a training job; none can be replaced or rebooted"


class TrainingJobs:
    """The port `Backend`."""

    def __init__(
        self, jobs: Jobs, roles: Roles, agent: JobAgent, deployment: JobDeployment
    ) -> None:
        self._jobs = jobs
        self._roles = roles
        self._agent = agent
        self._deployment = deployment

    @property
    def adoptions(self) -> None:
        """Clusters that others made are not adopted."""
        return None

    @property
    def changes(self) -> None:
        """There is nothing between jobs that could be changed."""
        return None

    def plan(
        self, cluster: Cluster, *, tried: bool = True, job: JobSpec | None = None
    ) -> BackendRequest:
        """The request of a run's first job; the ids of run and bundle are not known yet."""
        run_id = cluster.owner_run or _UNKNOWN_RUN
        runs = places.runs_prefix(cluster.name)
        bundle = f"s3://{self._deployment.bucket}/{runs}/{places.bundle_key(run_id, 1)}"
        archive = self._agent.source()
        key = self._deployment.source_key(cluster, archive.name)
        source = f"s3://{self._deployment.bucket}/{key}"
        asked = (job.hyperparameters if job is not None else None) or {}
        order = Order(run_id, 1, bundle, _UNKNOWN_SHA256, source, asked)
        request = create_training_job_request(intent_of(cluster, self._deployment, order))
        told = warnings.warnings(own(cluster))
        return BackendRequest("CreateTrainingJob", request, {key: len(archive.body)}, told)

    def create(self, cluster: Cluster) -> str:
        """Only the role is made; each attempt makes a job."""
        self._roles.ensure(job_role(cluster, self._deployment))
        return self._deployment.role_arn(cluster)

    def attend(self, cluster: Cluster) -> None:
        """A role is whole once it is made."""

    def describe(self, name: str) -> BackendCluster | None:
        found = self._roles_of(name)
        return self._cluster(found[-1]) if found else None

    def _roles_of(self, name: str) -> builtins.list[FoundRole]:
        path = f"{places.job_roles_path(self._deployment.stage)}{name}/"
        return sorted(self._roles.below(path), key=lambda role: role.created_at)

    def _cluster(self, role: FoundRole) -> BackendCluster:
        name, generation, made_at = names.record_of_job_role(role.path)
        return BackendCluster(
            backend=NAME,
            arn=self._deployment.found_role_arn(role.path, role.name),
            name=name,
            status=BackendStatus.IN_SERVICE,
            said="a role, whose jobs come and go",
            tags={
                places.STAGE_TAG: self._deployment.stage,
                places.CLUSTER_TAG: name,
                places.RECORD_TAG: mark_of(generation, made_at),
            },
            created_at=role.created_at,
        )

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        return read_event(envelope, now, self._deployment)

    def event_reason(self, name: str, event_id: str) -> str:
        return ""

    def nodes(self, cluster: Cluster) -> builtins.list[ClusterNode]:
        """The nodes of the jobs that are not over; AWS tells of none alone."""
        found = self._jobs.running(cluster.name)
        return [node for job in found for node in self._nodes_of(cluster, job)]

    def _nodes_of(self, cluster: Cluster, job: Mapping[str, Any]) -> builtins.list[ClusterNode]:
        """algo-1, algo-2, ... as the hosts of a job are named, through its groups in order."""
        status = str(job["TrainingJobStatus"])
        secondary = str(job.get("SecondaryStatus") or "")
        types = [one for group in cluster.spec.groups() for one in [group] * group.count]
        return [
            ClusterNode(
                instance_id=f"algo-{number}",
                group=group.name,
                role="worker",
                instance_type=group.instance_type,
                status=states.node_state(status, secondary),
                message=states.words(status, secondary),
                name=f"algo-{number}",
            )
            for number, group in enumerate(types, start=1)
        ]

    def controller(self, cluster: Cluster) -> ClusterNode | None:
        return None

    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        return self._agent.run(cluster, argv, timeout_seconds)

    def product(self, instance_type: str) -> Product:
        return product(instance_type)

    def replace(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        raise errors.BackendRejected(_NO_NODES, next_step=_INSTEAD)

    def reboot(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        raise errors.BackendRejected(_NO_NODES, next_step=_INSTEAD)

    def delete(self, name: str) -> bool:
        """Stop what still runs, give up the nodes that AWS keeps, and at last delete the role.

        The containers need the role until they have ended, so it takes several calls.
        """
        roles = self._roles_of(name)
        running = self._jobs.running(name)
        for job in running:
            self._jobs.stop(job["TrainingJobName"])
        for job in self._jobs.pools(name):
            self._jobs.release(job["TrainingJobName"])
        if not running:
            for role in roles:
                self._roles.delete(role.name, role.path)
        return bool(roles)

    def clean_up(self, name: str, generation: int) -> None:
        """Nothing was made beside the role."""

    def remains(self) -> builtins.list[Remains]:
        return []

    def tagged(self) -> builtins.list[BackendCluster]:
        found = self._roles.below(places.job_roles_path(self._deployment.stage))
        return [self._cluster(role) for role in found]

    def lifecycle_log(self, cluster: Cluster, *, lines: int, instance_id: str | None = None) -> str:
        return ""


_INSTEAD = "Nothing: a lost node ends the job, and the next attempt is another job."
