"""How often a run is tried again, how long it may take, and what it may cost."""

from typing import Annotated

from pydantic import Field

from .base import Strict


class RecoverySpec(Strict):
    """The budgets of the recovery policy."""

    max_attempts: int = Field(
        default=10, ge=1, le=1000, description="submissions of the job in all"
    )
    same_error_limit: int = Field(
        default=2,
        ge=1,
        le=100,
        description="stop when the same error came this often at the same step",
    )
    in_place_restarts_per_node: int = Field(
        default=2,
        ge=0,
        le=100,
        description="how often a node that a process was killed on is used again; then it is "
        "excluded",
    )
    wait_for_node_seconds: int = Field(
        default=3600,
        ge=0,
        le=86400,
        description="how long to wait for a node when no spare is left",
    )


class LimitSpec(Strict):
    """Hard bounds of the run's life."""

    max_duration_seconds: int = Field(
        default=7 * 86400,
        ge=60,
        le=60 * 86400,
        description="then the job is stopped, and what is whole is exported",
    )
    cluster_deadline_seconds: int = Field(
        default=3600, ge=30, le=86400, description="time for the cluster to be ready"
    )
    expected_seconds: int | None = Field(
        default=None,
        ge=1,
        le=60 * 86400,
        description="how long it will probably train; a dry run gives the price of that, and "
        "nothing else follows from it",
    )


class BudgetSpec(Strict):
    """What a life of the run may cost, saving and teardown included."""

    max_usd: float = Field(gt=0, le=1e9, description="the run is stopped before it costs more")
    warn_at: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=lambda: [0.5, 0.8, 0.95],
        max_length=10,
        description="parts of maxUsd at whose reach the timeline says so",
    )
    tail_seconds: int = Field(
        default=1200,
        ge=1,
        le=86400,
        description="how long the last checkpoint, the export and the teardown may take; their "
        "price is held back. A longer export of the run's own counts instead",
    )
