"""What is to be checked: one spec, or what every run needs; and the stack's network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pydantic import ValidationError

from trainyard_cli.problems import InvalidInput
from trainyard_contracts.cluster_base import GroupBase
from trainyard_contracts.cluster_parts import Network, SharedFilesystem
from trainyard_contracts.cluster_specs import ClusterSpec, read_cluster_spec
from trainyard_contracts.hyperpod import HyperPodClusterSpec, InstanceGroup
from trainyard_contracts.parallelcluster import ParallelClusterSpec
from trainyard_contracts.specs import JobSpec, RunSpec
from trainyard_sdk.upload.workdir import as_uploaded

from .account import Account


@dataclass(frozen=True)
class Scope:
    """`cluster` is None where no spec was given, or a run's cluster exists already."""

    cluster: ClusterSpec | None = None
    job: JobSpec | None = None
    #: How a field of the cluster is written in the file that was given.
    prefix: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Scope:
        """Raises InvalidInput for a spec that the API would refuse."""
        if document is None:
            return cls()
        try:
            if "job" in document:
                run = RunSpec.model_validate(as_uploaded(document))
                return cls(run.cluster.spec, run.job, "cluster.spec.")
            return cls(read_cluster_spec(document))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(
                "The spec is not valid",
                f"{field}: {first['msg'].removeprefix('Value error, ')}",
                "Correct it first; --dryrun tells all that is wrong",
            ) from None

    @classmethod
    def every(cls, document: Mapping[str, Any] | None) -> list[Scope]:
        """That of the spec, and one for each whole spec that may take its cluster's place.

        Raises InvalidInput for a spec that the API would refuse.
        """
        first = cls.of(document)
        if document is None or "job" not in document:
            return [first]
        run = RunSpec.model_validate(as_uploaded(document))
        others = enumerate(run.cluster.otherwise)
        return [first, *(cls(one, run.job, f"cluster.otherwise.{at}.") for at, one in others)]

    @property
    def groups(self) -> list[InstanceGroup]:
        """None where `unknown_backend` says whose groups they would be."""
        return self.hyperpod.instance_groups if self.hyperpod else []

    @property
    def hyperpod(self) -> HyperPodClusterSpec | None:
        """The cluster where it is HyperPod's."""
        return self.cluster if isinstance(self.cluster, HyperPodClusterSpec) else None

    @property
    def parallelcluster(self) -> ParallelClusterSpec | None:
        """The cluster where it is ParallelCluster's."""
        return self.cluster if isinstance(self.cluster, ParallelClusterSpec) else None

    @property
    def nodes(self) -> Sequence[GroupBase]:
        """Groups of any backend that doctor knows."""
        return self.cluster.groups() if self.cluster and not self.unknown_backend else []

    @property
    def ec2_types(self) -> list[str]:
        """Of every node, as EC2 names them."""
        if (spec := self.parallelcluster) is not None:
            people = [pool.instance_type for pool in spec.login_nodes]
            return sorted({spec.head_node.instance_type, *spec.instance_types(), *people})
        return sorted({group.ec2_type for group in chain.from_iterable(self.ways)})

    @property
    def ways(self) -> list[list[InstanceGroup]]:
        """The groups as each way of the spec has them; as they stand where it names no ways."""
        ways = self.cluster.ways if self.cluster is not None else []
        specs = [way.spec for way in ways]
        known = [spec.instance_groups for spec in specs if isinstance(spec, HyperPodClusterSpec)]
        return known or [self.groups]

    @property
    def unknown_backend(self) -> str | None:
        """The cluster's backend where doctor does not know its instances."""
        spec = self.cluster
        known = (HyperPodClusterSpec, ParallelClusterSpec)
        return None if spec is None or isinstance(spec, known) else spec.backend

    @property
    def filesystem(self) -> SharedFilesystem | None:
        return self.hyperpod.shared_filesystem if self.hyperpod else None

    @property
    def network(self) -> Network | None:
        return self.hyperpod.network if self.hyperpod else None

    def instances(self) -> list[Counter[str]]:
        """How many instances of each type each way needs, spares included."""
        return [_counted(groups) for groups in self.ways]

    def subnets(self, account: Account) -> list[str]:
        """Of the spec, else of the stack's parameters."""
        if self.network is not None:
            return list(self.network.subnet_ids)
        if (spec := self.parallelcluster) is not None:
            queues = [subnet for queue in spec.queues for subnet in queue.subnet_ids]
            people = [pool.subnet_id for pool in spec.login_nodes]
            return sorted({spec.head_node.subnet_id, *queues, *people})
        return _listed(account.parameters.get("SubnetIds"))

    def security_groups(self, account: Account) -> list[str]:
        if self.network is not None:
            return list(self.network.security_group_ids)
        if self.parallelcluster is not None:
            return []  # it makes its own
        return _listed(account.parameters.get("SecurityGroupIds"))

    def field(self, name: str) -> str:
        return f"{self.prefix}{name}"


def _counted(groups: Iterable[InstanceGroup]) -> Counter[str]:
    wanted: Counter[str] = Counter()
    for group in groups:
        wanted[group.instance_type] += group.count + group.spares
    return wanted


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]
