"""What all runs of a label's value, or a cluster, may cost together, as a person asks for it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from typing_extensions import Self

from .base import Name, Strict, judged, rule
from .labels import LONGEST_KEY, LONGEST_VALUE, label_key, label_value


def _one_label(text: str) -> str:
    key, equals, value = text.partition("=")
    if not equals or not value:
        raise ValueError(f"'{text[:100]}' must be KEY=VALUE, such as team=vision")
    key = label_key(key)
    return f"{key}={label_value(key, value)}"


class TeamBudgetSpec(Strict):
    """A sum for a label's value or for a cluster, and for how long it is."""

    label: (
        Annotated[
            str,
            StringConstraints(max_length=LONGEST_KEY + LONGEST_VALUE + 1),
            judged(_one_label),
        ]
        | None
    ) = Field(
        default=None,
        description="KEY=VALUE: all runs with this label count, wherever they run",
        examples=["team=vision"],
    )
    cluster: Name | None = Field(
        default=None,
        description="all of this cluster counts, used and idle; of one whose nodes come with jobs, "
        "its runs",
        examples=["shared"],
    )
    max_usd: float = Field(gt=0, le=1e9, description="runs are stopped before they cost more")
    per: Literal["month", "total"] = Field(
        default="month", description="month: of UTC, each anew; total: for ever"
    )
    warn_at: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=lambda: [0.5, 0.8, 0.95],
        max_length=10,
        description="parts of maxUsd at whose reach people are told, once each in a period",
    )
    tail_seconds: int = Field(
        default=1200,
        ge=1,
        le=86400,
        description="how long the last checkpoint, the export and the teardown of each run may "
        "take; their price is held back. A longer export of the run's own counts instead",
    )

    @rule
    def _of_one_thing(self) -> Self:
        if (self.label is None) == (self.cluster is None):
            raise ValueError("needs one of label, such as team=vision, and cluster; not both")
        return self
