"""The commands of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import (
    RUN,
    FakeApi,
    T,
    a_run,
    an_event,
    exported,
)

from trainyard_cli.screen import live
from trainyard_cli.screen.snapshot import Snapshot

pytestmark = pytest.mark.real


def test_an_export_is_waited_for_and_its_end_is_the_exit_status(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    def ends(*answers: dict[str, Any]) -> tuple[int, str, str]:
        old = exported("Running", id="export-1")
        api.answers[f"POST /v1/runs/{RUN}:export"] = (202, old)
        api.answers[f"GET /v1/runs/{RUN}"] = [(200, found) for found in (old, old, *answers)]
        return trainyard("run", "export", RUN)

    code, out, _ = ends(exported("Running", state="running"), exported("Running"))
    assert (code, "Exported and verified: 3 objects, 2.0 KiB" in out) == (0, True)
    code, out, err = ends(exported("Running", state="failed", reason="the disk is full"))
    assert (code, out, "The export failed: the disk is full" in err, "Next:" in err) == (
        1,
        "",
        True,
        True,
    )
    code, _, _ = ends(
        exported("Running", state="failed", final=True),
        exported("Succeeded", id="export-3", final=True),
    )
    assert code == 0
    code, _, err = ends(exported("Running", leftBehind="2 files of the program's own"))
    assert (code, "not exported: 2 files" in err) == (0, True)
    code, _, err = ends(a_run("Failed"))
    assert (code, "the run is Failed: because" in err) == (1, True)


def test_an_export_can_be_asked_for_without_waiting(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"POST /v1/runs/{RUN}:export": (202, a_run("Running")),
    }
    code, out, _ = trainyard("run", "export", RUN, "--no-wait")
    assert (code, out.startswith("Exporting")) == (0, True)


def test_what_surprises_at_the_end_is_said_at_submission_and_why_a_cluster_stays_is_shown(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text("name: x")
    api.answers["POST /v1/runs"] = (
        202,
        a_run("Pending", warnings=["job: results belong into TRAINYARD_OUTPUT_DIR"]),
    )
    code, out, err = trainyard("run", "submit", str(tmp_path / "run.yaml"))
    assert (code, out.strip(), "warning job: results belong" in err) == (0, RUN, True)
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Succeeded", teardownRefused="No result was found.")),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    assert "No result was found." in trainyard("run", "show", RUN)[1]


def test_pruned_checkpoints_are_counted_and_not_listed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    found = [
        {
            "step": step,
            "attempt": 1,
            "status": "whole" if step > 30 else "pruned",
            "bytes": 99,
            "committedAt": T,
        }
        for step in (50, 40, 30, 20)
    ]
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": found}),
    }
    _, out, _ = trainyard("run", "show", RUN)
    shown = out.partition("Checkpoints")[2].splitlines()
    assert shown[0] == " (2 older pruned)"
    assert [line.split()[:3] for line in shown[2:]] == [["50", "1", "whole"], ["40", "1", "whole"]]
    assert "2 checkpoints, newest at step 50" in live.training_line(
        Snapshot(a_run(), checkpoints=found)
    )


def test_who_asks_for_a_job_log_that_says_nothing_is_told_of_the_other_one(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (
        200,
        {"kind": "job", "attempt": 1, "source": "none", "text": ""},
    )
    _, _, err = trainyard("run", "logs", RUN)
    assert f"run logs --kind lifecycle {RUN}" in err
    _, _, err = trainyard("run", "logs", RUN, "--kind", "lifecycle")
    assert "Nothing is in the lifecycle log, or there is none." in err


@pytest.mark.parametrize("columns", [60, 10_000])
def test_the_reason_of_a_failed_run_is_shown_whole_beside_its_name(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    problem = {
        "code": "lifecycle-failed",
        "title": "A script failed",
        "detail": f"{words}\nERROR: the reason",
        "nextStep": "Mend it.",
    }
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Failed", problem=problem)),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    monkeypatch.setattr("trainyard_cli.screen.output.out.width", columns)
    _, out, _ = trainyard("run", "show", RUN)
    told = " ".join(out.split())
    assert f"problem A script failed: {words} ERROR: the reason next step Mend it." in told
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_a_dry_run_shows_the_plan_and_asks_for_nothing_else(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    plan = {"operation": "CreateCluster", "request": {"ClusterName": "mine"},
            "files": {"on_create.sh": 2048}, "batchScript": "#!/bin/bash [x]",
            "hourlyUsd": 1.5, "warnings": ["no spare"]}  # fmt: skip
    api.answers["POST /v1/runs"] = (200, plan)
    code, out, _ = trainyard("run", "submit", spec, "--dryrun")
    assert code == 0
    for part in (
        "CreateCluster",
        "1.50 USD an hour",
        "#!/bin/bash [x]",
        "no spare",
        "1 files, 2.0 KiB",
    ):
        assert part in out
    assert [request["query"] for request in api.requests] == [{"dryrun": "true"}]


def test_what_a_job_wrote_is_shown_and_never_obeyed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b1A"
    problem = {"title": f"Failed {evil}", "detail": evil, "nextStep": evil, "code": "same-error"}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Failed", name=evil, reason=evil, problem=problem)),
        f"GET /v1/runs/{RUN}/events": (200, {"events": [an_event(1, evil)]}),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
        f"GET /v1/runs/{RUN}/logs": (
            200,
            {"kind": "job", "attempt": 1, "source": "node", "text": evil},
        ),
        "GET /v1/runs": (200, {"runs": [a_run(name=evil, reason=evil)]}),
        f"POST /v1/runs/{RUN}:cancel": (409, problem),
    }
    calls = [
        ("show", RUN),
        ("events", RUN),
        ("logs", RUN),
        ("ls",),
        ("watch", RUN),
        ("cancel", RUN),
    ]
    for call in [*calls, *[(*call, "--json") for call in calls]]:
        _, out, err = trainyard("run", *call)
        assert "owned" in out + err
        assert not set(out + err) & {"\x1b", "\x07", "\x9b"}, call
