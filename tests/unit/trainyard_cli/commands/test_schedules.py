"""The commands of schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, T

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
OTHER = "run-01jd0000000000000000000009"
FILE = """\
name: nightly
cron: "0 2 * * *"
run:
  name: evaluate
  cluster: {name: shared}
  job: {nodes: 1, script: t.py, files: {t.py: ""}, arguments: [010]}
"""


def a_schedule(**fields: Any) -> dict[str, Any]:
    firing = {"at": T, "outcome": "submitted", "runId": RUN, "reason": "", "late": False}
    return {
        "name": "nightly",
        "status": "Active",
        "cron": "0 2 * * *",
        "rate": None,
        "timezone": "UTC",
        "overlap": "skip",
        "nextAt": T,
        "nextTimes": [T],
        "last": firing,
        "firings": [firing],
        **fields,
    }


def test_a_schedule_is_added_with_its_run_as_it_is_written(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "nightly.yaml").write_text(FILE)
    api.answers["POST /v1/schedules"] = (201, a_schedule())
    code, out, _ = trainyard("schedule", "add", str(tmp_path / "nightly.yaml"))
    assert code == 0
    assert "0 2 * * * UTC" in out
    sent = json.loads(api.requests[-1]["body"])
    assert sent["run"]["job"]["arguments"] == ["010"]


CHAIN = """\
name: nightly
cron: "0 2 * * *"
runs:
  - name: evaluate
    after: [train]
    cluster: {name: shared}
    inputs: [{source: "run:train/outputs/final", path: model}]
    job: {nodes: 1, script: t.py, files: {t.py: ""}}
  - name: train
    cluster: {name: shared}
    job: {nodes: 1, script: t.py, files: {t.py: ""}, arguments: [010]}
"""


def test_a_chain_is_added_in_its_order_by_the_names_of_its_runs(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "nightly.yaml").write_text(CHAIN)
    firing = {**a_schedule()["last"], "runIds": [RUN, OTHER]}
    api.answers["POST /v1/schedules"] = (201, a_schedule(firings=[firing]))
    code, out, _ = trainyard("schedule", "add", str(tmp_path / "nightly.yaml"))
    assert code == 0
    assert RUN in out
    assert OTHER in out
    sent = json.loads(api.requests[-1]["body"])
    assert [one["name"] for one in sent["runs"]] == ["train", "evaluate"]
    assert sent["runs"][0]["job"]["arguments"] == ["010"]
    assert sent["runs"][1]["after"] == ["train"]
    assert "run" not in sent


def test_a_chain_whose_runs_wait_for_each_other_is_not_sent(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    circle = CHAIN.replace("- name: train", "- name: train\n    after: [evaluate]")
    (tmp_path / "nightly.yaml").write_text(circle)
    code, _, err = trainyard("schedule", "add", str(tmp_path / "nightly.yaml"))
    assert code != 0
    assert "the runs wait for each other" in err
    assert api.requests == []


def test_schedules_are_listed_shown_paused_resumed_and_deleted(
    api: FakeApi, trainyard: Command
) -> None:
    api.answers["GET /v1/schedules"] = (200, {"schedules": [a_schedule()], "nextToken": None})
    api.answers["GET /v1/schedules/nightly"] = (200, a_schedule())
    api.answers["POST /v1/schedules/nightly:pause"] = (200, a_schedule(status="Paused"))
    api.answers["POST /v1/schedules/nightly:resume"] = (200, a_schedule())
    api.answers["DELETE /v1/schedules/nightly"] = (200, a_schedule(status="Deleted"))
    words = {
        ("ls",): "nightly",
        ("show", "nightly"): RUN,
        ("pause", "nightly"): "Paused",
        ("resume", "nightly"): "Active",
        ("rm", "nightly", "--yes"): "Deleted",
    }
    for arguments, word in words.items():
        code, out, _ = trainyard("schedule", *arguments)
        assert code == 0
        assert word in out


def test_a_pause_carries_its_reason(api: FakeApi, trainyard: Command) -> None:
    api.answers["POST /v1/schedules/nightly:pause"] = (200, a_schedule(status="Paused"))
    assert trainyard("schedule", "pause", "nightly", "--reason", "no budget")[0] == 0
    assert api.requests[-1]["query"] == {"reason": "no budget"}
    assert trainyard("schedule", "pause", "nightly")[0] == 0
    assert api.requests[-1]["query"] == {}
