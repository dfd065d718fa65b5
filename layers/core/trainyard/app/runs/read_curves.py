"""What a run reported under one name, of all its attempts: what is kept, and what came since."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

from pydantic import ValidationError

from trainyard.domain.errors import BlobNotFound
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.curves import (
    LONGEST_NAME,
    LOSS,
    MOST_BYTES,
    MOST_NAMES,
    MOST_POINTS,
    KeptCurve,
    KeptCurves,
    Point,
)
from trainyard_contracts.events import RunSample
from trainyard_contracts.files import LATEST
from trainyard_contracts.thinning import Thinned

#: Of a run with more attempts the newest are read.
MOST_ATTEMPTS = 200
_AT_ONCE = 4
_HIGHEST_STEP = 10**12

#: A heartbeat's time, and where the training stood.
Live = tuple[datetime, RunSample]


@dataclass(frozen=True)
class CurvePoint:
    """One report that is shown."""

    at: datetime
    attempt: int
    step: int
    value: float


@dataclass(frozen=True)
class CurveName:
    """What is known under one name, of all attempts. `reports`: how many there were."""

    name: str
    reports: int
    not_finite: int
    last: float | None
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class Curve:
    """`points`: of `name`, by attempt and step. `names`: those that there are, the loss first."""

    name: str = LOSS
    points: list[CurvePoint] = field(default_factory=list)
    names: list[CurveName] = field(default_factory=list)
    names_left_out: int = 0


@dataclass
class _Part:
    """Of one attempt, as far as it is asked for."""

    attempt: int
    points: list[CurvePoint]
    names: list[CurveName]
    left_out: int


def read_curve(ports: Ports, run: Run, name: str, live: Sequence[Live]) -> Curve:
    """`live`: the heartbeats' samples of the training, oldest first; they know the loss only."""
    attempts = [attempt.number for attempt in run.attempts][-MOST_ATTEMPTS:]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(partial(_part, ports, run, name), attempts))
    parts = [part for part in found if part is not None]
    points = [point for part in parts for point in part.points]
    points += _since_kept(parts, live, name)
    points.sort(key=lambda point: (point.attempt, point.step))
    names = _joined_names(parts, live)
    left_out = max((part.left_out for part in parts), default=0)
    left_out += max(0, len(names) - MOST_NAMES)
    return Curve(name, _thinned(points), names[:MOST_NAMES], left_out)


def _part(ports: Ports, run: Run, name: str, attempt: int) -> _Part | None:
    """What is kept of one attempt. A node wrote it: what is no such document counts as none."""
    key = places.curves_key(places.log_key(run.prefix, attempt))
    about = ports.blobs.head(key)
    if about is None or about[0] > MOST_BYTES:
        return None
    try:
        kept = KeptCurves.model_validate_json(ports.blobs.get(key))
    except (BlobNotFound, ValidationError):
        return None
    if (kept.run_id, kept.attempt) != (run.id, attempt):
        return None
    curves = [curve for curve in kept.curves if 0 < len(curve.name) <= LONGEST_NAME][:MOST_NAMES]
    asked = [curve for curve in curves if curve.name == name][:1]
    points = [
        CurvePoint(datetime.fromtimestamp(at, timezone.utc), attempt, step, value)
        for curve in asked
        for step, at, value in _sound(curve)
    ]
    left_out = kept.names_left_out + len(kept.curves) - len(curves)
    return _Part(attempt, points, [_about(curve) for curve in curves], left_out)


def _sound(curve: KeptCurve) -> list[Point]:
    return [
        (step, at, value)
        for step, at, value in curve.points
        if 0 <= step <= _HIGHEST_STEP and 0 <= at < LATEST and math.isfinite(value)
    ]


def _about(curve: KeptCurve) -> CurveName:
    values = [value for _, _, value in _sound(curve)]
    return CurveName(
        name=curve.name,
        reports=curve.reports,
        not_finite=curve.not_finite,
        last=values[-1] if values else None,
        lowest=min(values, default=None),
        highest=max(values, default=None),
    )


def _since_kept(parts: Sequence[_Part], live: Sequence[Live], name: str) -> list[CurvePoint]:
    """The losses of heartbeats that are newer than what is kept of their attempt. Of other names
    heartbeats say nothing.
    """
    if name != LOSS:
        return []
    newest = {
        part.attempt: max((point.step for point in part.points), default=-1) for part in parts
    }
    found: dict[tuple[int, int], CurvePoint] = {}
    for at, sample in live:
        step, loss = sample.step, sample.loss
        if step is None or loss is None or not math.isfinite(loss):
            continue
        if step > newest.get(sample.attempt, -1):
            point = CurvePoint(at, sample.attempt, step, loss)
            found.setdefault((sample.attempt, step), point)
    return list(found.values())


def _joined_names(parts: Sequence[_Part], live: Sequence[Live]) -> list[CurveName]:
    """The loss first, then as they were reported first."""
    known: dict[str, CurveName] = {}
    for part in parts:
        for one in part.names:
            known[one.name] = _both(known[one.name], one) if one.name in known else one
    losses = [sample.loss for _, sample in live if sample.loss is not None]
    if losses and LOSS not in known:
        known[LOSS] = CurveName(LOSS, len(losses), 0, losses[-1], min(losses), max(losses))
    return sorted(known.values(), key=lambda one: one.name != LOSS)


def _both(before: CurveName, after: CurveName) -> CurveName:
    """Of two attempts, in their order."""
    low = [value for value in (before.lowest, after.lowest) if value is not None]
    high = [value for value in (before.highest, after.highest) if value is not None]
    return CurveName(
        name=before.name,
        reports=before.reports + after.reports,
        not_finite=before.not_finite + after.not_finite,
        last=before.last if after.last is None else after.last,
        lowest=min(low, default=None),
        highest=max(high, default=None),
    )


def _thinned(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    kept = Thinned[CurvePoint](MOST_POINTS)
    for point in points:
        kept.add(point.value, point)
    return kept.items()
