"""A queue of ParallelCluster: nodes that jobs run on, how EC2 is asked for them, and where."""

import re
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import Self

from .base import Strict, matching, rule
from .cluster_parts import SubnetId
from .ec2_types import Ec2Type, known
from .parallelcluster_parts import AmiId, InstanceType, NodeScript, PartName

#: ParallelCluster 3.16.1 refuses another strategy (InstancesAllocationStrategyValidator).
STRATEGIES = {
    "onDemand": ("lowestPrice", "prioritized"),
    "spot": (
        "lowestPrice",
        "capacityOptimized",
        "capacityOptimizedPrioritized",
        "priceCapacityOptimized",
    ),
    "capacityBlock": (),
}
ReservationId = Annotated[
    str,
    matching(
        r"^cr-[0-9a-f]{17}$",
        "must be the id of a capacity reservation such as cr-0123456789abcdef0",
    ),
]
ReservationGroup = Annotated[
    str,
    matching(
        r"^arn:[a-z-]+:resource-groups:[a-z0-9-]+:[0-9]{12}:group/.+$",
        "must be the ARN of a resource group, such as "
        "arn:aws:resource-groups:us-east-1:123456789012:group/NAME",
    ),
]

#: Of the queue "workers": workers-st-nodes-1, which always runs, and workers-dy-nodes-2.
_NODE = re.compile(r"^(.+)-(?:st|dy)-[a-z0-9-]+-[0-9]+$")


class Queue(Strict):
    """Workers of one kind, and the Slurm partition of that name.

    `min` nodes always run; more are started for jobs, up to `max`, and end when they are idle.
    """

    name: PartName = Field(description="of the queue and of its partition; no other queue has it")
    instance_types: list[InstanceType] = Field(
        min_length=1, max_length=20, description="any of which a node may be"
    )
    min: int = Field(default=0, ge=0, le=5000, description="nodes that always run")
    max: int = Field(ge=1, le=5000, description="nodes at most")
    subnet_ids: list[SubnetId] = Field(
        min_length=1, max_length=8, description="one in each zone where nodes may be"
    )
    capacity: Literal["onDemand", "spot", "capacityBlock"] = Field(
        default="onDemand", description="how EC2 is paid for the nodes"
    )
    capacity_reservation_id: ReservationId | None = Field(
        default=None, description="of a capacity block or an on-demand reservation"
    )
    capacity_reservation_group: ReservationGroup | None = Field(
        default=None, description="ARN of a resource group of on-demand reservations"
    )
    spot_price: float | None = Field(
        default=None, gt=0, description="USD per hour at most; default: the on-demand price"
    )
    allocation_strategy: (
        Literal[
            "lowestPrice",
            "prioritized",
            "capacityOptimized",
            "capacityOptimizedPrioritized",
            "priceCapacityOptimized",
        ]
        | None
    ) = Field(default=None, description="how EC2 chooses among types and zones")
    placement_group: bool | None = Field(
        default=None,
        description="nodes are placed close together; default: with efa, where nothing is reserved",
    )
    efa: bool = Field(default=False, description="nodes have Elastic Fabric Adapters")
    multithreading: bool = Field(default=True, description="two threads on each core")
    local_scratch: bool = Field(
        default=False, description="the type's own disks are mounted at /local_scratch"
    )
    neuron: bool = Field(
        default=False, description="our node script is asked to install AWS Neuron's software"
    )
    gpu_health_check: bool = Field(
        default=False, description="ParallelCluster examines the GPUs before each job"
    )
    root_volume_gib: int | None = Field(
        default=None, ge=35, le=16384, description="default: as large as the image"
    )
    custom_ami: AmiId | None = Field(default=None, description="in place of the cluster's image")
    scripts: list[NodeScript] = Field(
        default_factory=list, max_length=8, description="run on each node once it is configured"
    )

    @rule
    def _counts(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min: {self.min} is more than max, {self.max}; lower one of them")
        if self.capacity == "capacityBlock" and self.min != self.max:
            raise ValueError(
                f"min: all nodes of a capacity block run while it lasts; give min and max "
                f"{self.max}"
            )
        for field, given in {
            "instanceTypes": self.instance_types,
            "subnetIds": self.subnet_ids,
        }.items():
            if twice := next((one for one in given if given.count(one) > 1), None):
                raise ValueError(f"{field}: '{twice}' is given twice; give it once")
        return self

    @rule
    def _capacity(self) -> Self:
        if self.spot_price is not None and self.capacity != "spot":
            raise ValueError("spotPrice: is for capacity 'spot' only; remove it, or use 'spot'")
        strategies = STRATEGIES[self.capacity]
        if self.allocation_strategy is not None and self.allocation_strategy not in strategies:
            right = f"use {' or '.join(strategies)}" if strategies else "remove it"
            raise ValueError(
                f"allocationStrategy: '{self.allocation_strategy}' is not for capacity "
                f"'{self.capacity}'; {right}"
            )
        return self

    @rule
    def _reservations(self) -> Self:
        named, group = self.capacity_reservation_id, self.capacity_reservation_group
        if named and group:
            raise ValueError(
                "capacityReservationGroup: cannot be beside capacityReservationId; give one of them"
            )
        if (named or group) and self.capacity == "spot":
            field = "capacityReservationId" if named else "capacityReservationGroup"
            raise ValueError(
                f"{field}: nodes of capacity 'spot' use no reservation; remove it, or use "
                "capacity 'onDemand' or 'capacityBlock'"
            )
        if self.capacity == "capacityBlock" and not named:
            raise ValueError(
                "capacityReservationId: is needed for capacity 'capacityBlock'; give the id of the "
                "block's reservation"
            )
        if named and len(self.instance_types) > 1:
            raise ValueError(
                "instanceTypes: a reservation is of one type; give that one, or a "
                "capacityReservationGroup"
            )
        return self

    @rule
    def _zones(self) -> Self:
        if self.capacity_reservation_id and len(self.subnet_ids) > 1:
            raise ValueError(
                "subnetIds: a reservation is in one zone; give the one subnet in that zone"
            )
        if self.efa and len(self.subnet_ids) > 1:
            raise ValueError("efa: does not reach across zones; give one subnet, or efa false")
        if self.placement_group and len(self.subnet_ids) > 1:
            raise ValueError(
                "placementGroup: does not reach across zones; give one subnet, or "
                "placementGroup false"
            )
        if self.placement_group and self.capacity == "capacityBlock":
            raise ValueError(
                "placementGroup: a capacity block is placed close together already; remove it"
            )
        return self

    @rule
    def _types(self) -> Self:
        types = known(self.instance_types)
        found = {
            "efa": (self.efa, [one for one in types if not one.efa], "no EFA"),
            "localScratch": (
                self.local_scratch,
                [one for one in types if not one.local_disk],
                "no disk of its own",
            ),
            "neuron": (
                self.neuron,
                [one for one in types if not one.neuron],
                "no accelerator of AWS",
            ),
            "gpuHealthCheck": (
                self.gpu_health_check,
                [one for one in types if not one.accelerators.startswith("nvidia ")],
                "no GPU of NVIDIA",
            ),
        }
        for field, (asked, lacking, what) in found.items():
            if asked and lacking:
                raise ValueError(
                    f"{field}: {lacking[0].name} has {what}; use another type, or {field} false"
                )
        return self

    @rule
    def _alike(self) -> Self:
        types = known(self.instance_types)
        for first, other in pairwise(types):
            if difference := _difference(first, other):
                raise ValueError(
                    f"instanceTypes: {first.name} has {difference[0]} and {other.name} has "
                    f"{difference[1]}; nodes of one queue must be alike, so make two queues"
                )
        return self

    @property
    def placed_together(self) -> bool:
        """Whether it has a placement group, its default applied."""
        if self.placement_group is not None:
            return self.placement_group
        reserved = self.capacity_reservation_id or self.capacity_reservation_group
        return self.efa and not reserved


def _difference(first: Ec2Type, other: Ec2Type) -> tuple[str, str] | None:
    """What ParallelCluster would not put into one queue (Instances...Validator of 3.16.1)."""
    for one, two in (
        (first.architecture, other.architecture),
        (first.accelerators or "no accelerator", other.accelerators or "no accelerator"),
        (f"{first.vcpus} vCPUs", f"{other.vcpus} vCPUs"),
    ):
        if one != two:
            return one, two
    return None


def queue_of_node(node: str) -> str | None:
    """The queue of a Slurm node; None if ParallelCluster gives no node such a name."""
    found = _NODE.match(node)
    return found[1] if found else None
