"""HyperPod's operations for moto's SageMaker: a cluster is backed by real nodes on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.responses import SageMakerResponse

from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.hyperpod.node_kinds import ProcessNodes
from trainyard_local.hyperpod.requests import (
    check_cluster,
    check_parameters,
    check_size,
)
from trainyard_local.hyperpod.state import NodeKind, Settings
from trainyard_local.hyperpod.views import describe
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes.node import Node
from trainyard_local.sagemaker.errors import (
    ResourceInUse,
    ResourceNotFound,
    ValidationException,
)
from trainyard_local.sagemaker.model import check
from trainyard_local.sagemaker.operations import snake
from trainyard_local.sagemaker.paging import page
from trainyard_local.slurm.cluster import Ports, remove_short_link, short_link


class Conflict(ServiceException):  # type: ignore[misc]
    code = "ConflictException"


class HyperPod:
    """All clusters of the local cloud."""

    def __init__(self, cloud: LocalCloud, settings: Settings, kind: NodeKind) -> None:
        self.cloud = cloud
        self._kind = kind
        self.settings = settings
        self.ports = Ports(settings.slurm_port)
        self.lock = threading.RLock()
        self.clusters: dict[str, LocalCluster] = {}
        self._used_roles: set[str] = set()
        self.gone: dict[str, dict[str, Any]] = {}
        """What is told of deleted clusters while they are described."""

    def find(self, name_or_arn: str) -> LocalCluster:
        with self.lock:
            for cluster in self.clusters.values():
                if name_or_arn in (cluster.name, cluster.arn):
                    return cluster
        raise ResourceNotFound(f"Cluster with name {name_or_arn} not found")

    def described(self, name_or_arn: str) -> dict[str, Any]:
        gone = self.gone.get(name_or_arn)
        if (
            gone
            and name_or_arn not in self.clusters
            and "deleted-clusters-are-described" in self.cloud.quirks
        ):
            return gone
        return describe(self.find(name_or_arn))

    def by_id(self, cluster_id: str) -> LocalCluster | None:
        with self.lock:
            return next(
                (cluster for cluster in self.clusters.values() if cluster.id == cluster_id), None
            )

    def tags_of(self, resource: str) -> Mapping[str, str]:
        """The tags of the cluster that a call names, for conditions in policies; else none."""
        name = resource.rpartition(":cluster/")[2]
        with self.lock:
            return next(
                (
                    dict(c.tags)
                    for c in self.clusters.values()
                    if resource == c.arn or name == c.name
                ),
                {},
            )

    def by_name(self, name: str) -> LocalCluster | None:
        with self.lock:
            return self.clusters.get(name)

    def create(self, request: dict[str, Any]) -> LocalCluster:
        check_cluster(request)
        if (request.get("Orchestrator") or {}).get(
            "Slurm"
        ) == {} and "empty-slurm-is-refused" in self.cloud.quirks:
            raise ValidationException(
                "SlurmConfigStrategy must be specified for the Slurm orchestrator"
            )
        for role in {group["ExecutionRole"] for group in request["InstanceGroups"]}:
            if (
                "new-roles-are-refused-in-other-words" in self.cloud.quirks
                and role not in self._used_roles
            ):
                self._used_roles.add(role)
                raise ValidationException(f"ExecutionRole {role} is not usable by SageMaker.")
            if not self.cloud.access.may_assume(role, "sagemaker.amazonaws.com"):
                raise ValidationException(
                    f"Could not assume role {role}. "
                    "Please ensure that the role exists and allows principal "
                    "'sagemaker.amazonaws.com' to assume the role."
                )
        with self.lock:
            # The name stays taken until a deletion has finished.
            if request["ClusterName"] in self.clusters:
                raise ResourceInUse(
                    f"Resource Already Exists: Cluster with name {request['ClusterName']} "
                    "already exists. Choose a different name."
                )
            cluster = LocalCluster(self.cloud, self.settings, self.ports, request, self._kind)
            self.clusters[cluster.name] = cluster
        cluster.in_background(cluster.create)
        return cluster

    def delete(self, cluster: LocalCluster) -> None:
        with cluster.lock:
            if cluster.status not in ("InService", "Failed"):
                raise Conflict(
                    f"Cluster {cluster.arn} cannot be deleted while its status is {cluster.status}"
                )
            cluster.delete(lambda: self._forget(cluster))

    def _forget(self, cluster: LocalCluster) -> None:
        with self.lock:
            self.gone[cluster.name] = describe(cluster) | {"ClusterStatus": "Deleted"}
            self.clusters.pop(cluster.name, None)

    def update(self, cluster: LocalCluster, groups: list[dict[str, Any]]) -> None:
        self._need_in_service(cluster, "updated")
        counts = {name: group["InstanceCount"] for name, group in cluster.groups.items()}
        counts |= {group["InstanceGroupName"]: group["InstanceCount"] for group in groups}
        check_size(sum(counts.values()))
        cluster.update(groups)

    def repair(
        self,
        cluster: LocalCluster,
        ids: list[str],
        act: Callable[[LocalCluster, Node], None],
        *,
        spare_controller: bool,
    ) -> dict[str, Any]:
        """Replace or reboot nodes one by one.

        AWS answers with those that work and those that do not.
        """
        self._need_in_service(cluster, "changed")
        good: list[str] = []
        bad: list[dict[str, str]] = []
        for node_id in dict.fromkeys(ids):
            with cluster.lock:  # HyperPod's own recovery may want the same node
                code, message = self._repairable(cluster, node_id, spare_controller)
                if not code:
                    act(cluster, cluster.nodes[node_id])
            if code:
                bad.append({"NodeId": node_id, "ErrorCode": code, "Message": message})
            else:
                good.append(node_id)
        return ({"Successful": good} if good else {}) | {"Failed": bad}

    def _repairable(
        self, cluster: LocalCluster, node_id: str, spare_controller: bool
    ) -> tuple[str, str]:
        node = cluster.nodes.get(node_id)
        if node is None:
            return (
                "InstanceIdNotFound",
                f"Instance {node_id} was not found in cluster {cluster.name}",
            )
        if node.status not in ("Running", "Failure"):
            return (
                "InvalidInstanceStatus",
                f"Instance {node_id} has status {node.status}; it must be Running or Failure",
            )
        if spare_controller and cluster.role(node.group) == "Controller":
            return (
                "InvalidInstanceStatus",
                f"Instance {node_id} is a Slurm controller node, which cannot be replaced",
            )
        return "", ""

    def _need_in_service(self, cluster: LocalCluster, verb: str) -> None:
        if cluster.status != "InService":
            raise Conflict(
                f"Cluster {cluster.arn} cannot be {verb} while its status is {cluster.status}"
            )

    def close(self) -> None:
        """End of the local cloud: nothing of any cluster stays."""
        with self.lock:
            clusters = list(self.clusters.values())
            self.clusters.clear()
        for cluster in clusters:
            cluster.close()
        remove_short_link(self.cloud.state_dir)


_installed: dict[int, HyperPod] = {}
#: moto's methods by ours in their place: a second cloud of a process, as in tests, finds ours.
_originals: dict[Callable[..., Any], Callable[..., Any]] = {}


def of(cloud: LocalCloud) -> HyperPod:
    """The clusters of an installed cloud."""
    return _installed[id(cloud)]


def install(
    cloud: LocalCloud, settings: Settings | None = None, kind: NodeKind | None = None
) -> HyperPod:
    """Put HyperPod's operations on moto's SageMakerResponse. Call once for a server.

    Nodes are processes, if `kind` says nothing else.
    """
    (cloud.state_dir / "clusters").mkdir(parents=True, exist_ok=True)
    short_link(cloud.state_dir)
    hyperpod = HyperPod(cloud, settings or Settings.from_env(cloud), kind or ProcessNodes())
    _installed[id(cloud)] = hyperpod
    cloud.access.resource_tags["sagemaker"] = hyperpod.tags_of
    _install_operations(hyperpod)
    cloud.on_shutdown.append(hyperpod.close)
    return hyperpod


def _install_operations(hyperpod: HyperPod) -> None:
    for existing in (
        "create_cluster",
        "describe_cluster",
        "list_cluster_nodes",
        "list_tags",
        "add_tags",
        "delete_tags",
    ):
        assert hasattr(SageMakerResponse, existing), (
            f"moto's SageMakerResponse.{existing} is gone: pin moto==5.2.5"
        )
    answers: dict[str, Callable[[HyperPod, Any], dict[str, Any]]] = {
        "CreateCluster": _create,
        "DescribeCluster": lambda pod, params: pod.described(params["ClusterName"]),
        "ListClusters": _list_clusters,
        "ListClusterNodes": _list_nodes,
        "DescribeClusterNode": _describe_node,
        "UpdateCluster": _update,
        "DeleteCluster": _delete,
        "BatchReplaceClusterNodes": _replace,
        "BatchRebootClusterNodes": _reboot,
        "ListClusterEvents": _list_events,
        "DescribeClusterEvent": _describe_event,
    }
    for operation, answer in answers.items():
        setattr(SageMakerResponse, snake(operation), _method(hyperpod, operation, answer))
    for name, on_tags in {
        "list_tags": _list_tags,
        "add_tags": _add_tags,
        "delete_tags": _delete_tags,
    }.items():
        setattr(
            SageMakerResponse,
            name,
            _tags_method(hyperpod, getattr(SageMakerResponse, name), on_tags),
        )


def _method(
    hyperpod: HyperPod, operation: str, answer: Callable[[HyperPod, Any], dict[str, Any]]
) -> Callable[[Any], ActionResult]:
    def method(self: Any) -> ActionResult:
        params = {key: value for key, value in dict(self.params).items() if value is not None}
        check(operation, params)
        check_parameters(operation, params)
        return ActionResult(answer(hyperpod, params))

    return method


def _tags_method(
    hyperpod: HyperPod, original: Any, answer: Callable[[LocalCluster, Any], ActionResult]
) -> Callable[[Any], ActionResult]:
    """Clusters keep their own tags; every other resource stays with moto."""
    original = _originals.get(original, original)

    def method(self: Any) -> ActionResult:
        arn = self.params.get("ResourceArn", "")
        return answer(hyperpod.find(arn), self.params) if ":cluster/" in arn else original(self)

    _originals[method] = original
    return method


def _list_tags(cluster: LocalCluster, params: Any) -> ActionResult:
    return ActionResult(
        {"Tags": [{"Key": key, "Value": value} for key, value in cluster.tags.items()]}
    )


def _add_tags(cluster: LocalCluster, params: Any) -> ActionResult:
    cluster.tags.update({tag["Key"]: tag["Value"] for tag in params["Tags"]})
    return _list_tags(cluster, params)


def _delete_tags(cluster: LocalCluster, params: Any) -> ActionResult:
    for key in params["TagKeys"]:
        cluster.tags.pop(key, None)
    return EmptyResult()


def _create(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    return {"ClusterArn": hyperpod.create(params).arn}


def _update(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = hyperpod.find(params["ClusterName"])
    if params.get("InstanceGroupsToDelete"):
        raise ValidationException(
            "The local cloud does not support InstanceGroupsToDelete; scale the group to 0 instead"
        )
    hyperpod.update(cluster, params.get("InstanceGroups") or [])
    return {"ClusterArn": cluster.arn}


def _delete(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = hyperpod.find(params["ClusterName"])
    hyperpod.delete(cluster)
    return {"ClusterArn": cluster.arn}


def _replace(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = hyperpod.find(params["ClusterName"])
    return hyperpod.repair(cluster, _node_ids(params), LocalCluster.replace, spare_controller=True)


def _reboot(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = hyperpod.find(params["ClusterName"])
    return hyperpod.repair(cluster, _node_ids(params), LocalCluster.reboot, spare_controller=False)


def _node_ids(params: Mapping[str, Any]) -> list[str]:
    if not params.get("NodeIds"):
        raise ValidationException("The local cloud supports NodeIds only; give at least one")
    return list(params["NodeIds"])


def _list_clusters(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    with hyperpod.lock:
        found = [
            cluster
            for cluster in hyperpod.clusters.values()
            if params.get("NameContains", "") in cluster.name
        ]
    found.sort(
        key=lambda cluster: (
            cluster.name if params.get("SortBy") == "NAME" else cluster.created_at.isoformat()
        )
    )
    if params.get("SortOrder") == "Descending":
        found.reverse()
    part, token = page(found, params)
    summaries = [
        {
            "ClusterArn": cluster.arn,
            "ClusterName": cluster.name,
            "CreationTime": cluster.created_at,
            "ClusterStatus": cluster.status,
        }
        for cluster in part
    ]
    return {"ClusterSummaries": summaries} | token


def _list_nodes(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = hyperpod.find(params["ClusterName"])
    wanted = params.get("InstanceGroupNameContains", "")
    part, token = page([node for node in cluster.members() if wanted in node.group], params)
    return {"ClusterNodeSummaries": [_summary(node) for node in part]} | token


def _summary(node: Node) -> dict[str, Any]:
    return {
        "InstanceGroupName": node.group,
        "InstanceId": node.instance_id,
        "InstanceType": node.instance_type,
        "LaunchTime": node.launched_at,
        "InstanceStatus": {"Status": node.status, "Message": node.message},
    }


def _describe_node(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = hyperpod.find(params["ClusterName"])
    node = cluster.nodes.get(params.get("NodeId", ""))
    if node is None:
        raise ResourceNotFound(
            f"Node {params.get('NodeId')} was not found in cluster {cluster.name}"
        )
    group = cluster.groups[node.group]
    kept = ("LifeCycleConfig", "ThreadsPerCore", "InstanceStorageConfigs", "OverrideVpcConfig")
    details = _summary(node) | {key: group[key] for key in kept if group.get(key) is not None}
    details |= {"PrivatePrimaryIp": node.address, "PrivateDnsHostname": f"{node.name}.ec2.internal"}
    return {
        "NodeDetails": details
        | {
            "Placement": {
                "AvailabilityZone": f"{hyperpod.cloud.region}a",
                "AvailabilityZoneId": "use1-az1",
            }
        }
    }


def _list_events(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = _with_events(hyperpod, params)
    found = [
        event for event in cluster.events if params.get("NodeId") in (None, event.get("InstanceId"))
    ]
    if params.get("SortOrder") != "Ascending":
        found = found[::-1]
    part, token = page(found, params)
    return {"Events": part} | token


def _describe_event(hyperpod: HyperPod, params: dict[str, Any]) -> dict[str, Any]:
    cluster = _with_events(hyperpod, params)
    event = next((event for event in cluster.events if event["EventId"] == params["EventId"]), None)
    if event is None:
        raise ResourceNotFound(f"Event {params['EventId']} was not found in cluster {cluster.name}")
    # A union: exactly one member, that of the resource the event is about.
    metadata = {
        event["ResourceType"]: {"FailureMessage": cluster.event_reasons.get(event["EventId"], "")}
    }
    return {"EventDetails": event | {"EventDetails": {"EventMetadata": metadata}}}


def _with_events(hyperpod: HyperPod, params: Mapping[str, Any]) -> LocalCluster:
    cluster = hyperpod.find(params["ClusterName"])
    if not cluster.continuous:
        raise ValidationException(
            "Cluster events are only supported for clusters with NodeProvisioningMode Continuous"
        )
    return cluster
