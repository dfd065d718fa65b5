"""An entry of a training job's list of other capacity: which nodes the jobs ask for instead."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from typing_extensions import Self

from .base import rule
from .cluster_base import CapacityBase
from .training_job_words import TrainingInstanceType, TrainingPlanArn

Market = Literal["on-demand", "spot", "plan"]


class TrainingJobCapacity(CapacityBase):
    """Other nodes for the run's jobs."""

    instance_type: TrainingInstanceType | None = Field(
        default=None, description="of every node; default: the spec's own"
    )
    instance_types: list[TrainingInstanceType] = Field(
        default_factory=list,
        max_length=20,
        description="in place of instanceType: several, tried one after the other",
    )
    market: Market | None = Field(
        default=None,
        description="'plan' needs trainingPlanArn; 'spot' keeps no warm pool; default: the "
        "spec's own, or 'plan' with trainingPlanArn",
    )
    training_plan_arn: TrainingPlanArn | None = Field(
        default=None, description="of the training plan that reserved the nodes"
    )
    max_wait_seconds: int | None = Field(
        default=None,
        ge=1,
        description="as spot.maxWaitSeconds; default: that, or twice maxRuntimeSeconds",
    )

    @rule
    def _plan(self) -> Self:
        if self.instance_type is not None and self.instance_types:
            raise ValueError("instanceTypes: give one of 'instanceType' and 'instanceTypes'")
        if self.market == "plan" and self.training_plan_arn is None:
            raise ValueError("trainingPlanArn: market 'plan' needs the plan's ARN")
        if self.market not in (None, "plan") and self.training_plan_arn is not None:
            raise ValueError(
                f"trainingPlanArn: its market is 'plan', and not '{self.market}'; remove one"
            )
        if self.max_wait_seconds is not None and self.market != "spot":
            raise ValueError(
                "maxWaitSeconds: is for market 'spot' only; remove it, or give that market"
            )
        return self

    def types(self, own: str) -> Sequence[str]:
        """The types that are tried, one after the other."""
        return self.instance_types or [self.instance_type or own]

    @property
    def paid(self) -> Literal["on-demand", "spot", "plan"] | None:
        """The market, its default applied; None where the spec's own stays."""
        return "plan" if self.training_plan_arn is not None else self.market

    def wait(self, known: int | None, runtime: int) -> int:
        """The longest time of a spot job, with its waits."""
        return self.max_wait_seconds or known or 2 * runtime

    def where(self) -> dict[str, Any]:
        """Of the network, what differs."""
        return {"subnet_ids": self.subnet_ids} if self.subnet_ids else {}
