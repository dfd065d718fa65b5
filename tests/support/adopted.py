"""A cluster that others made, in memory: what AWS says of it, and what its nodes hold of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.memory import MemoryBackend
from tests.support.story import Story, record_fact

from trainyard.app.clusters.adopt_cluster import adopt_cluster
from trainyard.domain.foreign_clusters import ForeignCluster, ForeignGroup, Mount
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.adoptions import NodeAnswer
from trainyard.outside.seen_clusters import BackendCluster
from trainyard.ports import Ports
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.cluster_specs import ClusterSpec, read_cluster_spec

NAME = "theirs"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:cluster/theirs000001"
ROLE = "arn:aws:iam::123456789012:role/Theirs"
HEAD, FIRST, SECOND = "i-00000011", "i-00000012", "i-00000013"


def foreign(**changes: Any) -> ForeignCluster:
    groups = [
        ForeignGroup("head", "ml.m5.large", 1, "controller", None, ROLE),
        ForeignGroup("gpu", "ml.p5.48xlarge", 2, "worker", "dev", ROLE),
    ]
    seen = ForeignCluster(
        backend="hyperpod",
        arn=ARN,
        name=NAME,
        status=BackendStatus.IN_SERVICE,
        said="InService",
        groups=groups,
        mount=Mount("fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdefgh", "/fsx"),
        consent="needs the tag",
        roles=(ROLE,),
    )
    return replace(seen, **changes)


class MemoryAdoptions:
    """`installed` are the nodes that hold our agent; `answers` and `errors` by instance id."""

    def __init__(self, seen: ForeignCluster) -> None:
        self.seen: ForeignCluster | None = seen
        self.installed: set[str] = set()
        self.answers: dict[str, NodeAnswer] = {}
        self.errors: dict[str, Exception] = {}
        self.asked: list[tuple[str, str]] = []
        self.offered: list[str] = []

    def look(self, name_or_arn: str) -> ForeignCluster | None:
        known = self.seen
        return known if known is not None and name_or_arn in (known.name, known.arn) else None

    def spec(self, asked: AdoptSpec, seen: ForeignCluster) -> ClusterSpec:
        groups = [
            {
                "name": one.name,
                "role": one.role,
                "instanceType": one.instance_type,
                "count": one.count,
                "partition": one.partition,
            }
            for one in seen.groups
        ]
        mount = seen.mount
        assert mount is not None
        shared = {"dnsName": mount.dns_name, "mountName": mount.mount_name}
        return read_cluster_spec({
            "name": seen.name, "instanceGroups": groups,
            "sharedFilesystem": {**shared, "mountPath": asked.shared_dir or mount.mount_path},
        })  # fmt: skip

    def policy(self, cluster: Cluster) -> Mapping[str, Any]:
        return {"Version": "2012-10-17", "Statement": [{"Sid": "ReportFacts"}]}

    def offer(self, cluster: Cluster) -> None:
        self.offered.append(cluster.name)

    def install(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        return self._answer("install", node)

    def take_back(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        return self._answer("take back", node)

    def _answer(self, verb: str, node: ClusterNode) -> NodeAnswer:
        self.asked.append((verb, node.instance_id))
        if error := self.errors.get(node.instance_id):
            raise error
        if answer := self.answers.get(node.instance_id):
            return answer
        if verb == "install":
            self.installed.add(node.instance_id)
            return NodeAnswer("installed")
        self.installed.discard(node.instance_id)
        return NodeAnswer("gone")


def a_node(instance_id: str, group: str = "gpu", number: int = 20) -> ClusterNode:
    return ClusterNode(
        instance_id=instance_id,
        group=group,
        role="controller" if group == "head" else "worker",
        instance_type="ml.p5.48xlarge",
        status=NodeState.RUNNING,
        name=f"ip-127-0-1-{number}",
        address=f"127.0.1.{number}",
    )


class Adopted:
    """A story with a cluster of three nodes that others made."""

    def __init__(self) -> None:
        self.story = Story()
        self.adoptions = MemoryAdoptions(foreign())
        world = self.story.world
        world.backend.adoptions = world.fuse.wrap(self.adoptions)
        self.backend.clusters[NAME] = BackendCluster(
            "hyperpod", ARN, NAME, BackendStatus.IN_SERVICE, "InService"
        )
        self.backend.node_lists[NAME] = [
            a_node(HEAD, "head", 11), a_node(FIRST, number=12), a_node(SECOND, number=13),
        ]  # fmt: skip

    @property
    def backend(self) -> MemoryBackend:
        return self.story.world.backend

    @property
    def ports(self) -> Ports:
        return self.story.world.ports

    @property
    def cluster(self) -> Cluster:
        return self.story.world.clusters.stored[NAME]

    def adopt(self, **asked: Any) -> Cluster:
        return adopt_cluster(self.ports, AdoptSpec.model_validate({"name": NAME, **asked}))

    def rest(self) -> None:
        self.story.machines.run_until_rest()

    def hears(self, kind: str, **detail: Any) -> None:
        full = {
            "id": self.story.world.ids.ulid(),
            "at": self.story.at,
            "clusterName": NAME,
            "clusterArn": ARN,
            **detail,
        }
        envelope = {"source": "trainyard.agent", "detail-type": kind, "id": "e", "detail": full}
        record_fact(self.ports, envelope)

    def beat(self, *linked: str) -> None:
        """A heartbeat that names the nodes whose agents are linked."""
        nodes = [
            {"node": one, "instanceId": one, "role": "worker", "agent": "linked",
             "at": self.story.at}
            for one in linked
        ]  # fmt: skip
        self.hears("ClusterHeartbeat", nodes=nodes)

    def ready(self, **asked: Any) -> Cluster:
        """Adopted, with the agent on every node."""
        self.adopt(**asked)
        self.rest()
        for _ in range(3):
            self.story.world.clock.tick(6)
            self.rest()
        self.hears("ClusterReady", nodes=["ip-127-0-1-12", "ip-127-0-1-13"])
        self.rest()
        assert self.cluster.status == "Ready", self.cluster.problem
        return self.cluster
