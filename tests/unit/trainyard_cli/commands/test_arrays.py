"""The commands of arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, T

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
ARRAY = "arr-" + "0" * 26
FILE = """\
run:
  name: sweep
  cluster: {name: shared}
  job: {nodes: 1, script: t.py, files: {t.py: ""}, arguments: [--lr, "{lr}"]}
matrix: {lr: [0.10, 010]}
"""


def an_array(**fields: Any) -> dict[str, Any]:
    return {
        "id": ARRAY,
        "name": "sweep",
        "status": "Running",
        "createdAt": T,
        "total": 2,
        "active": 1,
        "succeeded": 1,
        "maxParallel": 1,
        "clusterName": "shared",
        "reason": "1 of 2 members succeeded, 1 active.",
        **fields,
    }


def test_a_submitted_array_prints_its_id_and_sends_values_as_they_are_written(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "array.yaml").write_text(FILE)
    api.answers["POST /v1/arrays"] = (202, an_array())
    code, out, _ = trainyard("array", "submit", str(tmp_path / "array.yaml"))
    assert (code, out.strip()) == (0, ARRAY)
    assert json.loads(api.requests[-1]["body"])["matrix"] == {"lr": ["0.10", "010"]}


def test_an_array_is_shown_with_its_members(api: FakeApi, trainyard: Command) -> None:
    member = {"index": 0, "parameters": {"lr": "0.1"}, "status": "Succeeded", "reason": ""}
    other = {**member, "index": 1, "runId": None, "status": None}
    api.answers[f"GET /v1/arrays/{ARRAY}"] = (200, an_array())
    members = [{**member, "runId": RUN}, other]
    page = {"members": members, "nextToken": None}
    api.answers[f"GET /v1/arrays/{ARRAY}/members"] = (200, page)
    code, out, _ = trainyard("array", "show", ARRAY)
    assert code == 0
    for words in ("lr=0.1", RUN, "not begun", "1 of 2 members succeeded"):
        assert words in out


def test_arrays_are_listed_and_one_is_cancelled(api: FakeApi, trainyard: Command) -> None:
    api.answers["GET /v1/arrays"] = (200, {"arrays": [an_array()], "nextToken": None})
    code, out, _ = trainyard("array", "ls")
    assert code == 0
    assert "1/2" in out
    api.answers[f"POST /v1/arrays/{ARRAY}:cancel"] = (202, an_array(status="Cancelling"))
    code, out, _ = trainyard("array", "cancel", ARRAY, "--yes")
    assert code == 0
    assert "Cancelling" in out


def test_a_file_without_a_run_and_an_arrays_file_for_a_run_are_refused(
    trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "array.yaml").write_text(FILE)
    (tmp_path / "run.yaml").write_text("name: x\njob: {}\n")
    code, _, err = trainyard("array", "submit", str(tmp_path / "run.yaml"))
    assert code == 6
    assert "Put the run's spec below 'run'" in err
    code, _, err = trainyard("run", "submit", str(tmp_path / "array.yaml"))
    assert code == 6
    assert "trainyard array submit" in err
