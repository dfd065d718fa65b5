"""The real pre-compilation step around a stand-in that prints as neuron_parallel_compile does."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainyard_trainers.common import precompile
from trainyard_trainers.common.precompile import (
    NotCompiled,
    Record,
    compile_only,
    main,
    parse,
    require_compiled,
)

HEAD = "2025-01-17 01:16:38.000177:  37654  INFO ||NEURON_PARALLEL_COMPILE||: "


def document(good: int, bad: int) -> str:
    """The JSON part of a summary, in AWS's words."""
    summary = {word: number for word, number in (("true", good), ("false", bad)) if number}
    report = {
        f"/cache/neuronxcc-2.16.372.0/MODULE_{n}+3cc9a3cb/model.hlo_module.pb": {
            "status": n < good,
            "retry": 0,
        }
        for n in range(good + bad)
    }
    content = {
        "compilation_summary": summary,
        "compilation_report": report,
        "start_time": 1737076372.6,
        "compilation_time": 195.3,
    }
    return f"{HEAD}{json.dumps(content, indent=4)}\n"


def totals(good: int, bad: int) -> str:
    """The lines after it."""
    counts = {"graphs": good + bad, "successful compilations": good, "failed compilations": bad}
    return "".join(f"{HEAD}Total {name}: {number}\n" for name, number in counts.items())


@pytest.fixture
def put_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Make a neuron_parallel_compile: it runs its command for graphs, prints a text and ends."""

    def put(text: str, *, code: int = 0, signal: str = "") -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "text").write_text(text)
        ending = f"kill -{signal} $$" if signal else f"exit {code}"
        program = folder / precompile.PROGRAM
        program.write_text(
            f'#!/bin/sh\nNEURON_EXTRACT_GRAPHS_ONLY=1 "$@"\ncat {folder}/text\n{ending}\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return put


@pytest.mark.real
def test_a_compilation_that_succeeds_is_recorded_and_training_may_start(
    put_on_path: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", "/fsx/cache")
    put_on_path("noise\n" + document(2, 0) + totals(2, 0))
    record = tmp_path / "precompile.json"
    assert (
        main(
            [
                "--output",
                str(record),
                "--",
                "sh",
                "-c",
                "echo mode $NEURON_EXTRACT_GRAPHS_ONLY $0 $1",
                "a b",
                "--output",
            ]
        )
        == 0
    )
    assert json.loads(record.read_text()) == {
        "command": ["sh", "-c", "echo mode $NEURON_EXTRACT_GRAPHS_ONLY $0 $1", "a b", "--output"],
        "exitCode": 0,
        "graphs": 2,
        "succeeded": 2,
        "failed": 0,
        "failedModules": [],
        "reason": "",
        "cache": "/fsx/cache",
    }
    require_compiled(record)
    assert "mode 1 a b --output\nnoise\n" in capsys.readouterr().out


@pytest.mark.real
@pytest.mark.parametrize(
    ("text", "code", "failed", "reason"),
    [
        (document(1, 1) + totals(1, 1), 0, 1, "1 of 2 graphs failed to compile"),
        (totals(3, 2), 1, 2, "2 of 5 graphs failed to compile"),
        (document(0, 3), 1, 3, "3 of 3 graphs failed to compile"),
        (
            document(2, 0) + totals(2, 0),
            3,
            "unknown",
            "ended with exit code 3 although no compilation failed",
        ),
        (
            "Traceback (most recent call last):\nImportError: no module\n",
            1,
            "unknown",
            "ended with exit code 1 and printed no summary",
        ),
        ("", 0, "unknown", "ended with exit code 0 and printed no summary"),
        ('{"compilation_summary": {"true": 2', 0, "unknown", "printed no summary"),
        (totals(0, 0), 0, "unknown", "found no graph in the command"),
    ],
)
def test_a_compilation_that_failed_keeps_training_from_starting(
    put_on_path: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    code: int,
    failed: object,
    reason: str,
) -> None:
    put_on_path(text, code=code)
    record = tmp_path / "precompile.json"
    assert main(["--output", str(record), "--", "true"]) == 1
    assert json.loads(record.read_text())["failed"] == failed
    with pytest.raises(NotCompiled, match=reason):
        require_compiled(record)
    assert "trainyard: not compiled: " in capsys.readouterr().err


def test_failed_modules_are_named(tmp_path: Path) -> None:
    record = precompile.judge(["x"], 1, document(1, 1))
    precompile.write_record(tmp_path / "r.json", record)
    with pytest.raises(
        NotCompiled,
        match=r"\(/cache/neuronxcc-2\.16\.372\.0/MODULE_1\+3cc9a3cb/model\.hlo_module\.pb\); "
        r"see .*r\.json",
    ):
        require_compiled(tmp_path / "r.json")


@pytest.mark.real
def test_a_compiler_that_is_killed_is_a_failure(
    put_on_path: Callable[..., None], tmp_path: Path
) -> None:
    put_on_path("", signal="KILL")
    record = tmp_path / "precompile.json"
    assert main(["--output", str(record), "--", "true"]) == 1
    found = json.loads(record.read_text())
    assert (found["exitCode"], found["failed"]) == (-signal.SIGKILL, "unknown")
    assert "signal 9" in found["reason"]


def test_summaries_of_several_phases_are_added_up() -> None:
    output = document(2, 0) + totals(2, 0) + "x\n" + document(7, 1) + totals(7, 1)
    found = parse(output)
    assert found is not None
    assert (found.graphs, found.succeeded, found.failed, len(found.failed_modules)) == (10, 9, 1, 1)


def test_a_failure_in_either_form_counts() -> None:
    """Totals that were interleaved with other ranks' output may be lost, and so may the report."""
    for output in (document(1, 1) + totals(2, 0), document(2, 0) + totals(1, 1)):
        found = parse(output)
        assert found is not None
        assert found.failed == 1
    assert parse("no such words") is None
    assert parse('{"compilation_summary": 5}') is None


def test_an_older_record_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "precompile.json"
    precompile.write_record(record, Record(("x",), 0, 1, 1, 0))
    require_compiled(record)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--output", str(record), "--", "true"]) == 1
    message = capsys.readouterr().err
    assert "neuron_parallel_compile is not on PATH" in message
    assert "https://pip.repos.neuron.amazonaws.com" in message
    with pytest.raises(
        NotCompiled, match=r"precompile\.json is missing: the compilation did not end"
    ):
        require_compiled(record)


def test_a_record_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"failed": 0}'):
        (tmp_path / "record").write_text(text)
        with pytest.raises(NotCompiled, match="is not the record of a compilation"):
            require_compiled(tmp_path / "record")


def test_the_command_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--"], ["--output", "x", "--"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "give -- and the command that trains" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "only"), [("1", True), ("true", True), ("0", False), ("", False), (None, False)]
)
def test_the_mode_is_known_by_its_variable(value: str | None, only: bool) -> None:
    assert compile_only({} if value is None else {"NEURON_EXTRACT_GRAPHS_ONLY": value}) is only


@pytest.mark.real
def test_a_trainer_in_that_mode_saves_and_reports_nothing(
    put_on_path: Callable[..., None], tmp_path: Path
) -> None:
    put_on_path(totals(1, 0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    run = tmp_path / "run"
    run.mkdir()
    job = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TRAINYARD_RUN_DIR": str(run),
    }
    command = [
        sys.executable,
        "-m",
        "trainyard_trainers.precompile",
        "--output",
        str(tmp_path / "record.json"),
        "--",
    ]
    trainer = [sys.executable, "-m", "trainyard_trainers.ddp", "--steps", "1000000"]
    done = subprocess.run(
        [*command, *trainer],
        env={**os.environ, **job},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(run.iterdir()) == []
    assert "training" not in done.stdout
    require_compiled(tmp_path / "record.json")
