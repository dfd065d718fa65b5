"""How several people share a cluster: limits of what one of them may use at once, and turns."""

from typing import Annotated

from pydantic import Field
from typing_extensions import Self

from .base import Strict, judged, rule
from .labels import LONGEST_KEY, MOST_LABELS, label_key

#: Limits of one cluster.
MOST_LIMITS = 50
#: Above and below a run of which nobody said anything, which has 0.
HIGHEST_PRIORITY = 100

Priority = Annotated[
    int,
    Field(
        ge=-HIGHEST_PRIORITY,
        le=HIGHEST_PRIORITY,
        description="on a cluster that runs share, a higher one has its turn first",
    ),
]
LabelKey = Annotated[
    str,
    Field(json_schema_extra={"minLength": 1, "maxLength": LONGEST_KEY}),
    judged(label_key),
]


class SharingLimit(Strict):
    """What each owner, or all runs of one value of a label, may use of a cluster at once."""

    label: LabelKey | None = Field(
        default=None,
        description="the runs with one value of this label count together; runs without it have "
        "no limit here",
    )
    value: str | None = Field(
        default=None, max_length=128, description="only this value of the label; default: each one"
    )
    owner: str | None = Field(
        default=None,
        min_length=1,
        max_length=300,
        description="the runs of one owner count together; for owners whose ARN matches this "
        "pattern, '*' is everybody",
    )
    max_runs: int | None = Field(
        default=None, ge=1, le=10_000, description="runs that have their turn at once"
    )
    max_nodes: int | None = Field(
        default=None, ge=1, le=10_000, description="nodes of those runs together"
    )

    @rule
    def _of_somebody(self) -> Self:
        if (self.label is None) == (self.owner is None):
            raise ValueError("label: give one of 'label' and 'owner', so that it is clear whose")
        if self.value is not None and self.label is None:
            raise ValueError("value: is of a label; give 'label', too")
        if self.max_runs is None and self.max_nodes is None:
            raise ValueError("maxRuns: give 'maxRuns', 'maxNodes' or both")
        return self


class SharingSpec(Strict):
    """Who of those that share the cluster has a turn when, beside the priorities of their runs."""

    fair_by: LabelKey | None = Field(
        default=None,
        description="those who take turns are the values of this label; default: the owners",
    )
    limits: list[SharingLimit] = Field(
        default_factory=list,
        max_length=MOST_LIMITS,
        description="of owners and of labels; each of them holds",
    )


class RunChanges(Strict):
    """What of a run that is there may be changed: labels, and its priority."""

    labels: dict[str, str | None] = Field(
        default_factory=dict,
        max_length=2 * MOST_LABELS,
        description="by key; a value sets the label, null takes it away",
    )
    priority: Priority | None = Field(default=None, description="null leaves it as it is")

    @rule
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("labels: give 'labels', 'priority' or both")
        return self


class ClusterChanges(Strict):
    """What of a cluster that is there may be changed without a change of its nodes."""

    labels: dict[str, str | None] = Field(
        default_factory=dict,
        max_length=2 * MOST_LABELS,
        description="by key; a value sets the label, null takes it away",
    )
    sharing: SharingSpec | None = Field(
        default=None, description="in place of all that was there; null leaves it as it is"
    )

    @rule
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("labels: give 'labels', 'sharing' or both")
        return self
