"""Many runs on a real local cloud: chains, an array, and schedules that are due three nights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.support.system import ENDED, Json, System, eventually, light_job, total

from trainyard_sdk.problems import ApiProblem

#: Adds its argument to what the run before it left, and leaves the sum.
ADD = """
import json, os, pathlib, sys
before = pathlib.Path("before/output/sum.json")
known = json.loads(before.read_text()) if before.exists() else 0
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
(output / "sum.json").write_text(json.dumps(known + int(sys.argv[1])))
"""

#: Adds what training ended with to what was preprocessed.
EVALUATE = """
import json, os, pathlib
trained = json.loads(pathlib.Path("model/payload.json").read_text())["value"]
known = json.loads(pathlib.Path("tokens/sum.json").read_text())
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
(output / "sum.json").write_text(json.dumps(trained + known))
"""
STEPS = 60


def adding(number: int | str) -> Json:
    return {"recipe": "command", "nodes": 1, "script": "add.py", "arguments": [str(number)],
            "files": {"add.py": ADD}}  # fmt: skip


def left(system: System, run_id: str) -> Any:
    body = system.aws("s3").get_object(**_place(system, run_id, "output/sum.json"))["Body"].read()
    return json.loads(body)


def _place(system: System, run_id: str, key: str) -> dict[str, str]:
    uri = system.api.run(run_id)["export"]["uri"]
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": f"{prefix}{key}"}


def after(system: System, name: str, number: int, parent: str, shared: str) -> str:
    source = {"source": f"run:{parent}/outputs", "path": "before"}
    return system.submit(name, adding(number), shared, after=[parent], inputs=[source])


def test_a_chain_of_four_hands_on_what_each_made(system: System, shared: str) -> None:
    first = system.submit("preprocess", adding(1), shared)
    second = after(system, "train", 10, first, shared)
    third = after(system, "evaluate", 100, second, shared)
    fourth = after(system, "convert", 1000, third, shared)
    assert system.api.run(fourth)["status"] == "Waiting"
    system.ended(fourth, "Succeeded", 180)
    sums = [left(system, run_id) for run_id in (first, second, third, fourth)]
    assert sums == [1, 11, 111, 1111]


def test_a_small_array_ends_with_each_members_own_number(system: System, shared: str) -> None:
    run = {"name": "sweep", "cluster": {"name": shared}, "job": adding("{number}")}
    spec = {"run": run, "matrix": {"number": [1, 2, 3, 4, 5, 6]}, "maxParallel": 2}
    array = system.api.submit_array(spec)["id"]

    def over() -> Json | None:
        found = system.api.array(array)
        assert found["active"] <= 2
        return found if found["status"] in ENDED else None

    ended = eventually("the array ends", over, 240)
    assert (ended["status"], ended["succeeded"]) == ("Succeeded", 6), ended
    members = system.api.array_members(array)
    assert [left(system, one["runId"]) for one in members] == [1, 2, 3, 4, 5, 6]


def test_a_schedule_is_due_three_nights_and_each_has_a_run(system: System, shared: str) -> None:
    run = {"name": "nightly", "cluster": {"name": shared}, "job": adding(7)}
    with scheduled(system, "nightly", timezone="Europe/Berlin", run=run):
        for _ in range(3):
            [run_id] = next_night(system, "nightly")
            system.ended(run_id, "Succeeded", 90)
            assert left(system, run_id) == 7


@pytest.mark.long
def test_each_night_has_a_chain_and_one_of_the_nights_loses_a_node(
    system: System, shared: str
) -> None:
    with scheduled(system, "chained", runs=chain(shared)):
        for night in range(3):
            runs = next_night(system, "chained")
            _, train, evaluate, convert = runs
            attempts = 1
            if night == 1:
                lose_the_node_that_steps(system, shared, train)
                attempts = 2
            else:
                system.training(train, seconds=180)
                system.release(train)
            system.ended(convert, "Succeeded", 300)
            for run_id in runs:
                system.ended(run_id, "Succeeded")
            assert len(system.api.run(train)["attempts"]) == attempts
            assert left(system, evaluate) == 7 + total(STEPS)
            assert left(system, convert) == 7 + total(STEPS) + 1000


def chain(shared: str) -> list[Json]:
    """Preprocess, train, evaluate, convert: each reads what those before it exported."""
    where = {"cluster": {"name": shared}}
    tokens = {"source": "run:preprocess/outputs/output", "path": "tokens"}
    model = {"source": "run:train/outputs/final", "path": "model"}
    evaluated = {"source": "run:evaluate/outputs", "path": "before"}
    job = light_job(2, steps=STEPS, every=10, hold_at=30)
    evaluate = {**adding(0), "script": "evaluate.py", "files": {"evaluate.py": EVALUATE}}
    return [
        {"name": "preprocess", **where, "job": adding(7)},
        {"name": "train", **where, "job": job, "after": ["preprocess"], "inputs": [tokens]},
        {"name": "evaluate", **where, "job": evaluate, "after": ["preprocess", "train"],
         "inputs": [tokens, model]},
        {"name": "convert", **where, "job": adding(1000), "after": ["evaluate"],
         "inputs": [evaluated]},
    ]  # fmt: skip


def lose_the_node_that_steps(system: System, shared: str, run_id: str) -> None:
    """The training waits on its way, so it cannot be over before the node is lost."""
    run = system.training(run_id, checkpoints=2, seconds=180)
    node = system.node(shared, run["attempts"][0]["nodes"][0])
    system.fault("kill-node", shared, node=node["instanceId"])
    again = system.training(run_id, 2, seconds=180)
    assert node["name"] not in again["attempts"][1]["nodes"]
    assert again["attempts"][1]["resumedFrom"] == 20


@contextmanager
def scheduled(system: System, name: str, **spec: Any) -> Iterator[None]:
    """A schedule of each night at 2."""
    system.api.create_schedule({"name": name, "cron": "0 2 * * *", **spec})
    try:
        yield
    finally:
        system.api.delete_schedule(name)


def next_night(system: System, name: str) -> list[str]:
    """The clock of schedules goes to the next time of this one; the runs of that time."""
    before = system.api.schedule(name)["firings"]
    due = next(one["nextAt"] for one in system.status()["schedules"] if one["name"] == name)
    _set_clock(system, due)

    def fired() -> Json | None:
        firings = system.api.schedule(name)["firings"]
        return firings[-1] if len(firings) > len(before) else None

    firing = eventually(f"{name} fires", fired, 60)
    assert datetime.fromisoformat(firing["at"]) == datetime.fromisoformat(due)
    assert firing["outcome"] == "submitted", firing
    for run_id in firing["runIds"]:  # the schedule names them before they are made
        eventually(f"{run_id} is there", lambda run_id=run_id: _there(system, run_id), 60)
    return list(firing["runIds"])


def _there(system: System, run_id: str) -> bool:
    try:
        system.api.run(run_id)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return False
    return True


def _set_clock(system: System, due: str) -> None:
    to = datetime.fromisoformat(due.replace("Z", "+00:00")) + timedelta(seconds=20)
    answer = httpx.post(
        f"{system.local['endpoint']}/_trainyard/clock",
        json={"to": to.isoformat()},
        headers=system._token(),
        timeout=60,
    )
    assert answer.status_code == 202, answer.text
