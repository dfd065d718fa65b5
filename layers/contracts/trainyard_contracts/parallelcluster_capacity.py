"""An entry of a ParallelCluster spec's list of other capacity: how one queue is made instead."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from typing_extensions import Self

from .base import Strict, rule
from .cluster_base import CapacityBase
from .cluster_parts import SubnetId
from .parallelcluster_parts import HeadNode, InstanceType, PartName
from .parallelcluster_queues import STRATEGIES, Queue, ReservationGroup, ReservationId

Market = Literal["on-demand", "spot", "block", "reservation"]
#: What ParallelCluster calls each market.
_CAPACITY: dict[Market, Literal["onDemand", "spot", "capacityBlock"]] = {
    "on-demand": "onDemand",
    "spot": "spot",
    "block": "capacityBlock",
    "reservation": "onDemand",
}
_WORDS = {"onDemand": "on demand", "spot": "spot", "capacityBlock": "capacity block"}


class HeadPlace(Strict):
    """Another head node; what is not given stays."""

    instance_type: InstanceType | None = Field(default=None, description="of the head node")
    subnet_id: SubnetId | None = Field(default=None, description="where it gets its address")


class ParallelClusterCapacity(CapacityBase):
    """Other instances for one queue, and for the head node where that is given."""

    queue: PartName | None = Field(
        default=None, description="the queue that is changed; default: the only one"
    )
    instance_type: InstanceType | None = Field(
        default=None, description="of the queue's nodes; default: the queue's own types"
    )
    instance_types: list[InstanceType] = Field(
        default_factory=list,
        max_length=20,
        description="in place of instanceType: any of which a node may be, as EC2 chooses",
    )
    subnet_ids: list[SubnetId] | None = Field(
        default=None,
        min_length=1,
        max_length=8,
        description="in place of the queue's; the shared storage must be reached from them",
    )
    market: Market | None = Field(
        default=None,
        description="'block' and 'reservation' need capacityReservationId, or 'reservation' a "
        "capacityReservationGroup; default: the queue's own",
    )
    capacity_reservation_id: ReservationId | None = Field(
        default=None, description="of the capacity block or the on-demand reservation"
    )
    capacity_reservation_group: ReservationGroup | None = Field(
        default=None, description="ARN of a resource group of on-demand reservations"
    )
    spot_price: float | None = Field(
        default=None, gt=0, description="USD per hour at most; market 'spot' only"
    )
    head_node: HeadPlace | None = Field(
        default=None, description="another head node; default: that of the cluster"
    )

    @rule
    def _market(self) -> Self:
        reserved = self.capacity_reservation_id or self.capacity_reservation_group
        if self.instance_type is not None and self.instance_types:
            raise ValueError("instanceTypes: give one of 'instanceType' and 'instanceTypes'")
        if self.market in ("block", "reservation") and not reserved:
            raise ValueError(
                f"capacityReservationId: market '{self.market}' needs the id of what was reserved"
            )
        if reserved and self.market not in ("block", "reservation"):
            raise ValueError(
                "market: with a reservation it is 'reservation', or 'block' for a capacity block; "
                "give one of them, or remove the reservation"
            )
        if self.spot_price is not None and self.market != "spot":
            raise ValueError("spotPrice: is for market 'spot' only; remove it, or give that market")
        return self

    def named(self, queues: Sequence[Queue]) -> str | None:
        """What is wrong about the queue that it changes; None if it is one of these."""
        names = [queue.name for queue in queues]
        if self.queue is None and len(names) > 1:
            return f"queue: the cluster has {len(names)} queues; say which ({', '.join(names)})"
        if self.queue is not None and self.queue not in names:
            return f"queue: no queue is named '{self.queue}'; give {' or '.join(names)}"
        return None

    def changes(self, queue: Queue) -> Queue:
        """The queue as this entry wants it."""
        update: dict[str, Any] = {}
        if types := self.instance_types or [one for one in [self.instance_type] if one]:
            update["instance_types"] = types
        if self.subnet_ids:
            update["subnet_ids"] = self.subnet_ids
        return queue.changed(**update, **self._paid(queue))

    def _paid(self, queue: Queue) -> dict[str, Any]:
        if self.market is None:
            return {}
        how = _CAPACITY[self.market]
        block = how == "capacityBlock"
        strategy = queue.allocation_strategy
        return {
            "capacity": how,
            "capacity_reservation_id": self.capacity_reservation_id,
            "capacity_reservation_group": self.capacity_reservation_group,
            "spot_price": self.spot_price,
            "allocation_strategy": strategy if strategy in STRATEGIES[how] else None,
            # All nodes of a block run while it lasts, and they are close together already.
            "min": queue.max if block else queue.min,
            "placement_group": None if block else queue.placement_group,
        }

    def head(self, head_node: HeadNode) -> HeadNode:
        """The head node as this entry wants it."""
        if self.head_node is None:
            return head_node
        given = self.head_node.model_dump(exclude_none=True)
        return head_node.changed(**given)

    def words(self, queue: Queue) -> str:
        """Of the queue as it is changed."""
        reserved = queue.capacity_reservation_id or queue.capacity_reservation_group
        block = queue.capacity == "capacityBlock"
        market = "reservation" if reserved and not block else _WORDS[queue.capacity]
        where = f", in {' or '.join(self.subnet_ids)}" if self.subnet_ids else ""
        parts = self.head_node.model_dump(exclude_none=True) if self.head_node else {}
        head = f", head node {' in '.join(parts.values())}" if parts else ""
        name = f"{self.queue}: " if self.queue else ""
        return f"{name}{' or '.join(queue.instance_types)}, {market}{where}{head}"
