"""A run that is submitted again and again, at times that a person names."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from typing_extensions import Self

from .base import Name, Strict, judged, read_stored, rule
from .cron import Cron, Rate, zone_of
from .inputs import InputSpec, RunOutputs
from .specs import RunSpec

#: Runs of one time. As many as a run may name in `after`, since the next time may wait for all.
MOST_RUNS = 16


def _cron(text: str) -> str:
    Cron.of(text)
    return text


def _rate(text: str) -> str:
    Rate.of(text)
    return text


def _zone(name: str) -> str:
    zone_of(name)
    return name


class ChainedRun(RunSpec):
    """A run of a chain: `after` and run:NAME/outputs name runs above it, of the same time."""

    after: list[Name] = Field(
        default_factory=list,
        max_length=16,
        description="names of runs above it in the list; it begins when those have ended",
    )

    def with_ids(self, ids: Mapping[str, str], before: Sequence[str] = ()) -> RunSpec:
        """The spec of one time, with ids in the place of names.

        One that follows no other of its time begins after the runs `before`, however they ended.
        These are given oldest first; of several times the newer ones wait for the older ones.
        """
        spec = self.changed(
            after=[ids[name] for name in self.after],
            inputs=[_with_id(one, ids) for one in self.inputs],
        )
        if before and not self.after:
            spec = spec.changed(after=list(before[:MOST_RUNS]), after_policy="end")
        return read_stored(RunSpec, spec.model_dump_json(by_alias=True))


def _with_id(one: InputSpec, ids: Mapping[str, str]) -> InputSpec:
    outputs = RunOutputs.of(one.source)
    if outputs is None:
        return one
    return one.changed(source=outputs._replace(run_id=ids[outputs.run_id]).source())


class ScheduleSpec(Strict):
    """When which runs are submitted, and what happens while those before them still train."""

    name: Annotated[Name, StringConstraints(max_length=48)] = Field(
        description="of the schedule; each run's name is that of its spec"
    )
    cron: Annotated[str, StringConstraints(max_length=128), judged(_cron)] | None = Field(
        default=None,
        description="minute, hour, day of the month, month, day of the week: '0 2 * * *' is each "
        "night at 2",
    )
    rate: Annotated[str, StringConstraints(max_length=32), judged(_rate)] | None = Field(
        default=None, description="such as '6 hours', counted from the schedule's creation"
    )
    timezone: Annotated[str, StringConstraints(max_length=50), judged(_zone)] = Field(
        default="UTC",
        description="of cron, such as Europe/Berlin. An hour that a zone leaves out in spring has "
        "no run, and one that it has twice in autumn has one",
    )
    overlap: Literal["skip", "queue", "replace"] = Field(
        default="skip",
        description="while the run of an earlier time goes on. skip: no run; queue: the run begins "
        "after it, and one waits at most; replace: it is cancelled, and the run begins after that",
    )
    run: RunSpec | None = Field(default=None, description="what is submitted; or give 'runs'")
    runs: list[ChainedRun] = Field(
        default_factory=list,
        max_length=MOST_RUNS,
        description="a chain instead of one run, such as preprocess, train, evaluate; all of it is "
        "submitted at each time",
    )

    @rule
    def _when(self) -> Self:
        if (self.cron is None) == (self.rate is None):
            raise ValueError("give one of 'cron' (such as '0 2 * * *') and 'rate' ('6 hours')")
        if self.rate is not None and self.timezone != "UTC":
            raise ValueError("timezone: a rate has none; remove it, or use cron")
        return self

    @rule
    def _what(self) -> Self:
        if (self.run is None) == (not self.runs):
            raise ValueError("give one of 'run' (one run) and 'runs' (a chain of runs)")
        if self.run is not None and self.run.after:
            raise ValueError(
                "run.after: a schedule's run follows no others; use overlap for those before it, "
                "and 'runs' for a chain"
            )
        return self

    @rule
    def _chained(self) -> Self:
        above: dict[str, ChainedRun] = {}
        for number, one in enumerate(self.runs):
            field = f"runs.{number}"
            if one.name in above:
                raise ValueError(
                    f"{field}.name: '{one.name}' is the name of two runs; give each its own"
                )
            for name in one.after:
                if name not in above:
                    known = ", ".join(above) or "none"
                    raise ValueError(
                        f"{field}.after: '{name}' is no run above this one ({known}); put the run "
                        "that comes first above it"
                    )
            for at, given in enumerate(one.inputs):
                outputs = RunOutputs.of(given.source)
                if outputs is not None and not above[outputs.run_id].export.enabled:
                    raise ValueError(
                        f"{field}.inputs.{at}.source: run '{outputs.run_id}' exports nothing "
                        "(export.enabled: false), so it has no outputs to read"
                    )
            above[one.name] = one
        return self

    @property
    def chain(self) -> list[ChainedRun]:
        """The runs of each time, in the order of their submission."""
        if self.run is None:
            return self.runs
        return [read_stored(ChainedRun, self.run.model_dump_json(by_alias=True))]

    @property
    def expression(self) -> str:
        """As EventBridge Scheduler reads it."""
        if self.cron is not None:
            return Cron.of(self.cron).expression()
        return Rate.of(self.rate or "").expression()
