"""What a hostile or broken job may leave in its run's directory: the agent reads it as data, follows no link, and never ends of it."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, commit, config
from tests.support.agent_parts import node_parts

from trainyard_agent import daemon
from trainyard_agent.checkpoints import export
from trainyard_agent.checkpoints.checkpoints import NotWhole, look, remove, scan, verify
from trainyard_agent.commands.server import CommandServer
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host import job_files
from trainyard_agent.jobs import hollow_jobs, traces
from trainyard_agent.jobs.attempts import Attempt, Attempts
from trainyard_agent.jobs.fence import raise_fence
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_agent.jobs.traces import read_launches, read_tail
from trainyard_agent.nodes import link_server
from trainyard_agent.nodes.link_server import LinkServer
from trainyard_agent.nodes.links import Links

SECRET = b"not the job's"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_bytes(SECRET)
    (directory / "job.log").write_bytes(SECRET)
    return directory


def name_in_manifest(directory: Path, path: str, body: bytes) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"] = [
        {"path": path, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    ]
    (directory / "manifest.json").write_text(json.dumps(manifest))


def linked_file(directory: Path, outside: Path) -> None:
    (directory / "linked").symlink_to(outside / "secret")
    name_in_manifest(directory, "linked", SECRET)


def linked_directory(directory: Path, outside: Path) -> None:
    (directory / "linked").symlink_to(outside)
    name_in_manifest(directory, "linked/secret", SECRET)


def pipe(directory: Path, _: Path) -> None:
    os.mkfifo(directory / "pipe")
    name_in_manifest(directory, "pipe", b"")


def linked_whole(directory: Path, outside: Path) -> None:
    directory.rename(outside / "moved")
    directory.symlink_to(outside / "moved")


@pytest.mark.parametrize("trick", [linked_file, linked_directory, pipe, linked_whole])
def test_a_checkpoint_that_is_not_made_of_files_of_its_own_is_not_whole(
    tmp_path: Path, outside: Path, trick: Callable[[Path, Path], None]
) -> None:
    directory = commit(tmp_path / "run", 10)
    verify(directory, RUN)
    trick(directory, outside)
    with pytest.raises(NotWhole):
        verify(directory, RUN)
    (finding,), _ = scan(tmp_path / "run", "checkpoints", RUN, {})
    assert finding.status == "rejected"
    assert export.make_plan(tmp_path / "run", RUN, "checkpoints", "all").items == ()


def test_names_that_are_no_checkpoints_are_left_alone(tmp_path: Path) -> None:
    commit(tmp_path, 10)
    for name in (
        "step-999999999999-attempt-99999999999999999999",
        "step-1-attempt-1",
        "-rf",
        "a\nb",
        "step-٠٠٠٠٠٠٠٠٠٠٠١-attempt-1",
    ):
        (tmp_path / "checkpoints" / name).mkdir()
    (tmp_path / "checkpoints" / "step-000000000020-attempt-1").write_text("a file")
    findings, _ = scan(tmp_path, "checkpoints", RUN, {})
    assert [finding.step for finding in findings] == [10]


def test_a_checkpoint_that_vanishes_while_it_is_verified_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = commit(tmp_path, 10)

    def verify_and_lose(path: Path, run_id: str) -> Any:
        found = verify(path, run_id)
        remove(path)
        return found

    monkeypatch.setattr("trainyard_agent.checkpoints.checkpoints.verify", verify_and_lose)
    assert look(directory, f"checkpoints/{directory.name}", RUN, "") is None


def test_a_checkpoint_that_cannot_be_removed_is_kept_and_the_watch_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = commit(tmp_path, 10)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("trainyard_agent.checkpoints.checkpoints.os.rename", refuse)
    remove(directory)
    verify(directory, RUN)


def test_logs_that_a_job_replaced_are_neither_exported_nor_shown(
    tmp_path: Path, outside: Path
) -> None:
    attempts = tmp_path / "attempts"
    for number in ("1", "2", "4", "x\udcff"):
        (attempts / number).mkdir(parents=True)
    (attempts / "1/job.log").write_text("mine\n")
    (attempts / "2/job.log").symlink_to(outside / "secret")
    (attempts / "3").symlink_to(outside)
    os.mkfifo(attempts / "4/job.log")
    (attempts / "x\udcff/job.log").write_text("?")
    assert export._logs(tmp_path) == [attempts / "1/job.log"]
    assert read_tail(attempts / "1/job.log", 100) == "mine\n"
    assert read_tail(attempts / "2/job.log", 100) == ""
    assert read_tail(attempts / "4/job.log", 100) == ""
    with pytest.raises(OSError, match="Not a directory"):
        job_files.read_tail(tmp_path, attempts / "3/job.log", 100)


def test_the_fence_is_never_written_through_a_link_that_a_job_left(
    tmp_path: Path, outside: Path
) -> None:
    (tmp_path / ".fence.tmp").symlink_to(outside / "secret")
    before = (outside / "secret").read_bytes()
    raise_fence(tmp_path, 3)
    assert (tmp_path / "fence").read_text() == "3\n"
    assert (outside / "secret").read_bytes() == before
    (tmp_path / "fence.lock").unlink()
    (tmp_path / "fence.lock").symlink_to(outside / "new")
    with pytest.raises(OSError, match="symbolic links"):
        raise_fence(tmp_path, 4)
    assert not (outside / "new").exists()


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path) -> None:
    with (tmp_path / "job.log").open("wb") as stream:
        stream.truncate(50 * 1024**3)  # a sparse file: nobody could hold it in memory
        stream.seek(0, 2)
        stream.write(b"\nfirst line\nlast line\n")
    assert job_files.read_tail(tmp_path, tmp_path / "job.log", 10) == b"last line\n"
    assert read_tail(tmp_path / "job.log", 15) == "last line\n"


def test_nonsense_in_launch_reports_is_no_evidence(tmp_path: Path) -> None:
    wild = {
        "node": "a",
        "ended": 1e300,
        "exitCode": "z",
        "signal": 1e9,
        "kind": [],
        "error": "half a pair: \ud800" + "x" * 9999,
    }
    for number, text in enumerate(
        ["[]", "{}", "[" * 100_000, "null", "\0", '{"node": 5}', json.dumps(wild)]
    ):
        (tmp_path / f"launch-{number}.json").write_text(text)
    os.mkfifo(tmp_path / "launch-pipe.json")
    (tmp_path / "launch-large.json").write_bytes(b" " * (job_files.SMALL_BYTES + 1))
    [launch] = read_launches(tmp_path)
    assert (launch.node, launch.exit_code, launch.signal, launch.kind) == ("a", None, None, None)
    assert str(launch.error).encode()[:16] == b"half a pair: ?xx"


def test_a_filesystem_that_fails_over_gives_no_evidence_and_does_not_end_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launch-a.json").write_text('{"node": "a"}')
    hollow_jobs.mark(tmp_path)

    def stale(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ESTALE, "Stale file handle")

    for name in ("scandir", "listdir", "stat", "open"):
        monkeypatch.setattr(os, name, stale)
    assert read_launches(tmp_path) == []
    assert not hollow_jobs.is_marked(tmp_path)
    with pytest.raises(OSError, match="Stale"):
        traces.log_tail(tmp_path / "job.log", 100)
    assert read_tail(tmp_path / "job.log", 100) == ""


NONSENSE = [
    '{"step": 1, "at": 1, "firstStepAt": 1e300}',
    '{"step": 1, "at": 1, "firstStepAt": -1e17}',
    '{"step": 1, "at": 1, "firstStepAt": NaN}',
    '{"step": 1, "at": 1e300}',
    '{"step": ' + "9" * 400 + ', "at": 2, "firstStepAt": 2}',
    '{"step": 2, "at": 2, "resumedFrom": -5, "firstStepAt": 2}',
    "[" * 100_000,
    "\0" * 100,
    " " * (job_files.SMALL_BYTES + 1),
]


def test_nonsense_in_progress_is_ignored_and_the_next_progress_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path / "outbox.sqlite")
    reporter = Reporter(config(tmp_path), store)
    attempts = Attempts(config(tmp_path), reporter)
    progress = ProgressReader(reporter, attempts)
    attempt = Attempt(RUN, 1, "running", tmp_path)
    for text in ['{"step": 1, "at": 1}', *NONSENSE]:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(tmp_path / "progress.json")
        progress.read(attempt)
    assert attempt.progress is not None
    assert (attempt.progress.step, attempt.stepped) == (1, False)
    (tmp_path / "progress.json").unlink()
    os.mkfifo(tmp_path / "progress.json")
    progress.read(attempt)
    (tmp_path / "new").write_text('{"step": 7, "at": 8, "firstStepAt": 7.5, "loss": NaN}')
    (tmp_path / "new").replace(tmp_path / "progress.json")
    progress.read(attempt)
    assert (attempt.progress.step, attempt.stepped) == (7, True)
    [sample] = [sample for sample in attempts.samples() if sample.run_id == RUN]
    assert sample.model_dump_json()
    store.close()


@pytest.mark.parametrize(
    "message",
    [
        {"is": "beat", "sample": {"at": "never", "cpuPercent": "all"}},
        {"is": "beat", "sample": {"at": "2026-01-01T00:00:00Z", "gpus": 7}},
        {"is": "beat", "verdicts": {"disk": 5}},
        {"is": "beat", "verdicts": {"disk": ["error"]}},
        {"is": "done", "id": 1, "killed": "many"},
    ],
)
def test_a_node_that_talks_nonsense_loses_its_link_and_nothing_else_happens(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    class Link:
        """Frames of a node that says one thing."""

        async def receive(self) -> dict[str, Any]:
            return message

        def close(self) -> None:
            return

    async def story() -> None:
        store = Store(tmp_path / "outbox.sqlite")
        parts = node_parts(config(tmp_path), Reporter(config(tmp_path), store))
        links = Links()
        server = LinkServer(config(tmp_path), b"k", links, parts.registry)
        links._orders[1] = asyncio.get_running_loop().create_future()
        parts.registry.linked("ip-1", "i-1", "127.0.0.1")
        with pytest.raises(link_server.NONSENSE):
            server._take("ip-1", await Link().receive())
        assert (
            len(
                parts.table.samples(
                    {
                        "node": "me",
                        "instanceId": "i",
                        "role": "controller",
                        "at": "2026-01-01T00:00:00Z",
                    }
                )
            )
            == 2
        )
        store.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "error",
    [OSError(5, "Input/output error"), FileNotFoundError(2, "gone"), TimeoutError(), ValueError()],
)
def test_a_part_that_broke_ends_the_agent_whatever_broke_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(daemon.os, "_exit", codes.append)
    monkeypatch.setattr(daemon.logging, "shutdown", lambda: None)

    async def part() -> None:
        raise error

    asyncio.run(daemon.keep_running(part()))
    assert codes == [70]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 60_000,
        b"[]",
        b"null",
        b"\xff",
        b'{"words": "nodes"}',
        b'{"words": ["x", 1]}',
        b'{"words": ["explode"]}',
        b"",
    ],
)
def test_a_command_that_is_none_is_refused_and_the_agent_goes_on(
    tmp_path: Path, line: bytes
) -> None:
    server = CommandServer(str(tmp_path), {}, lambda: None)
    assert asyncio.run(server._answer(line))["error"] == "invalid-request"
