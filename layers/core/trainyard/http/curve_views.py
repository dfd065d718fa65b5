"""The numbers that a program reported."""

from datetime import datetime
from typing import Self

from pydantic import Field

from trainyard.app.runs import read_curves
from trainyard.http.views import View


class CurvePoint(View):
    """One report of a number."""

    at: datetime
    attempt: int
    step: int
    value: float

    @classmethod
    def of_point(cls, point: read_curves.CurvePoint) -> Self:
        return cls.made(at=point.at, attempt=point.attempt, step=point.step, value=point.value)


class CurveName(View):
    """A name under which the run reported numbers, in all its attempts."""

    name: str = Field(description="the program's own word; loss is the training's loss")
    reports: int = Field(description="how many there were; of the loss of older agents, samples")
    not_finite: int = Field(description="reports of NaN or of infinity; they have no point")
    last: float | None = Field(description="the newest")
    lowest: float | None = Field(description="of all attempts")
    highest: float | None = Field(description="of all attempts")

    @classmethod
    def of_name(cls, one: read_curves.CurveName) -> Self:
        return cls.made(
            name=one.name,
            reports=one.reports,
            not_finite=one.not_finite,
            last=one.last,
            lowest=one.lowest,
            highest=one.highest,
        )
