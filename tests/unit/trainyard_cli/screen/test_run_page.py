"""A run, as it is shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, T, a_run, exported

from trainyard_cli.screen import live
from trainyard_cli.screen.snapshot import Snapshot

pytestmark = pytest.mark.real


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
    assert shown[0] == " (2 removed or lost)"
    assert [line.split()[:3] for line in shown[2:]] == [["50", "1", "whole"], ["40", "1", "whole"]]
    committed = datetime.fromisoformat(T).astimezone()
    assert all(line.endswith(f"{committed:%F %T}") for line in shown[2:])
    assert shown[1].endswith(f"committed ({committed:%Z})")
    assert "2 checkpoints, newest at step 50" in live.training_line(
        Snapshot(a_run(), checkpoints=found)
    )


def test_a_loss_is_shown_in_the_digits_that_say_something(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    run = a_run()
    run["latest"] = {"step": 7, "loss": 0.010267732664942741, "at": T}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, run),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    assert "0.0102677\n" in trainyard("run", "show", RUN)[1]
    assert "0.010267732664942741" in trainyard("run", "show", RUN, "--json")[1]
    assert "loss 1.2e-07" in live.training_line(
        Snapshot({**run, "latest": {"step": 7, "loss": 1.2e-7}})
    )


def test_copies_whose_step_is_not_known_are_never_shown_as_steps(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    found = [
        {"step": 3, "attempt": 1, "status": "whole", "bytes": 9, "committedAt": T, "counted": True}
    ]
    run = a_run("Failed")
    run["latest"] = None
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, run),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": found}),
    }
    _, out, _ = trainyard("run", "show", RUN)
    assert "copy 3" in out.partition("Checkpoints")[2]
    assert "newest checkpoint" not in out
    snapshot = Snapshot(run, checkpoints=found)
    assert snapshot.step is None
    assert live.training_line(snapshot).endswith("1 checkpoint, newest at copy 3")


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


def test_a_run_is_shown_with_its_end_its_incidents_and_where_its_results_lie(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    incident = {
        "cause": "node-lost",
        "attempt": 1,
        "startedAt": "2026-11-20T20:00:10Z",
        "resumedAt": "2026-11-20T20:00:12.5Z",
        "node": "ip-127-0-0-2",
        "reason": "its agent fell silent",
    }
    silent = {**incident, "cause": "worker-killed", "resumedBy": "start"}
    found = exported("Succeeded", uri="s3://bucket/clusters/c/runs/r/export/")
    api.answers |= {
        f"GET /v1/runs/{RUN}": (
            200,
            {**found, "finishedAt": "2026-11-20T21:01:02Z", "incidents": [incident, silent]},
        ),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    code, out, _ = trainyard("run", "show", RUN)
    assert code == 0
    lines = {line.partition("  ")[0]: line for line in out.splitlines()}
    assert lines["duration"].endswith("1 h 1 min")
    assert "2026-11-2" in lines["finished"]
    assert lines["step"].endswith("41")
    assert lines["loss"].endswith("0.25")
    assert lines["lies at"].endswith("s3://bucket/clusters/c/runs/r/export/")
    assert lines["get it"].endswith(f"trainyard run download {RUN}")
    (row,) = [line for line in out.splitlines() if "node-lost" in line]
    assert row.split()[2:6] == ["node-lost", "1", "ip-127-0-0-2", "2.5"]
    assert row.endswith("its agent fell silent")
    (row,) = [line for line in out.splitlines() if "worker-killed" in line]
    assert "2.5 s (started)" in row, "no step was told"


def test_a_run_of_a_program_that_reports_nothing_shows_its_newest_checkpoints_step(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    checkpoint = {"step": 40, "attempt": 1, "status": "whole", "bytes": 99, "committedAt": T}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Succeeded", latest=None)),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": [checkpoint]}),
    }
    _, out, _ = trainyard("run", "show", RUN)
    assert "40 (newest checkpoint)" in out


def test_a_run_in_an_image_shows_its_name_and_the_digest_that_its_attempts_have(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    shown = a_run(spec={"job": {"image": "team/train:1"}}, imageDigest="sha256:77")
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, shown),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    assert "team/train:1 (sha256:77)" in " ".join(trainyard("run", "show", RUN)[1].split())
    shown |= {"imageDigest": ""}
    assert "team/train:1\n" in trainyard("run", "show", RUN)[1]


def test_a_reason_is_never_cut(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run(reason="x" * 200 + " end")]})
    _, out, _ = trainyard("run", "ls")
    assert "x" * 200 + " end" in out


def test_the_commit_that_runs_is_shown(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    code = {"tree": "0" * 64, "files": 1, "bytes": 1, "url": "https://h/[x]", "ref": "main"}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (
            200,
            a_run(
                code={**code, "commit": "c0ffee"},
                spec={"checkpoint": {"startFrom": {"run": "run-x", "step": 30}}},
            ),
        ),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    out = trainyard("run", "show", RUN)[1]
    assert "https://h/[x] (main), commit c0ffee" in out
    assert "step 30 of run-x" in out


def test_the_directory_that_was_uploaded_is_shown_by_its_content(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    tree = "ec5886a0113808ad" + "0" * 48
    code = {"tree": tree, "files": 9, "bytes": 5246629, "url": "", "ref": "", "commit": ""}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run(code=code)),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    out = "".join(trainyard("run", "show", RUN)[1].split())
    assert f"anuploadeddirectory,9files,5.0MiB,upload{tree}" in out


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"usd": 1.234, "final": False}, "cost 1.23 USD so far"),
        ({"usd": 0.0, "final": True}, "cost 0.00 USD"),
        ({"usd": None, "reason": "No price of [x].", "final": False}, "cost not known: No price"),
    ],
)
def test_a_run_is_shown_with_what_it_has_cost(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    found: dict[str, Any],
    shown: str,
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
        f"GET /v1/runs/{RUN}/cost": (200, found),
    }
    assert shown in " ".join(trainyard("run", "show", RUN)[1].split())


def test_a_run_is_shown_though_its_cost_cannot_be_read(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    code, out, _ = trainyard("run", "show", RUN)
    assert (code, "cost" in out) == (0, False)


def test_a_run_that_is_synced_says_when_and_what_and_how_to_get_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    asked = {"export": {"everySeconds": 300}}
    sync = {"at": "2026-01-01T00:00:00Z", "attempt": 2, "lastStep": 400, "objects": 12}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Running", spec=asked)),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    assert "nothing yet" in trainyard("run", "show", RUN)[1]
    found = a_run("Running", spec=asked, sync={**sync, "bytes": 2048, "leftOut": 1})
    api.answers[f"GET /v1/runs/{RUN}"] = (200, found)
    out = " ".join(trainyard("run", "show", RUN)[1].split())
    assert "12 files, 2.0 KiB, newest checkpoint of step 400, 1 file left out" in out
    assert f"trainyard run download {RUN}" in out
