"""An attempt's curves are in S3 while it trains, when it has ended, and before an export."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config
from tests.support.agent_s3 import AgentS3

from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.jobs import run_curves
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.run_curves import RunCurves

RUN = "run-01j0000000000000000000000a"


class Known:
    """As Attempts, of the runs of one test."""

    def __init__(self, *attempts: Attempt) -> None:
        self.known = {(one.run_id, one.number): one for one in attempts}

    def active(self) -> list[Attempt]:
        return [one for one in self.known.values() if one.active]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> AgentS3:
    monkeypatch.setattr(run_curves, "PAUSES_SECONDS", (0.0, 0.0))
    return AgentS3()


def attempt(root: Path, number: int = 1, state: Any = "ended") -> Attempt:
    directory = root / "attempts" / str(number)
    directory.mkdir(parents=True, exist_ok=True)
    return Attempt(RUN, number, state, directory)


def report(one: Attempt, *steps: int) -> None:
    with open(one.directory / "steps.jsonl", "a") as stream:
        for step in steps:
            stream.write(json.dumps({"step": step, "at": step, "loss": 1 / step}) + "\n")


def made(root: Path, s3: AgentS3, *attempts: Attempt) -> RunCurves:
    known: Any = Known(*attempts)
    store: Any = s3
    return RunCurves(config(root), store, known)


def kept(s3: AgentS3, number: int = 1) -> dict[str, Any]:
    [body] = [
        body for key, body in s3.objects.items() if key.endswith(f"/attempt-{number}.curves.json")
    ]
    found: dict[str, Any] = json.loads(body)
    return found


def steps(document: dict[str, Any], name: str = "loss") -> list[int]:
    [curve] = [one for one in document["curves"] if one["name"] == name]
    return [point[0] for point in curve["points"]]


def test_an_ended_attempts_curves_lie_beside_its_log(tmp_path: Path, s3: AgentS3) -> None:
    one = attempt(tmp_path)
    report(one, 1, 2)
    line = {"step": 2, "at": 5, "metrics": {"accuracy": 0.5}}
    (one.directory / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    asyncio.run(made(tmp_path, s3, one).finish(one))
    [key] = s3.objects
    assert key == f"runs/{RUN}/logs/attempt-1.curves.json"
    document = kept(s3)
    assert (document["schema"], document["runId"], document["attempt"]) == (
        "trainyard.curves.v1", RUN, 1,
    )  # fmt: skip
    assert (steps(document), steps(document, "accuracy")) == ([1, 2], [2])
    assert json.loads((one.directory / "curves.json").read_bytes()) == document


def test_while_it_trains_they_are_kept_now_and_then(
    tmp_path: Path, s3: AgentS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    one = attempt(tmp_path, state="running")
    curves = made(tmp_path, s3, one)

    async def go() -> None:
        nonlocal now
        written = []
        for second in range(0, 4 * 3600, 30):
            now = 1000.0 + second
            report(one, second + 1)
            before = len(s3.puts)
            await curves._look(one)
            written += [second] if len(s3.puts) > before else []
        assert written[:3] == [60, 120, 180]
        assert 60 < len(written) < 120, "an old attempt has few new versions"
        assert steps(kept(s3))[-1] > 4 * 3600 * 0.94

    asyncio.run(go())


def test_nothing_new_is_not_written_again(tmp_path: Path, s3: AgentS3) -> None:
    one = attempt(tmp_path, state="running")
    curves = made(tmp_path, s3, one)

    async def go() -> None:
        await curves.settled(RUN)
        assert s3.puts == [], "it reported nothing yet"
        report(one, 1)
        await curves.settled(RUN)
        await curves.settled(RUN)

    asyncio.run(go())
    assert len(s3.puts) == 1


def test_an_export_waits_for_the_curves_of_all_attempts(tmp_path: Path, s3: AgentS3) -> None:
    first, second = attempt(tmp_path, 1), attempt(tmp_path, 2, "running")
    waiting = attempt(tmp_path, 3, "submitted")
    report(first, 1, 2)
    report(second, 2, 3)
    curves = made(tmp_path, s3, first, second, waiting)
    asyncio.run(curves.settled(RUN))
    assert (steps(kept(s3, 1)), steps(kept(s3, 2))) == ([1, 2], [2, 3])
    asyncio.run(curves.settled("run-01j0000000000000000000000b"))
    assert len(s3.puts) == 2


def test_trouble_with_s3_is_tried_again_and_ends_nothing(tmp_path: Path, s3: AgentS3) -> None:
    one = attempt(tmp_path)
    report(one, 1)
    trouble: list[Exception] = [Unreachable("no answer")]

    def before(verb: str, key: str) -> None:
        if trouble:
            raise trouble.pop()

    s3.before = before
    curves = made(tmp_path, s3, one)
    asyncio.run(curves.finish(one))
    assert steps(kept(s3)) == [1]
    two = attempt(tmp_path, 2)
    report(two, 1)
    trouble += [Refused(403, "AccessDenied")]
    curves = made(tmp_path, s3, two)
    asyncio.run(curves.finish(two))
    assert len(s3.puts) == 1
    asyncio.run(curves.settled(RUN))
    assert len(s3.puts) == 2, "what was refused is tried again with the export"


def test_what_a_log_said_of_the_loss_is_kept_over_a_restart_of_the_agent(
    tmp_path: Path, s3: AgentS3
) -> None:
    one = attempt(tmp_path, state="running")
    one.losses.add(0.9, (1, 10.0, 0.9))
    asyncio.run(made(tmp_path, s3, one).settled(RUN))
    again = attempt(tmp_path)  # as a new agent knows it, which read the newest part of the log
    again.losses.add(0.7, (3, 30.0, 0.7))
    asyncio.run(made(tmp_path, s3, again).finish(again))
    assert steps(kept(s3)) == [1, 3]
    assert again.losses.items() == []


def test_a_disk_that_is_full_does_not_keep_them_from_s3(
    tmp_path: Path, s3: AgentS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_curves, "replace_file", full)
    one = attempt(tmp_path)
    report(one, 4)
    asyncio.run(made(tmp_path, s3, one).finish(one))
    assert steps(kept(s3)) == [4]
