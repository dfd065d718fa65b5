"""How an attempt in containers ended, from what its hosts' launchers wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainyard_container import ending
from trainyard_container.ending import HostEnd, Launch
from trainyard_contracts.events import parse_agent_event

HOSTS = ("algo-1", "algo-2")


def report(host: str, **said: Any) -> dict[str, Any]:
    return {"node": host, "started": 1.0, "ended": 2.0, "exitCode": 0, "kind": None, **said}


def end(host: str, code: int | None = 0, tail: str = "", **said: Any) -> HostEnd:
    return HostEnd(host, code, report(host, exitCode=code, **said), tail)


def test_all_hosts_ended_well() -> None:
    found = ending.judge(HOSTS, [end("algo-1"), end("algo-2")], [])
    assert (found.outcome, found.exit_code) == ("succeeded", 0)


def test_the_cause_is_told_and_not_its_consequence() -> None:
    cause = {"kind": "python-error", "error": "ValueError: banana", "exception": "ValueError"}
    others = {"kind": "peer", "error": "RuntimeError: Connection closed by peer"}
    ends = [end("algo-1", 1, **others), end("algo-2", 1, "the tail", **cause)]
    found = ending.judge(HOSTS, ends, [])
    assert (found.outcome, found.error, found.failed_node) == (
        "failed", "ValueError: banana", "algo-2",
    )  # fmt: skip
    assert ending.tail_of(ends, found.failed_node) == "the tail"
    assert ending.sentence(found) == "The program failed on algo-2: ValueError: banana"


def test_a_host_that_is_gone_is_no_error_of_the_program() -> None:
    peer = {"kind": "peer", "error": "RuntimeError: Connection closed by peer"}
    found = ending.judge(HOSTS, [end("algo-1", 1, **peer)], ["algo-2"])
    assert (found.outcome, found.error_kind, found.failed_node) == ("failed", "node", "algo-2")


def test_a_launcher_that_was_killed_is_told_by_its_signal() -> None:
    unended = HostEnd("algo-2", -9, {"node": "algo-2", "started": 1.0})
    found = ending.judge(HOSTS, [end("algo-1", 143, kind="stopped"), unended], [])
    assert (found.outcome, found.signal, found.failed_node) == ("failed", 9, "algo-2")


@pytest.mark.parametrize("ends", [[end("algo-1")], []])
def test_a_host_without_an_end_is_no_success(ends: list[HostEnd]) -> None:
    assert ending.judge(HOSTS, ends, ["algo-2"]).outcome == "failed"


def test_what_is_told_is_an_event_that_the_control_plane_reads() -> None:
    cause = {"kind": "python-error", "error": "ValueError: banana", "traceback": "  File t.py"}
    found = ending.judge(HOSTS, [end("algo-1", 1, **cause)], [])
    about = {"id": "0" * 26, "at": "2026-11-24T10:00:00Z", "clusterName": "c", "clusterArn": "a"}
    attempt = {"runId": "run-1", "attempt": 1, "jobId": "job"}
    detail = {**about, **attempt, **ending.fields(found, "the log")}
    told = parse_agent_event("AttemptEnded", json.loads(json.dumps(detail)))
    assert told.model_dump()["traceback"] == "  File t.py"


def test_what_a_program_wrote_into_a_report_is_taken_by_its_types() -> None:
    odd = {"started": True, "exitCode": "x", "error": 7, "traceback": "a\ud800" + "t" * 9000}
    launch = Launch.of("algo-1", odd)
    assert (launch.started, launch.exit_code, launch.error) == (None, None, None)
    assert len(launch.traceback or "") == ending.TRACEBACK_CHARACTERS


def test_the_tail_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    assert ending.read_tail(log) == ""
    log.write_text("first line\nsecond line\nthird\n")
    assert ending.read_tail(log, 20) == "second line\nthird\n"
    assert ending.read_tail(log, 100) == "first line\nsecond line\nthird\n"


def test_a_report_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert ending.read_report(tmp_path, "algo-1") == {}
    (tmp_path / "launch-algo-1.json").write_text("[1]")
    assert ending.read_report(tmp_path, "algo-1") == {}


def test_an_end_comes_through_json_as_it_was() -> None:
    one = end("algo-2", 3, "tail", kind="exit")
    assert HostEnd.of("algo-2", json.loads(json.dumps(one.as_json()))) == one
