"""What the agent writes of an attempt's reports is what the control plane reads, on moto's S3."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from tests.local.test_agent_export import moto_has
from tests.support.agent import config
from tests.support.http_events import Client, spec
from tests.support.memory import World

from trainyard.app.runs.read_metrics import read_metrics
from trainyard.aws.blobs import S3Blobs
from trainyard.domain.records import Attempt as AttemptRecord
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.run_curves import RunCurves


def report(directory: Path, *steps: int, accuracy: float) -> None:
    directory.mkdir(parents=True)
    lines = [{"step": step, "at": 1.79e9 + step, "loss": 1 / step} for step in steps]
    (directory / "steps.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    line = {"step": steps[-1], "at": 1.79e9, "metrics": {"accuracy, é": accuracy, "rate": None}}
    (directory / "metrics.jsonl").write_text(json.dumps(line) + "\n")


def test_the_curves_of_two_attempts_are_one_a_month_later(
    tmp_path: Path, client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.runs.get(client.post("/v1/runs", spec()).json["id"])
    settings = config(tmp_path).model_copy(
        update={"runs_prefix": made.prefix.rpartition("/")[0], "data_bucket": "curves"}
    )
    with moto_has(monkeypatch, bucket="curves", bus="curves"):
        known = {}
        for number, steps in ((1, (1, 2, 3)), (2, (3, 4))):
            directory = tmp_path / "attempts" / str(number)
            report(directory, *steps, accuracy=number / 4)
            known[made.id, number] = Attempt(made.id, number, "ended", directory)
        attempts: Any = type("Known", (), {"known": known, "active": lambda _: []})()
        asyncio.run(RunCurves(settings, S3("us-east-1"), attempts).settled(made.id))
        two = [AttemptRecord(number=number) for number in (1, 2)]
        world.runs.put(made.changed(attempts=two, status="Succeeded"))
        world.clock.tick(30 * 86400)
        blobs: Any = S3Blobs(boto3.client("s3", region_name="us-east-1"), "curves")
        ports = replace(world.ports, blobs=blobs)
        curve = read_metrics(ports, made.id).curve
        found = [(one.attempt, one.step, one.value) for one in curve.points]
        assert found == [(1, 1, 1), (1, 2, 1 / 2), (1, 3, 1 / 3), (2, 3, 1 / 3), (2, 4, 1 / 4)]
        other = read_metrics(ports, made.id, name="accuracy, é").curve
        assert [(one.attempt, one.value) for one in other.points] == [(1, 0.25), (2, 0.5)]
        rate = next(one for one in other.names if one.name == "rate")
        assert (rate.not_finite, rate.last) == (2, None)
