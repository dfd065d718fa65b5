"""What a run reported is read for ever, of all its attempts, and never twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.http_events import Client, spec
from tests.support.memory import World

from trainyard.app.runs import read_curves
from trainyard.domain.records import Attempt, Run
from trainyard_agent.host.identifiers import ulid
from trainyard_contracts.curves import MOST_NAMES, MOST_POINTS, KeptCurve, KeptCurves
from trainyard_contracts.events import ClusterHeartbeat, RunSample

BEGAN = 1_790_000_000.0
MONTH = timedelta(days=30)


@pytest.fixture
def run(client: Client, world: World) -> Run:
    """It ended a month ago, after two attempts; no heartbeat is left."""
    made = world.runs.get(client.post("/v1/runs", spec()).json["id"])
    attempts = [Attempt(number=1), Attempt(number=2)]
    ended = made.created_at + timedelta(hours=2)
    found: Run = world.runs.put(
        made.changed(attempts=attempts, status="Succeeded", finished_at=ended)
    )
    world.clock.tick(MONTH.total_seconds())
    return found


def curve(name: str, *points: tuple[int, float], **more: Any) -> KeptCurve:
    kept = [(step, BEGAN + step, value) for step, value in points]
    return KeptCurve(name=name, points=kept, reports=len(points), **more)


def keep(world: World, run: Run, attempt: int, *curves: KeptCurve, **more: Any) -> None:
    document = KeptCurves(
        run_id=run.id,
        attempt=attempt,
        written_at=datetime.now(timezone.utc),
        curves=list(curves),
        **more,
    )
    body = document.model_dump_json(by_alias=True).encode()
    world.blobs.put(f"{run.prefix}/logs/attempt-{attempt}.curves.json", body)


def asked(client: Client, run: Run, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/v1/runs/{run.id}/metrics", query=query)
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json
    return found


def points(found: dict[str, Any]) -> Sequence[tuple[int, int, float]]:
    return [(one["attempt"], one["step"], one["value"]) for one in found["points"]]


def beat(world: World, run: Run, at: datetime, *samples: RunSample) -> None:
    world.clusters.put_heartbeat(
        ClusterHeartbeat(
            id=ulid(),
            at=at,
            cluster_name=run.cluster_name,
            cluster_arn="a",
            nodes=[],
            runs=list(samples),
        )
    )


def test_a_month_after_its_end_a_run_has_its_curves(client: Client, world: World, run: Run) -> None:
    keep(world, run, 1, curve("loss", (1, 0.9), (2, 0.8)), curve("accuracy", (2, 0.5)))
    keep(world, run, 2, curve("loss", (2, 0.8), (3, 0.4)), curve("accuracy", (3, 0.75)))
    found = asked(client, run)
    assert points(found) == [(1, 1, 0.9), (1, 2, 0.8), (2, 2, 0.8), (2, 3, 0.4)]
    assert found["points"][0]["at"] == "2026-09-21T14:13:21Z"
    assert (found["name"], found["run"], found["nodes"]) == ("loss", [], {})
    found = asked(client, run, name="accuracy")
    assert (found["name"], points(found)) == ("accuracy", [(1, 2, 0.5), (2, 3, 0.75)])
    assert found["names"] == [
        {"name": "loss", "reports": 4, "notFinite": 0, "last": 0.4, "lowest": 0.4, "highest": 0.9},
        {"name": "accuracy", "reports": 2, "notFinite": 0, "last": 0.75, "lowest": 0.5,
         "highest": 0.75},
    ]  # fmt: skip


def test_a_name_that_nobody_reported_has_no_points_and_the_others_are_named(
    client: Client, world: World, run: Run
) -> None:
    keep(world, run, 1, curve("loss", (1, 0.9)), curve("rate", not_finite=3), names_left_out=7)
    found = asked(client, run, name="acuracy")
    assert (points(found), [one["name"] for one in found["names"]]) == ([], ["loss", "rate"])
    assert (found["names"][1]["notFinite"], found["names"][1]["last"]) == (3, None)
    assert found["namesLeftOut"] == 7


@pytest.mark.parametrize("name", ["a,b", "x=1&y", "é ü", "<b>", "100%", "a\nb", "\x1b[31m", "+"])
def test_a_name_may_hold_every_character(client: Client, world: World, run: Run, name: str) -> None:
    keep(world, run, 1, curve(name, (1, 0.5)), curve("a", (1, 9.0)))
    found = asked(client, run, name=name)
    assert (found["name"], points(found)) == (name, [(1, 1, 0.5)])


def test_heartbeats_go_on_where_what_is_kept_ends(client: Client, world: World, run: Run) -> None:
    now = world.clock.now()
    run = world.runs.put(
        world.runs.get(run.id).changed(status="Running", finished_at=None, created_at=now - MONTH)
    )
    keep(world, run, 1, curve("loss", (1, 0.9), (5, 0.6)))
    for second, attempt, step, loss in (
        (1, 1, 4, 0.7), (2, 1, 5, 0.6), (3, 1, 7, 0.5), (4, 1, 7, 0.5), (5, 2, 5, 0.6),
        (6, 2, 6, None), (7, 2, None, None),
    ):  # fmt: skip
        sample = RunSample(run_id=run.id, attempt=attempt, step=step, loss=loss)
        other = RunSample(run_id="run-other", attempt=9, step=99, loss=9.0)
        beat(world, run, now - timedelta(seconds=60 - second), other, sample)
    found = asked(client, run)
    assert points(found) == [(1, 1, 0.9), (1, 5, 0.6), (1, 7, 0.5), (2, 5, 0.6)]
    assert asked(client, run, name="accuracy")["points"] == []


def test_an_older_agents_run_has_the_losses_of_its_heartbeats(
    client: Client, world: World, run: Run
) -> None:
    sample = RunSample(run_id=run.id, attempt=1, step=40, loss=0.5)
    assert run.finished_at is not None
    beat(world, run, run.finished_at - timedelta(seconds=5), sample)
    found = asked(client, run)
    assert points(found) == [(1, 40, 0.5)]
    assert [(one["name"], one["last"]) for one in found["names"]] == [("loss", 0.5)]


def test_what_is_no_document_of_this_attempt_counts_as_none(
    client: Client, world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"{run.prefix}/logs/attempt-1.curves.json"
    for body in (b"", b"[]", b"\xff", b'{"curves": 1}'):
        world.blobs.put(key, body)
        assert points(asked(client, run)) == []
    keep(world, run, 1, curve("loss", (1, 0.9)))
    world.blobs.put(f"{run.prefix}/logs/attempt-2.curves.json", world.blobs.get(key))
    assert points(asked(client, run)) == [(1, 1, 0.9)], "one attempt's document is not another's"
    monkeypatch.setattr(read_curves, "MOST_BYTES", 10)
    assert points(asked(client, run)) == []


def test_a_document_of_nonsense_is_answered_within_its_bounds(
    client: Client, world: World, run: Run
) -> None:
    bad = KeptCurve(
        name="loss",
        points=[(1, 1e300, 1.0), (-1, 5.0, 1.0), (2, -5.0, 1.0), (10**30, 5.0, 1.0), (4, 5.0, 0.5)],
    )
    many = [curve(f"name-{number}", (1, 1.0)) for number in range(300)]
    keep(world, run, 1, bad, curve("x" * 101, (1, 1.0)), *many[:150])
    keep(world, run, 2, *many[150:])
    found = asked(client, run)
    assert points(found) == [(1, 4, 0.5)]
    assert len(found["names"]) == MOST_NAMES
    assert found["namesLeftOut"] == 152


def test_many_points_are_thinned_and_the_extremes_stay(
    client: Client, world: World, run: Run
) -> None:
    for attempt in (1, 2):
        values = [(step, 0.5) for step in range(MOST_POINTS)]
        values[777] = (777, 100.0 * attempt - 150)
        keep(world, run, attempt, curve("loss", *values))
    found = points(asked(client, run))
    assert MOST_POINTS / 3 < len(found) <= MOST_POINTS
    assert {(1, 0, 0.5), (1, 777, -50.0), (2, 777, 50.0), (2, MOST_POINTS - 1, 0.5)} <= set(found)


def test_an_empty_name_and_one_that_is_too_long_are_refused(client: Client, run: Run) -> None:
    for name in ("", "x" * 101):
        answer = client.get(f"/v1/runs/{run.id}/metrics", query={"name": name})
        assert answer.status == 400
        assert "name" in answer.fields
