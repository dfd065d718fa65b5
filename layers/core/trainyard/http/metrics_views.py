"""The series of a run: its nodes, its training, what the program reported."""

from datetime import datetime
from typing import Self

from pydantic import Field

from trainyard.app.runs.read_metrics import Metrics
from trainyard.http.curve_views import CurveName, CurvePoint
from trainyard.http.views import View
from trainyard_contracts.curves import LOSS
from trainyard_contracts.events import NodeSample, RunSample


class TimedRunSample(RunSample):
    """Where the training stood at a moment."""

    at: datetime


class MetricsView(View):
    """Series from the heartbeats, oldest first, `nodes` by Slurm node name; and one curve of all
    that the run reported, which is kept for ever.
    """

    nodes: dict[str, list[NodeSample]]
    run: list[TimedRunSample]
    thinned: bool = Field(
        default=False,
        description=(
            "points or nodes are left out, so that the answer stays small; "
            "a shorter time shows more points"
        ),
    )
    node_count: int = Field(default=0, description="nodes that have samples, shown or not")
    name: str = Field(default=LOSS, description="whose points are shown")
    points: list[CurvePoint] = Field(
        default_factory=list,
        description=(
            "of the whole run, by attempt and step, 2000 at most: the first, the newest, the "
            "lowest and the highest are always among them"
        ),
    )
    names: list[CurveName] = Field(
        default_factory=list, description="100 at most, the loss first, then by their first report"
    )
    names_left_out: int = Field(default=0, description="names that are not kept or not shown")

    @classmethod
    def of_series(cls, metrics: Metrics) -> Self:
        samples = [
            TimedRunSample.model_construct(**dict(sample), at=at) for at, sample in metrics.run
        ]
        curve = metrics.curve
        return cls.made(
            nodes=metrics.nodes,
            run=samples,
            thinned=metrics.thinned,
            node_count=metrics.node_count,
            name=curve.name,
            points=list(map(CurvePoint.of_point, curve.points)),
            names=list(map(CurveName.of_name, curve.names)),
            names_left_out=curve.names_left_out,
        )
