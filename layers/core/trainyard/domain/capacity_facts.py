"""Facts of the tries to get a cluster's nodes, and of their prices."""

from datetime import datetime
from typing import Literal

from trainyard_contracts.events import Fact


class CapacityTried(Fact):
    """The cluster is asked of AWS in one of the ways that its spec names."""

    number: int = 1
    way: str = ""
    hourly_usd: float | None = None
    begins_at: datetime | None = None


class CapacityRefused(Fact):
    """AWS had no capacity in this way; the next one is tried when what was made is gone."""

    number: int = 1
    way: str = ""
    reason: str = ""


class PriceInForce(Fact):
    """What an hour of the cluster's nodes costs from this moment on, for all that anybody knows."""

    cluster_name: str = ""
    generation: int | None = None
    hourly_usd: float | None = None
    #: list: AWS's price list, as it was then. given: a person's word in the spec.
    source: Literal["list", "given", ""] = ""
    #: Of nodes that a job brings with it, and takes away.
    by_job: bool = False
    nodes: int = 1
    workers: int = 1


class TryGone(Fact):
    """What was made of a try for capacity is gone, and costs nothing any more."""

    cluster_name: str = ""
    generation: int | None = None
