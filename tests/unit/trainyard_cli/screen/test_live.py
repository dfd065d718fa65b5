"""A run that is watched."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.fake_api import (
    CLUSTER,
    NODE,
    RUN,
    FakeApi,
    a_run,
    an_event,
    serve_a_whole_run,
)
from tests.support.waiting import eventually

from trainyard_cli.problems import Unreachable
from trainyard_cli.screen import live
from trainyard_cli.screen.snapshot import Snapshot
from trainyard_sdk.client import Client
from trainyard_sdk.following import Which, overlap

pytestmark = pytest.mark.real


@pytest.mark.parametrize(("status", "code"), [("Succeeded", 0), ("Failed", 1), ("Cancelled", 1)])
def test_watching_tells_each_line_once_and_ends_as_the_run_does(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str, status: str, code: int
) -> None:
    serve_a_whole_run(api, status)
    api.answers["POST /v1/runs"] = (202, a_run("Pending"))
    got, out, _ = trainyard("run", "submit", spec, "--watch")
    assert got == code
    assert [out.count(f"message {number}") for number in range(3)] == [1, 1, 1]
    assert "attempt 1, step 41, loss 0.25, 1 checkpoint, newest at step 40" in out
    assert "agent linked, Slurm idle, CPU 55%, memory 1.0 GiB of 4.0 GiB" in out
    assert f"run {RUN} {status}: because" in out


def test_on_a_terminal_the_picture_has_run_nodes_and_timeline(api: FakeApi) -> None:
    serve_a_whole_run(api)
    seen: list[str] = []
    console = Console(file=io.StringIO(), force_terminal=True, width=140, height=50, _environ={})
    run = live.follow(
        Client.connect(),
        RUN,
        console,
        on_update=lambda snapshot: seen.append(snapshot.run["status"]),
    )
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (run["status"], seen) == ("Succeeded", ["Provisioning", "Running", "Succeeded"])
    for part in ("Timeline", "message 2", "ip-127-0-0-2", "step 41", "mine [bold]", "55%"):
        assert part in text


def test_a_checkpoint_shows_progress_between_two_samples() -> None:
    checkpoints = [
        {"step": 95, "attempt": 1, "status": "whole"},
        {"step": 500, "attempt": 0, "status": "whole"},
    ]
    line = live.training_line(Snapshot(a_run(), checkpoints=checkpoints))
    assert line == "attempt 1, step 95, loss 0.25 at step 41, 2 checkpoints, newest at step 95"


def test_watching_outlives_an_api_that_is_away_for_a_moment(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_a_whole_run(api)
    client = Client.connect()
    real, failures = client.run, iter([True, True])

    def sometimes(run_id: str) -> dict[str, Any]:
        if next(failures, False):
            raise Unreachable("The API cannot be reached", "connection refused")
        return real(run_id)

    monkeypatch.setattr(client, "run", sometimes)
    console = Console(file=io.StringIO(), width=200)
    assert live.follow(client, RUN, console)["status"] == "Succeeded"
    assert console.file.getvalue().count("trying again") == 1  # type: ignore[attr-defined]


def test_ctrl_c_detaches_says_how_to_come_back_and_cancels_nothing(
    api: FakeApi, tmp_path: Path
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"GET /v1/runs/{RUN}/events": (200, {"events": [an_event(1, "message 1")]}),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
        "GET /v1/clusters/mine-abc": (200, CLUSTER),
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [NODE]}),
    }
    command = [sys.executable, "-m", "trainyard_cli.main", "run", "watch", RUN]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TRAINYARD_STATE_DIR": str(tmp_path)},
    )
    eventually("it asks again", lambda: len(api.calls(f"GET /v1/runs/{RUN}")) >= 2, 30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert f"Detached; run {RUN} goes on. Come back with: trainyard run watch {RUN}" in err
    assert {request["method"] for request in api.requests} == {"GET"}


def test_the_log_is_followed_without_saying_a_line_twice(api: FakeApi) -> None:
    logs = [
        {"kind": "job", "attempt": n, "source": "node", "text": text}
        for n, text in ((1, "a\nb"), (1, "a\nb\nc"), (2, "a"))
    ]
    api.answers |= {
        f"GET /v1/runs/{RUN}": [(200, a_run()), (200, a_run()), (200, a_run("Succeeded"))],
        f"GET /v1/runs/{RUN}/logs": [(200, log) for log in logs],
    }
    lines: list[str] = []
    live.follow_log(Client.connect(), RUN, lines.append, Which())
    assert lines == ["a", "b", "c", "a"]
    lines.clear()
    api.answers |= {
        f"GET /v1/runs/{RUN}": [(200, a_run()), (200, a_run("Succeeded"))],
        f"GET /v1/runs/{RUN}/logs": [(200, log) for log in logs[:2]],
    }
    live.follow_log(Client.connect(), RUN, lines.append, Which(9, contains="c"))
    assert lines == ["c"]


def test_what_is_followed_since_a_time_is_asked_for_from_the_same_time_on(api: FakeApi) -> None:
    logs = [{"kind": "job", "attempt": 1, "source": "node", "text": text} for text in ("b", "b\nc")]
    api.answers |= {
        f"GET /v1/runs/{RUN}": [(200, a_run()), (200, a_run("Succeeded"))],
        f"GET /v1/runs/{RUN}/logs": [(200, log) for log in logs],
    }
    lines: list[str] = []
    client = Client.connect()
    live.follow_log(client, RUN, lines.append, Which(9, since_seconds=60))
    assert lines == ["b", "c"]
    asked = [int(call["query"]["sinceSeconds"]) for call in api.calls(f"GET /v1/runs/{RUN}/logs")]
    assert asked[0] == 60
    assert asked[1] >= 60


def test_a_nodes_ranks_are_followed_with_a_heading_where_another_one_goes_on(
    api: FakeApi,
) -> None:
    zero, one = "==> rank 0 on ip-1 <==", "==> rank 1 on ip-1 <=="
    texts = [
        f"{zero}\na",
        f"{zero}\na\n\n{one}\nx",
        f"{zero}\na\n\n{one}\nx\ny",
        f"{zero}\na\nb\n\n{one}\nx\ny",
    ]
    logs = [{"kind": "job", "attempt": 1, "source": "node", "text": text} for text in texts]
    api.answers |= {
        f"GET /v1/runs/{RUN}": [*[(200, a_run())] * 3, (200, a_run("Succeeded"))],
        f"GET /v1/runs/{RUN}/logs": [(200, log) for log in logs],
    }
    lines: list[str] = []
    client = Client.connect()
    live.follow_log(client, RUN, lines.append, Which(9, node="ip-1"))
    assert lines == [zero, "a", one, "x", "y", zero, "b"]


@pytest.mark.parametrize(
    ("before", "now", "known"),
    [
        ("", "ab", 0),
        ("ab", "abc", 2),
        ("abc", "bcd", 2),
        ("cd", "abcde", 4),
        ("aa", "aaa", 2),
        ("ab", "cd", 0),
    ],
)
def test_what_was_written_before_is_found_wherever_the_tail_begins(
    before: str, now: str, known: int
) -> None:
    assert overlap(before, now) == known


def test_a_timeline_says_each_day_once_with_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        events = [
            {**an_event(number, f"message {number}"), "at": at}
            for number, at in enumerate(
                ("2026-11-27T14:59:59Z", "2026-11-27T15:00:00Z", "2026-11-27T15:00:01Z")
            )
        ]
        console = Console(file=io.StringIO(), width=100)
        live.print_timeline(console, events)
        assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
            "2026-11-27 JST",
            "23:59:59  [attempt 1] message 0",
            "2026-11-28 JST",
            "00:00:00  [attempt 1] message 1",
            "00:00:01  [attempt 1] message 2",
        ]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_plain_log_says_the_status_where_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = Console(file=io.StringIO(), width=100)
    lines = live._Lines(console)
    lines.show(Snapshot(a_run("Provisioning")))
    assert "Provisioning" not in console.file.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(live, "QUIET_SECONDS", 0)
    lines.show(Snapshot(a_run("Provisioning")))
    assert console.file.getvalue().endswith("Provisioning: because\n")  # type: ignore[attr-defined]
