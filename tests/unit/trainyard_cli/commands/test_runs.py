"""The commands of runs."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime
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
            "hourlyUsd": 1.5, "expectedUsd": 3.0, "mostUsd": 15.0,
            "environment": [
                {"name": "LR", "value": "[b]1", "source": "job", "note": ""},
                {"name": "TOKEN", "value": None, "source": "secret", "note": "the secret 'a'"},
                {"name": "TRAINYARD_ATTEMPT", "value": "1", "source": "launcher", "note": "so"},
            ],
            "warnings": ["no spare"]}  # fmt: skip
    api.answers["POST /v1/runs"] = (200, plan)
    code, out, _ = trainyard("run", "submit", spec, "--dryrun")
    assert code == 0
    for part in (
        "CreateCluster",
        "1.50 USD an hour, 3.00 USD the run, 15.00 USD at most",
        "#!/bin/bash [x]",
        "no spare",
        "1 file, 2.0 KiB",
    ):
        assert part in out
    rows = [line.split() for line in out.splitlines()]
    assert ["LR", "[b]1", "job"] in rows
    assert ["TOKEN", "the", "secret", "'a'", "secret"] in rows
    assert ["TRAINYARD_ATTEMPT", "1", "(so)", "launcher"] in rows
    assert [request["query"] for request in api.requests] == [{"dryrun": "true"}]


def test_a_dry_run_compares_ways_by_prices_zones_and_what_their_backends_cannot_do(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    first = {"way": "ml.p5.48xlarge", "backend": "hyperpod", "hourlyUsd": 2.0, "expectedUsd": 6.0,
             "mostUsd": 48.0, "zones": ["us-east-1a", "us-east-1b"], "cannot": [],
             "files": {"a.tar": 1024, "b.json": 1024}}  # fmt: skip
    prices = dict.fromkeys(("hourlyUsd", "expectedUsd", "mostUsd"))
    other = {"way": "training-job: ml.p5.48xlarge", "backend": "training-job", **prices,
             "zones": [], "cannot": ["No spares."]}  # fmt: skip
    plan = {"operation": "CreateCluster", "backend": "hyperpod", "ways": [first, other, other]}
    api.answers["POST /v1/runs"] = (200, plan)
    _, out, _ = trainyard("run", "submit", spec, "--dryrun")
    said = " ".join(out.split())
    assert (
        "way 1: ml.p5.48xlarge (2.00 USD an hour, 6.00 USD the run, 48.00 USD at most, "
        "in us-east-1a or us-east-1b, 2 files of 2.0 KiB) "
        "way 2: training-job: ml.p5.48xlarge (price not known)"
    ) in said
    assert said.count("limits of training-job: No spares.") == 1
    assert "hyperpod cannot" not in said


def test_a_dry_run_where_nodes_are_free_says_what_the_list_says(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    listed = {"hourlyUsd": 12.24, "expectedUsd": 24.48, "mostUsd": None, "asOf": "2026-09-15",
              "words": "12.24 USD an hour: list price of 2026-09-15."}  # fmt: skip
    plan = {"operation": "CreateCluster", "hourlyUsd": 0.0, "listPrice": listed}
    api.answers["POST /v1/runs"] = (200, plan)
    told = " ".join(trainyard("run", "submit", spec, "--dryrun")[1].split())
    assert "price 0.00 USD an hour" in told
    assert "on AWS 12.24 USD an hour: list price of 2026-09-15." in told
    assert "24.48 USD the run" in told
    listed |= {"hourlyUsd": None, "expectedUsd": None, "words": "not known: none is shipped."}
    told = " ".join(trainyard("run", "submit", spec, "--dryrun")[1].split())
    assert "on AWS not known: none is shipped." in told
    assert "24.48" not in told


def test_a_dry_run_on_a_cluster_that_is_there_says_so_and_explains_the_scripts_words(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    script = "export PYTHONPATH=@LIBRARY@\nexec srun @PYTHON@ @ATTEMPT_DIR@"
    api.answers["POST /v1/runs"] = (200, {"request": {}, "batchScript": script, "hourlyUsd": 0.0})
    code, out, _ = trainyard("run", "submit", spec, "--dryrun")
    told = " ".join(out.split())
    assert code == 0
    assert "The cluster is there: only the job would be submitted." in told
    assert "{}" not in told
    assert "0.00 USD an hour" in told
    assert "@LIBRARY@ /opt/trainyard/lib, where every node has Trainyard's packages" in told


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


@pytest.mark.parametrize(("answer", "code", "sent"), [("n\n", 1, 0), ("y\n", 0, 1)])
def test_a_person_is_asked_before_a_run_is_cancelled(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    sent: int,
) -> None:
    api.answers[f"POST /v1/runs/{RUN}:cancel"] = (202, a_run("Cancelling"))
    monkeypatch.setattr("trainyard_cli.screen.output.may_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    got, _, err = trainyard("run", "cancel", RUN)
    assert (got, f"Cancel {RUN}?" in err) == (code, True)
    assert len(api.calls(f"POST /v1/runs/{RUN}:cancel")) == sent
    assert trainyard("run", "cancel", RUN, "--yes")[0] == 0


def test_without_a_terminal_nobody_is_asked(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"POST /v1/runs/{RUN}:cancel"] = (202, a_run("Cancelling"))
    code, _, err = trainyard("run", "cancel", RUN)
    assert (code, "?" in err) == (0, False)


def test_a_log_is_searched_and_nothing_found_is_said(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    said = {"kind": "job", "attempt": 1, "source": "s3", "text": ""}
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (200, said)
    code, _, err = trainyard("run", "logs", RUN, "--grep", "[nan]", "--attempt", "1")
    assert (code, "No line of the job log has '[nan]' in it." in err) == (0, True)
    query = api.requests[-1]["query"]
    assert (query["contains"], query["attempt"]) == ("[nan]", "1")
    code, _, err = trainyard("run", "logs", RUN, "--since", "600")
    assert (code, "Nothing was printed in 600 seconds" in err) == (0, True)
    assert api.requests[-1]["query"]["sinceSeconds"] == "600"


def test_one_ranks_log_is_asked_for_and_one_node_goes_not_with_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    said = {"kind": "job", "attempt": 1, "source": "s3", "text": "of rank 0"}
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (200, said)
    code, out, _ = trainyard("run", "logs", RUN, "--rank", "0")
    assert (code, out) == (0, "of rank 0\n")
    assert api.requests[-1]["query"]["rank"] == "0"
    assert "node" not in api.requests[-1]["query"]
    trainyard("run", "logs", RUN, "--node", "ip-1")
    assert api.requests[-1]["query"]["node"] == "ip-1"
    code, _, err = trainyard("run", "logs", RUN, "--node", "ip-1", "--rank", "0")
    assert (code, "goes not with --rank" in err) == (2, True)
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (200, {**said, "text": ""})
    assert "Nothing is in the log of rank 3" in trainyard("run", "logs", RUN, "--rank", "3")[2]
    assert "in the logs of node ip-1" in trainyard("run", "logs", RUN, "--node", "ip-1")[2]


def test_metrics_are_shown_as_a_curve_with_the_last_step_and_speed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    samples = [
        {"attempt": 1, "step": 10 * n, "loss": 9.0 - n, "at": f"2026-11-20T20:0{n}:00Z"}
        for n in range(5)
    ]
    path = f"GET /v1/runs/{RUN}/metrics"
    api.answers[path] = (200, {"nodes": {}, "run": samples})
    code, out, _ = trainyard("run", "metrics", RUN, "--since", "600")
    assert code == 0
    assert "Loss, steps 0 to 40" in out
    assert "0.167 steps a second" in out
    assert "█" in out
    assert api.requests[-1]["query"] == {"sinceSeconds": "600"}
    api.answers[path] = (200, {"nodes": {}, "run": []})
    assert "No step was reported" in trainyard("run", "metrics", RUN)[1]


def reported(name: str = "accuracy", *values: float, **more: Any) -> tuple[int, dict[str, Any]]:
    points = [
        {"attempt": 1 + n // 3, "step": 10 * n, "value": value, "at": f"2026-11-20T20:0{n}:00Z"}
        for n, value in enumerate(values)
    ]
    named = {"last": 0.5, "lowest": 0.25, "highest": 0.75, "reports": 40, "notFinite": 2}
    names = [{**named, "name": "loss"}, {**named, "name": "accuracy"}]
    return 200, {"nodes": {}, "run": [], "name": name, "points": points, "names": names} | more


def test_another_number_is_shown_as_a_curve_long_after_the_run(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    path = f"GET /v1/runs/{RUN}/metrics"
    api.answers[path] = reported("accuracy", 0.25, 0.5, 0.625, 0.75)
    code, out, _ = trainyard("run", "metrics", RUN, "--name", "accuracy")
    assert code == 0
    assert api.requests[-1]["query"] == {"sinceSeconds": "86400", "name": "accuracy"}
    assert "accuracy, steps 0 to 30" in out
    assert ("0.25, 0.75" in out, "█" in out, "other names" in out) == (True, True, True)
    code, out, _ = trainyard("run", "metrics", RUN, "--name", "accuracy", "--since", "90s")
    assert "accuracy, steps 20 to 30" in out
    trainyard("run", "metrics", RUN, "--since", "90d")
    assert api.requests[-1]["query"] == {"sinceSeconds": "604800"}


def test_a_name_that_is_not_there_is_answered_with_those_that_are(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}/metrics"] = reported("acuracy")
    code, out, _ = trainyard("run", "metrics", RUN, "--name", "acuracy")
    assert (code, "No acuracy was reported; there is: loss, accuracy." in out) == (0, True)


def test_names_are_listed_whatever_characters_a_program_gave_them(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    path = f"GET /v1/runs/{RUN}/metrics"
    api.answers[path] = reported(namesLeftOut=3)
    code, out, err = trainyard("run", "metrics", RUN, "--names")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["loss", "0.5", "0.25", "0.75", "40", "2"],
        ["accuracy", "0.5", "0.25", "0.75", "40", "2"],
    ]
    assert "3 more names not kept" in err
    odd = [{"name": "a[red]b\n\x1b[2J\x07", "reports": 1}]
    api.answers[path] = reported("a[red]b\n\x1b[2J\x07", 0.5, 0.6, names=odd)
    for arguments in (("--names",), ()):
        out = trainyard("run", "metrics", RUN, *arguments)[1]
        assert "a[red]b\\n" in out
        assert not {"\x1b", "\x07"} & set(out)
    api.answers[path] = (200, {"nodes": {}, "run": []})
    assert "reported no numbers" in trainyard("run", "metrics", RUN, "--names")[2]


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


def test_a_run_is_resumed_on_another_filesystem(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    key, other = f"POST /v1/runs/{RUN}:resume", "fs-0bbbbbbbbbbbbbbbb.fsx.us-east-1.x/abcdefgh"
    api.answers[key] = (202, a_run("Pending"))
    assert trainyard("run", "resume", RUN)[0] == 0
    assert trainyard("run", "resume", RUN, "--filesystem", other)[0] == 0
    assert [call["query"] for call in api.calls(key)] == [{}, {"filesystem": other}]
