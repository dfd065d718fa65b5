"""The backend `hyperpod`: SageMaker HyperPod clusters with Slurm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any, Literal

from trainyard.aws.run_commands import SessionCommands
from trainyard.aws.session_channel import SessionChannel
from trainyard.backends.hyperpod import generated_files
from trainyard.backends.hyperpod import request as requests
from trainyard.backends.hyperpod.adopting import HyperPodAdoptions
from trainyard.backends.hyperpod.events import read_event
from trainyard.backends.hyperpod.logs import lifecycle_tail
from trainyard.backends.hyperpod.naming import HyperPodSettings, lifecycle_prefix, role_arn
from trainyard.backends.hyperpod.prices import product
from trainyard.backends.hyperpod.refusals import Denied, Gone, NameInUse, translated
from trainyard.backends.hyperpod.role import node_role
from trainyard.backends.hyperpod.states import cluster_status, node_message, node_state
from trainyard.backends.lifecycle_bundle import BundleSources, sizes, upload
from trainyard.domain import errors, names
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.blobs import Blobs
from trainyard.outside.commands import CommandResult
from trainyard.outside.roles import Roles
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

NAME = "hyperpod"
_PAGE = 100
_BATCH = 25  # BatchReplaceClusterNodes and BatchRebootClusterNodes take no more
_PARALLEL = 8
_INSTANCE = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_HOST = re.compile(r"^ip(-\d{1,3}){4}")
_OTHER_RECORD = (
    "that was made for another record of this stack. Choose another name. If that record was lost, "
    "restore the table; if nobody needs the cluster, delete it by hand "
    "(docs/operations.md, Clusters without a record)."
)


class HyperPod:
    """The port `Backend` on SageMaker HyperPod.

    AWS pages: CreateCluster, ListClusterNodes, BatchReplaceClusterNodes.
    """

    def __init__(
        self,
        sagemaker: Any,
        logs: Any,
        blobs: Blobs,
        roles: Roles,
        channel: SessionChannel,
        settings: HyperPodSettings,
        sources: BundleSources | None = None,
    ) -> None:
        self._sagemaker = sagemaker
        self._logs = logs
        self._blobs = blobs
        self._roles = roles
        self._commands = SessionCommands(channel, self.command_target)
        self._settings = settings
        self._sources = sources or BundleSources.of_layers()
        self._addresses: dict[str, str] = {}  # instance id -> address: neither ever changes
        self._tags: dict[str, Mapping[str, str]] = {}
        self._adoptions = HyperPodAdoptions(
            sagemaker, blobs, channel, settings, lambda: self._sources, self._read_tags
        )

    @property
    def changes(self) -> None:
        """A cluster that is there is not changed."""
        return None

    @property
    def adoptions(self) -> HyperPodAdoptions:
        return self._adoptions

    def plan(
        self, cluster: Cluster, *, tried: bool = True, job: JobSpec | None = None
    ) -> BackendRequest:
        generated = generated_files.generated_files(cluster, self._settings)
        files = sizes(self._sources, generated, lifecycle_prefix(cluster))
        return BackendRequest(
            "CreateCluster", requests.create_cluster_request(cluster, self._settings), files
        )

    def create(self, cluster: Cluster) -> str:
        # Before anything else: role and scripts of this name may be those of a living cluster.
        if (known := self.describe(cluster.name)) is not None:
            return self._ours(cluster, known)
        self._roles.ensure(
            node_role(cluster, self._settings)
        )  # first: IAM needs a while until others see it
        generated = generated_files.generated_files(cluster, self._settings)
        upload(self._blobs, self._sources, generated, lifecycle_prefix(cluster))
        try:
            with translated("create the cluster", new_role=role_arn(cluster, self._settings)):
                answer = self._sagemaker.create_cluster(
                    **requests.create_cluster_request(cluster, self._settings)
                )
        except NameInUse:
            if (known := self.describe(cluster.name)) is None:
                raise errors.ConflictError(
                    f"a cluster named '{cluster.name}' was there a moment ago and is gone now"
                ) from None
            return self._ours(cluster, known)
        return str(answer["ClusterArn"])

    def attend(self, cluster: Cluster) -> None:
        """CreateCluster does everything."""

    def describe(self, name: str) -> BackendCluster | None:
        try:
            with translated("describe the cluster"):
                answer = self._sagemaker.describe_cluster(ClusterName=name)
        except Gone:
            return None
        # The service's model has no such status; an answer with it all the same means "gone".
        return None if answer["ClusterStatus"] == "Deleted" else _backend_cluster(name, answer)

    def event_reason(self, name: str, event_id: str) -> str:
        """Ask AWS for the event's reason: EventBridge delivers an event's metadata as null.

        A cluster without continuous provisioning has no events to describe.
        """
        try:
            with translated("describe an event"):
                answer = self._sagemaker.describe_cluster_event(ClusterName=name, EventId=event_id)
        except (Gone, errors.BackendRejected):
            return ""
        metadata = (answer["EventDetails"].get("EventDetails") or {}).get("EventMetadata") or {}
        messages = (
            str(about.get("FailureMessage") or "")
            for about in metadata.values()
            if isinstance(about, dict)
        )
        return next((message for message in messages if message), "")

    def nodes(self, cluster: Cluster) -> list[ClusterNode]:
        summaries = list(self._summaries(cluster.name))
        with ThreadPoolExecutor(_PARALLEL) as pool:
            addresses = list(
                pool.map(lambda summary: self._address(cluster.name, summary), summaries)
            )
        return [
            _node(cluster, summary, address)
            for summary, address in zip(summaries, addresses, strict=True)
        ]

    def controller(self, cluster: Cluster) -> ClusterNode | None:
        """The controller node without looking at any other; None while there is none that runs."""
        group = next(group.name for group in cluster.spec.groups() if group.role == "controller")
        found = [
            summary
            for summary in self._summaries(cluster.name, group)
            if summary["InstanceGroupName"] == group
        ]
        running = [
            summary
            for summary in found
            if node_state(summary["InstanceStatus"]["Status"]) == NodeState.RUNNING
        ] or found
        return _node(cluster, running[0], None) if running else None

    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        return self._commands.run(cluster, argv, timeout_seconds=timeout_seconds)

    def command_target(self, cluster: Cluster) -> str | None:
        """Session Manager's target of the controller; None while there is no controller."""
        node = self.controller(cluster)
        if node is None:
            return None
        return f"sagemaker-cluster:{cluster.id}_{node.group}-{node.instance_id}"

    def product(self, instance_type: str) -> Product:
        return product(instance_type)

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        return read_event(envelope, now)

    def replace(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        return self._batches(
            self._sagemaker.batch_replace_cluster_nodes, "replace nodes", name, instance_ids
        )

    def reboot(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        return self._batches(
            self._sagemaker.batch_reboot_cluster_nodes, "reboot nodes", name, instance_ids
        )

    def delete(self, name: str) -> bool:
        try:
            with translated("delete the cluster"):
                self._sagemaker.delete_cluster(ClusterName=name)
        except Gone:
            return False
        except Denied:
            if self.describe(name) is None:
                return False
            raise
        return True

    def clean_up(self, name: str, generation: int) -> None:
        stage = self._settings.stage
        self._roles.delete(
            names.node_role(stage, name, generation), names.node_role_path(stage, name, generation)
        )

    def remains(self) -> list[Remains]:
        found = self._roles.below(places.roles_path(self._settings.stage))
        return [
            Remains(NAME, *names.cluster_of_role(role.path), role.created_at)
            for role in found
            if not role.path.startswith(places.job_roles_path(self._settings.stage))
        ]

    def tagged(self) -> list[BackendCluster]:
        found = []
        for summary in self._pages(
            self._sagemaker.list_clusters, "ClusterSummaries", "list clusters"
        ):
            tags = self._tags_of(summary["ClusterArn"])
            if tags.get(places.STAGE_TAG) == self._settings.stage:
                found.append(_backend_cluster(summary["ClusterName"], summary, tags))
        return found

    def lifecycle_log(self, cluster: Cluster, *, lines: int, instance_id: str | None = None) -> str:
        if instance_id is None:
            instance_id = self._failed_instance(cluster)
        return lifecycle_tail(self._logs, cluster, lines, instance_id)

    def _failed_instance(self, cluster: Cluster) -> str | None:
        """The instance that AWS's failure message names, as recorded or asked for."""
        detail = cluster.problem.detail if cluster.problem else ""
        if (
            not (named := _INSTANCE.search(detail))
            and (known := self.describe(cluster.name)) is not None
        ):
            named = _INSTANCE.search(known.failure_message)
        return named.group() if named else None

    def _ours(self, cluster: Cluster, known: BackendCluster) -> str:
        """The ARN of the cluster that has the name already.

        An earlier try for this very record must have made it.
        """
        tags = self._tags_of(known.arn)
        named = f"a cluster named '{cluster.name}' exists in this account ({known.arn})"
        if (
            tags.get(places.STAGE_TAG) != self._settings.stage
            or tags.get(places.CLUSTER_TAG) != cluster.name
        ):
            raise errors.ClusterNameTaken(f"{named} that Trainyard did not create")
        if known.status == BackendStatus.DELETING:
            raise errors.ConflictError(
                f"an earlier cluster named '{cluster.name}' is still being deleted"
            )
        if not cluster.is_marked(tags):
            raise errors.ClusterNameTaken(f"{named} {_OTHER_RECORD}")
        return known.arn

    def _summaries(self, name: str, group: str | None = None) -> Iterator[dict[str, Any]]:
        only = {"InstanceGroupNameContains": group} if group else {}
        return self._pages(
            self._sagemaker.list_cluster_nodes,
            "ClusterNodeSummaries",
            "list nodes",
            ClusterName=name,
            **only,
        )

    def _pages(
        self, call: Callable[..., dict[str, Any]], member: str, doing: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        while True:
            with translated(doing):
                answer = call(**request, MaxResults=_PAGE)
            yield from answer.get(member, [])
            if not (token := answer.get("NextToken")):
                return
            request["NextToken"] = token

    def _address(self, name: str, summary: dict[str, Any]) -> str | None:
        """The node's address, from its host name in the list, else by one call a node, once."""
        instance_id = summary["InstanceId"]
        if host := _HOST.match(summary.get("PrivateDnsHostname") or ""):
            return host.group()[3:].replace("-", ".")
        if instance_id not in self._addresses:
            try:
                with translated("describe a node"):
                    node = self._sagemaker.describe_cluster_node(
                        ClusterName=name, NodeId=instance_id
                    )["NodeDetails"]
            except (
                Gone,
                errors.BackendRejected,
            ):  # it left between the two calls; AWS documents no error for that
                return None
            if not node.get("PrivatePrimaryIp"):
                return None
            self._addresses[instance_id] = str(node["PrivatePrimaryIp"])
        return self._addresses[instance_id]

    def _batches(
        self,
        call: Callable[..., dict[str, Any]],
        doing: str,
        name: str,
        instance_ids: Sequence[str],
    ) -> BatchResult:
        successful: list[str] = []
        failed: dict[str, str] = {}
        ids = list(dict.fromkeys(instance_ids))
        for begin in range(0, len(ids), _BATCH):
            batch = ids[begin : begin + _BATCH]
            try:
                with translated(doing):
                    answer = call(ClusterName=name, NodeIds=batch)
            except Gone:
                raise errors.ClusterNotFound(f"AWS has no cluster '{name}'") from None
            except errors.TrainyardError as error:
                if isinstance(error, Denied) and self.describe(name) is None:
                    raise errors.ClusterNotFound(f"AWS has no cluster '{name}'") from None
                if not successful and len(ids) <= _BATCH:
                    raise
                failed |= dict.fromkeys(
                    batch, error.detail
                )  # other batches went through: say which nodes did not
                continue
            successful += answer.get("Successful", [])
            failed |= {
                entry["NodeId"]: f"{entry['ErrorCode']}: {entry['Message']}"
                for entry in answer.get("Failed", [])
            }
        return BatchResult(successful, failed)

    def _tags_of(self, arn: str) -> Mapping[str, str]:
        if arn not in self._tags:
            self._tags[arn] = self._read_tags(arn)
        return self._tags[arn]

    def _read_tags(self, arn: str) -> Mapping[str, str]:
        """As they are now: of a cluster of others, they may change at any time."""
        with translated("read a cluster's tags"):
            answer = self._sagemaker.list_tags(ResourceArn=arn, MaxResults=_PAGE)
        return {tag["Key"]: tag["Value"] for tag in answer.get("Tags", [])}


def _backend_cluster(
    name: str, answer: dict[str, Any], tags: Mapping[str, str] | None = None
) -> BackendCluster:
    return BackendCluster(
        backend=NAME,
        arn=answer["ClusterArn"],
        name=answer.get("ClusterName", name),
        status=cluster_status(answer["ClusterStatus"]),
        said=answer["ClusterStatus"],
        failure_message=answer.get("FailureMessage") or "",
        tags=tags or {},
        created_at=_utc(answer.get("CreationTime")),
    )


def _node(cluster: Cluster, summary: dict[str, Any], address: str | None) -> ClusterNode:
    group, word = summary["InstanceGroupName"], summary["InstanceStatus"]["Status"]
    return ClusterNode(
        instance_id=summary["InstanceId"],
        group=group,
        role=_role(cluster, group),
        instance_type=summary["InstanceType"],
        status=node_state(word),
        message=node_message(word, summary["InstanceStatus"].get("Message") or ""),
        name="ip-" + address.replace(".", "-") if address else None,
        address=address,
        launched_at=_utc(summary.get("LaunchTime")),
    )


def _role(cluster: Cluster, group: str) -> Literal["controller", "worker", "login"]:
    return next((known.role for known in cluster.spec.groups() if known.name == group), "worker")


def _utc(at: datetime | None) -> datetime | None:
    """botocore gives times in the machine's own zone."""
    return None if at is None else at.astimezone(timezone.utc)
