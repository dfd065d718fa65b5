"""Many runs on a real local cloud: a chain, an array, and a schedule that is due three nights."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import httpx
from tests.support.system import ENDED, Json, System, eventually

#: Adds its argument to what the run before it left, and leaves the sum.
ADD = """
import json, os, pathlib, sys
before = pathlib.Path("before/output/sum.json")
known = json.loads(before.read_text()) if before.exists() else 0
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
(output / "sum.json").write_text(json.dumps(known + int(sys.argv[1])))
"""


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
    made = system.api.create_schedule(
        {"name": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "run": run}
    )
    try:
        for night, due in enumerate(made["nextTimes"][:3], 1):
            _set_clock(system, due)
            eventually("a firing", lambda night=night: len(_firings(system)) == night, 60)
            firing = _firings(system)[-1]
            assert (firing["outcome"], firing["at"]) == ("submitted", due)
            system.ended(firing["runId"], "Succeeded", 90)
            assert left(system, firing["runId"]) == 7
    finally:
        system.api.delete_schedule("nightly")


def _firings(system: System) -> list[Json]:
    return list(system.api.schedule("nightly")["firings"])


def _set_clock(system: System, due: str) -> None:
    to = datetime.fromisoformat(due.replace("Z", "+00:00")) + timedelta(seconds=20)
    answer = httpx.post(
        f"{system.local['endpoint']}/_trainyard/clock",
        json={"to": to.isoformat()},
        headers=system._token(),
        timeout=60,
    )
    assert answer.status_code == 202, answer.text
