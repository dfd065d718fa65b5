"""What a program reported is there when its cluster is gone: to look at, and to download."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.local.system.test_system_own_directory import trainyard
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System

#: It is killed once, after step 3, and then begins anew.
PROGRAM = """
import os, pathlib, signal
from trainyard_job import report

output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
attempt = int(os.environ["TRAINYARD_ATTEMPT"])
for step in range(1, 6):
    report(step, 1 / step, accuracy=step / 10 + attempt, rate=float("nan"))
    if step == 3 and attempt == 1:
        from trainyard_job import api
        api.current().flush()
        os.kill(os.getpid(), signal.SIGKILL)
(output / "model.pt").write_bytes(b"weights")
"""
ACCURACY = [(1, 1, 1.1), (1, 2, 1.2), (1, 3, 1.3), (2, 1, 2.1), (2, 2, 2.2), (2, 3, 2.3),
            (2, 4, 2.4), (2, 5, 2.5)]  # fmt: skip


def job() -> Json:
    return {"recipe": "command", "nodes": 1, "script": "train.py", "files": {"train.py": PROGRAM}}


def test_what_a_program_reported_outlives_its_cluster(
    system: System, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_id = system.submit("curves", job(), cluster_spec("curves"))
    run = system.ended(run_id, "Succeeded", 180)
    assert [found["number"] for found in run["attempts"]] == [1, 2]
    system.assert_gone(system.api.cluster(run["clusterName"]))

    found = trainyard(system, capsys, "run", "metrics", run_id, "--name", "accuracy")
    points = [(one["attempt"], one["step"], round(one["value"], 6)) for one in found["points"]]
    assert points == ACCURACY
    names = {one["name"]: one for one in found["names"]}
    assert list(names) == ["loss", "accuracy", "rate"]
    assert (names["rate"]["notFinite"], names["rate"]["last"]) == (8, None)
    losses = trainyard(system, capsys, "run", "metrics", run_id)["points"]
    assert [(one["attempt"], one["step"]) for one in losses] == [
        (attempt, step) for attempt, step, _ in ACCURACY
    ]

    trainyard(system, capsys, "run", "download", run_id, "--to", str(tmp_path / "all"))
    curves = tmp_path / "all/curves"
    assert {path.name for path in curves.iterdir()} == {
        f"attempt-{number}.{name}"
        for number in (1, 2)
        for name in ("steps.jsonl", "metrics.jsonl", "curves.json")
    }
    lines = (curves / "attempt-2.metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["metrics"]["accuracy"] for line in lines] == pytest.approx(
        [2.1, 2.2, 2.3, 2.4, 2.5]
    )
    assert (tmp_path / "all/output/model.pt").read_bytes() == b"weights"


def test_a_run_that_only_reported_has_left_no_result(system: System) -> None:
    program = "from trainyard_job import report\nreport(1, 0.5, accuracy=0.75)\n"
    run_id = system.submit("reports", {**job(), "files": {"train.py": program}},
                           cluster_spec("reports"))  # fmt: skip
    run = system.ended(run_id, "Succeeded", 120)
    assert "No result was found" in run["teardownRefused"]
    [name] = [one for one in system.api.metrics(run_id)["names"] if one["name"] == "accuracy"]
    assert name["last"] == 0.75
    system.api.delete_cluster(run["clusterName"])
    system.assert_gone(system.api.cluster(run["clusterName"]))
