"""The backend `parallelcluster`: AWS ParallelCluster with Slurm on EC2, by its official API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.aws.send_command import SendCommand
from trainyard.backends.lifecycle_bundle import BundleSources, sizes, upload
from trainyard.backends.parallelcluster import events, policies
from trainyard.backends.parallelcluster.answers import ClusterDescription
from trainyard.backends.parallelcluster.api import ParallelClusterApi
from trainyard.backends.parallelcluster.changes import ClusterChanges
from trainyard.backends.parallelcluster.config import configuration, document
from trainyard.backends.parallelcluster.failures import why_it_failed
from trainyard.backends.parallelcluster.fields import words_of
from trainyard.backends.parallelcluster.logs import lifecycle_tail
from trainyard.backends.parallelcluster.making import Making, ParallelClusterSettings, making_of
from trainyard.backends.parallelcluster.node_files import generated_files
from trainyard.backends.parallelcluster.nodes import head_of, node_of
from trainyard.backends.parallelcluster.prices import product
from trainyard.backends.parallelcluster.refusals import NO_STACK, Gone, Invalid, wrong_version
from trainyard.backends.parallelcluster.spot import read_warning
from trainyard.backends.parallelcluster.states import PROTECTED, cluster_status
from trainyard.backends.parallelcluster.subscription import GROUPS, Subscriptions, stack_of
from trainyard.domain import errors, names
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.blobs import Blobs
from trainyard.outside.commands import CommandResult
from trainyard.outside.policies import Policies
from trainyard.outside.seen_clusters import (
    BackendCluster,
    BackendRequest,
    BatchResult,
    Product,
    Remains,
)
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts import packed, places
from trainyard_contracts.specs import JobSpec

NAME = "parallelcluster"
#: Of the envelope of a line of CloudWatch Logs.
LOG_SOURCE = "aws.logs"
#: A command has no profile and so no PATH of ours.
PROGRAMS = "/opt/trainyard/bin"
_NO_API = (
    "this stack knows no address of ParallelCluster's API (parameter ParallelClusterApiUrl), so "
    "it makes no cluster of backend 'parallelcluster'"
)
_NO_REBOOT = (
    "ParallelCluster takes a node that is rebooted for broken and replaces it; ask for a "
    "replacement instead (trainyard node replace CLUSTER NODE)"
)
_OTHER_RECORD = (
    "that was made for another record of this stack. Choose another name. If that record was lost, "
    "restore the table; if nobody needs the cluster, delete it by hand "
    "(docs/operations.md, Clusters without a record)."
)


@dataclass(frozen=True)
class Adapters:
    """What the backend calls beside the API; each makes its client on the first call."""

    blobs: Blobs
    policies: Policies
    commands: SendCommand
    subscriptions: Subscriptions
    ec2: Any


class ParallelCluster:
    """The port `Backend` on ParallelCluster. `api` is None where the stack knows no such API."""

    def __init__(
        self,
        api: ParallelClusterApi | None,
        adapters: Adapters,
        settings: ParallelClusterSettings,
        sources: BundleSources | None = None,
    ) -> None:
        self._known_api = api
        self._with = adapters
        self._settings = settings
        self._known_sources = sources
        self._ec2 = adapters.ec2
        self._heads: dict[str, str] = {}  # ARN -> instance id: a head node is never replaced
        self._listed: dict[str, ClusterDescription] = {}
        self._subscribed: set[str] = set()

    @property
    def adoptions(self) -> None:
        """Clusters that others made are not adopted."""
        return None

    @property
    def changes(self) -> ClusterChanges:
        return ClusterChanges(lambda: self._api, self._with.blobs, self._settings)

    def plan(
        self, cluster: Cluster, *, tried: bool = True, job: JobSpec | None = None
    ) -> BackendRequest:
        making = making_of(cluster, self._settings)
        request = {
            "clusterName": cluster.name,
            "clusterConfiguration": configuration(making),
        }
        files = sizes(self._sources, generated_files(making), _prefix(making))
        said = self._tried(making) if tried else []
        return BackendRequest("CreateCluster", request, files, said)

    def create(self, cluster: Cluster) -> str:
        api, making = self._api, making_of(cluster, self._settings)
        # Before anything else: policy and files of this name may be those of a living cluster.
        if (known := self._description(cluster.name)) is not None:
            return self._ours(cluster, known)
        self._with.policies.ensure(policies.policy_of(making))
        upload(self._with.blobs, self._sources, generated_files(making), _prefix(making))
        try:
            accepted = api.create(cluster.name, document(making))
        except errors.ClusterExists:
            if (known := self._description(cluster.name)) is None:
                raise errors.ConflictError(
                    f"a cluster named '{cluster.name}' was there a moment ago and is gone now"
                ) from None
            return self._ours(cluster, known)
        except Invalid as refused:
            raise self._judged(making, refused) from refused
        if (wrong := wrong_version(accepted.cluster.version)) is not None:
            raise wrong
        return accepted.cluster.cloudformation_stack_arn

    def attend(self, cluster: Cluster) -> None:
        """Subscribe to the cluster's log, which is there some time after `create`."""
        if cluster.arn is None or cluster.arn in self._subscribed:
            return
        since = int(cluster.created_at.timestamp() * 1000)
        try:
            done = self._with.subscriptions.ensure(cluster.name, cluster.arn, since)
        except errors.TrainyardError:
            return  # a cluster without it works, and its troubles come to light later
        if done:
            self._subscribed.add(cluster.arn)

    def describe(self, name: str) -> BackendCluster | None:
        known = self._description(name)
        return None if known is None else self._seen(known)

    def event_reason(self, name: str, event_id: str) -> str:
        """The events say it themselves, but for what became of the fleet."""
        known = self._description(name) if event_id == events.BOOT_FAILED else None
        protected = known is not None and known.compute_fleet_status == PROTECTED
        return events.PROTECTED_MODE if protected else ""

    def nodes(self, cluster: Cluster) -> list[ClusterNode]:
        try:
            return [node_of(one) for one in self._api.instances(cluster.name)]
        except Gone:
            return []

    def controller(self, cluster: Cluster) -> ClusterNode | None:
        known = self._description(cluster.name)
        return None if known is None or known.head_node is None else head_of(known.head_node)

    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        """The agent packs a long answer, for Systems Manager keeps only the first characters."""
        command = [f"{PROGRAMS}/{argv[0]}", packed.OPTION, *argv[1:]]
        try:
            result = self._with.commands.run(
                self._head(cluster), command, timeout_seconds=timeout_seconds
            )
        except errors.NodeUnreachable:
            self._heads.pop(cluster.arn or "", None)  # it may have another instance
            raise
        try:
            return replace(result, stdout=packed.unpack(result.stdout))
        except packed.NotWhole as torn:
            raise errors.CommandFailed(f"the agent's answer did not come whole: {torn}") from torn

    def product(self, instance_type: str) -> Product:
        return product(instance_type)

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        if self._known_api is None:
            return None
        if envelope.get("source") == LOG_SOURCE:
            return self._read_line(envelope, now)
        found = events.read_event(envelope, now)
        if found is not None:
            return found
        return read_warning(envelope, now, self._settings.stage, self._tags_of)

    def replace(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        """Terminate the instances: ParallelCluster sets their nodes down, and starts others.

        Static nodes come again by themselves, the others when a job wants them.
        """
        try:
            known = {one.instance_id: node_of(one) for one in self._api.instances(name)}
        except Gone:
            raise errors.ClusterNotFound(f"AWS has no cluster '{name}'") from None
        done, failed = [], {}
        for instance in dict.fromkeys(instance_ids):
            node = known.get(instance)
            if node is None or node.role != "worker":
                failed[instance] = f"it is no worker of cluster '{name}'"
                continue
            try:
                if node.status != NodeState.SHUTTING_DOWN:
                    self._terminate(instance)
                done.append(instance)
            except errors.TrainyardError as refused:
                failed[instance] = refused.detail
        return BatchResult(done, failed)

    def reboot(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        return BatchResult([], dict.fromkeys(instance_ids, _NO_REBOOT))

    def delete(self, name: str) -> bool:
        """Not while the stack is updated.

        CloudFormation refuses that, and ParallelCluster ends all workers when it does.
        """
        try:
            status = self._api.describe(name).cloudformation_stack_status
            if status.startswith("UPDATE_") and status.endswith("IN_PROGRESS"):
                raise errors.ConflictError(
                    f"CloudFormation deletes no stack that is {status}; ask again once it is over"
                )
            self._api.delete(name)
        except Gone:
            return False
        return True

    def clean_up(self, name: str, generation: int) -> None:
        self._with.subscriptions.remove(name)
        self._with.policies.delete(policies.arn_of(self._settings, name, generation))

    def remains(self) -> list[Remains]:
        if self._known_api is None:
            return []
        found = self._with.policies.below(policies.policies_path(self._settings))
        return [Remains(NAME, *names.cluster_of_role(one.path), one.created_at) for one in found]

    def tagged(self) -> list[BackendCluster]:
        if self._known_api is None:
            return []
        found = []
        for summary in self._known_api.clusters():
            known = self._remembered(summary.cluster_name, summary.cloudformation_stack_arn)
            if known is None or _tags(known).get(places.STAGE_TAG) != self._settings.stage:
                continue
            status = cluster_status(summary.cluster_status, summary.cloudformation_stack_status)
            found.append(_backend_cluster(known, status, summary.cluster_status))
        return found

    def lifecycle_log(self, cluster: Cluster, *, lines: int, instance_id: str | None = None) -> str:
        return lifecycle_tail(self._api, cluster, lines, instance_id)

    @property
    def _api(self) -> ParallelClusterApi:
        if self._known_api is None:
            raise errors.BackendRejected(_NO_API, next_step=NO_STACK)
        return self._known_api

    @property
    def _sources(self) -> BundleSources:
        if self._known_sources is None:
            self._known_sources = BundleSources.of_layers()
        return self._known_sources

    def _tried(self, making: Making) -> list[str]:
        """What ParallelCluster says of the configuration; nothing is made. Raises Invalid."""
        if self._known_api is None:
            return [f"{_NO_API}. {NO_STACK}"]
        try:
            said = self._known_api.dry_run(making.spec.name, document(making.before_it_is_made()))
        except Invalid as refused:
            raise refused.told_of(making.spec) from refused
        except errors.RetryableError as unanswered:
            return [f"ParallelCluster did not try the configuration: {unanswered.detail}"]
        return [words_of(making.spec, finding) for finding in said.findings]

    def _judged(self, making: Making, refused: Invalid) -> errors.TrainyardError:
        """A policy of a moment ago may not be known everywhere yet."""
        ours = policies.policy_arn(making)
        if any(ours in finding.message for finding in refused.findings):
            return errors.RetryableError(refused.detail)
        return refused.told_of(making.spec)

    def _description(self, name: str) -> ClusterDescription | None:
        try:
            return self._api.describe(name)
        except Gone:
            return None

    def _remembered(self, name: str, arn: str) -> ClusterDescription | None:
        """A cluster of a list, with its tags and its age, which never change."""
        if arn not in self._listed:
            known = self._description(name)
            if known is None or known.cloudformation_stack_arn != arn:
                return None
            self._listed[arn] = known
        return self._listed[arn]

    def _seen(self, known: ClusterDescription) -> BackendCluster:
        status = cluster_status(
            known.cluster_status, known.cloudformation_stack_status, known.compute_fleet_status
        )
        fleet = f", its fleet {known.compute_fleet_status}" if known.compute_fleet_status else ""
        why = why_it_failed(self._api, known) if status == BackendStatus.FAILED else ""
        return _backend_cluster(known, status, f"{known.cluster_status}{fleet}", why)

    def _ours(self, cluster: Cluster, known: ClusterDescription) -> str:
        """The ARN of the cluster that has the name already.

        An earlier try for this very record must have made it.
        """
        tags, arn = _tags(known), known.cloudformation_stack_arn
        named = f"a cluster named '{cluster.name}' exists in this account ({arn})"
        if (
            tags.get(places.STAGE_TAG) != self._settings.stage
            or tags.get(places.CLUSTER_TAG) != cluster.name
        ):
            raise errors.ClusterNameTaken(f"{named} that Trainyard did not create")
        if self._seen(known).status == BackendStatus.DELETING:
            raise errors.ConflictError(
                f"an earlier cluster named '{cluster.name}' is still being deleted"
            )
        if not cluster.is_marked(tags):
            raise errors.ClusterNameTaken(f"{named} {_OTHER_RECORD}")
        return arn

    def _read_line(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        """A line of a cluster's log; which cluster's, the name of the subscription says."""
        detail = envelope.get("detail")
        if not isinstance(detail, Mapping):
            return None
        group, named = str(detail.get("logGroup") or ""), detail.get("filters")
        if not group.startswith(GROUPS):
            return None
        filters = named if isinstance(named, list) else []
        stacks = [stack_of(str(name), self._settings.stage) for name in filters]
        stack = next(filter(None, stacks), "")
        if not stack:
            return "a subscription that is not ours"
        return events.read_message(
            str(detail.get("message") or ""),
            now,
            lambda name: self._stack_arn(name, stack),
        )

    def _stack_arn(self, name: str, stack: str) -> str:
        settings = self._settings
        place = f"{settings.region}:{settings.account}"
        return f"arn:{settings.partition}:cloudformation:{place}:stack/{name}/{stack}"

    def _tags_of(self, instance: str) -> Mapping[str, str]:
        with translated("read an instance's tags"):
            answer = self._ec2.describe_tags(
                Filters=[{"Name": "resource-id", "Values": [instance]}]
            )
        return {tag["Key"]: tag["Value"] for tag in answer["Tags"]}

    def _head(self, cluster: Cluster) -> str:
        if cluster.arn is None:
            raise errors.NodeUnreachable(
                f"cluster {cluster.name} does not exist in AWS yet, so it has no head node to reach"
            )
        if cluster.arn not in self._heads:
            known = self._description(cluster.name)
            if known is None or known.head_node is None:
                raise errors.NodeUnreachable(f"cluster {cluster.name} has no head node now")
            self._heads[cluster.arn] = known.head_node.instance_id
        return self._heads[cluster.arn]

    def _terminate(self, instance: str) -> None:
        known = {"InvalidInstanceID.NotFound": errors.ConflictError}
        with translated(f"terminate {instance}", known):
            self._ec2.terminate_instances(InstanceIds=[instance])


def _prefix(making: Making) -> str:
    return places.lifecycle_prefix(making.spec.name, making.generation)


def _tags(known: ClusterDescription) -> dict[str, str]:
    return {tag.key: tag.value for tag in known.tags or []}


def _backend_cluster(
    known: ClusterDescription, status: BackendStatus, said: str, why: str = ""
) -> BackendCluster:
    return BackendCluster(
        backend=NAME,
        arn=known.cloudformation_stack_arn,
        name=known.cluster_name,
        status=status,
        said=said,
        failure_message=why,
        tags=_tags(known),
        created_at=known.creation_time,
    )
