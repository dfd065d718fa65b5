"""What is kept for ever of the numbers that an attempt reported: its agent writes it, the control
plane reads it.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from .base import Lenient

#: Points that are kept of one name in one attempt.
MOST_POINTS = 2000
#: Points that are kept of all names of one attempt together.
MOST_POINTS_IN_ALL = 50_000
#: Names that are kept of one attempt: those that were reported first.
MOST_NAMES = 100
#: A longer name is not kept, in characters.
LONGEST_NAME = 100
#: No document of an attempt is larger: it is read as a whole.
MOST_BYTES = 6 * 1024**2
#: The name of the loss, and what is asked for where nothing else is named.
LOSS = "loss"

#: Step, seconds since the epoch, value.
Point = tuple[int, float, float]


class KeptCurve(Lenient):
    """One name's points, by their steps."""

    name: str
    points: list[Point] = Field(
        default_factory=list, description="step, seconds since the epoch, value"
    )
    reports: int = Field(default=0, ge=0, description="how many there were, thinned or not")
    not_finite: int = Field(default=0, ge=0, description="reports of NaN or of infinity")


class KeptCurves(Lenient):
    """attempt-<n>.curves.json beside an attempt's log: all that it reported, thinned."""

    schema_name: Literal["trainyard.curves.v1"] = Field(
        default="trainyard.curves.v1", alias="schema"
    )
    run_id: str
    attempt: int = Field(ge=1)
    written_at: datetime
    curves: list[KeptCurve]
    names_left_out: int = Field(default=0, ge=0)
