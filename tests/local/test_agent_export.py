"""Export over real HTTP: every object proved, the manifest last, resumable, and never a lie about what S3 holds."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local.agent_cluster import Sink
from tests.unit.agent_support import RUN, config
from tests.unit.test_agent_checkpoints import commit

from trainyard_agent import export, s3
from trainyard_agent.attempts import Attempts
from trainyard_agent.checkpoints import Checkpoints
from trainyard_agent.errors import CommandRefused
from trainyard_agent.export import Exports
from trainyard_agent.reporting import Reporter
from trainyard_agent.s3 import S3, Location
from trainyard_agent.signed_http import Refused
from trainyard_agent.slurm import Slurm
from trainyard_agent.store import Store

PREFIX = f"data/runs/{RUN}/export"


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    found = Sink()
    monkeypatch.setenv("AWS_ENDPOINT_URL", found.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr(export, "TRIES", 3)
    yield found
    found.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run that has two whole checkpoints, a torn one that is newer, a final model and a log."""
    found = tmp_path / "shared/trainyard/runs" / RUN
    for step in (10, 20):
        commit(found, step, body=b"weights %d" % step)
    (commit(found, 30) / "rank-0/model.pt").write_bytes(b"torn")
    commit(found, 25).rename(found / "final")
    (found / "attempts/1").mkdir(parents=True)
    (found / "attempts/1/job.log").write_text("the log\n")
    return found


def run_export(directory: Path, selection: str = "all", *, start: bool = True) -> dict[str, Any]:
    """A daemon's life as far as export goes: take up what is unfinished, perhaps start one, until nothing runs. Returns the event."""

    async def go() -> dict[str, Any]:
        settings = config(directory)
        store = Store(directory / "outbox.sqlite")
        reporter = Reporter(settings, store)
        attempts = Attempts(settings, Slurm(settings), reporter)
        checkpoints = Checkpoints(settings, attempts, reporter)
        exports = Exports(settings, attempts, checkpoints, reporter, S3("us-east-1"))
        exports.resume()
        if start:
            exports.start(RUN, "e-1", f"s3://{PREFIX}", selection)
            assert exports.start(RUN, "e-1", f"s3://{PREFIX}", selection)["state"] in ("running", "finished")
        while exports._running:
            await asyncio.wait(list(exports._running.values()))
            await asyncio.sleep(0)
        body = store.connection.execute("SELECT body FROM outbox WHERE kind = 'ExportFinished' ORDER BY seq DESC").fetchone()
        checkpoints.close()
        store.close()
        return dict(json.loads(body[0]))

    return asyncio.run(go())


def test_everything_whole_is_exported_and_proved(tmp_path: Path, sink: Sink, root: Path) -> None:
    finished = run_export(tmp_path)
    assert finished["ok"], finished["reason"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    keys = {item["key"] for item in manifest["objects"]}
    assert keys == {
        "checkpoints/step-000000000010-attempt-1/rank-0/model.pt", "checkpoints/step-000000000010-attempt-1/manifest.json",
        "checkpoints/step-000000000020-attempt-1/rank-0/model.pt", "checkpoints/step-000000000020-attempt-1/manifest.json",
        "final/rank-0/model.pt", "final/manifest.json", "logs/attempt-1.log",
    }  # fmt: skip
    for item in manifest["objects"]:
        body, checksum = sink.objects[f"{PREFIX}/{item['key']}"]
        assert (len(body), hashlib.sha256(body).hexdigest()) == (item["bytes"], item["sha256"])
        assert checksum == b64encode(hashlib.sha256(body).digest()).decode()
    assert (manifest["lastStep"], manifest["finalModel"]) == (20, True)
    assert (finished["objects"], finished["manifestKey"]) == (7, f"runs/{RUN}/export/export-manifest.json")
    assert list(sink.objects)[-1].endswith("export-manifest.json"), "the manifest is written last"


@pytest.mark.parametrize(("selection", "steps"), [("last", {"20"}), ("none", set())])
def test_only_what_was_asked_for_is_exported(tmp_path: Path, sink: Sink, root: Path, selection: str, steps: set[str]) -> None:
    assert run_export(tmp_path, selection)["ok"]
    assert {key.split("step-")[1][10:12] for key in sink.objects if "step-" in key} == steps
    assert any("final/" in key for key in sink.objects)


def test_an_interrupted_export_goes_on_and_sends_nothing_twice(tmp_path: Path, sink: Sink, root: Path) -> None:
    sent: list[str] = []

    class Dead(BaseException):
        """The daemon is gone."""

    def die_after_three(path: str) -> None:
        sent.append(path)
        if len(sent) == 4:
            sink.reachable = False

    sink.before_put = die_after_three
    assert not run_export(tmp_path)["ok"]
    already = set(sink.objects)
    sink.reachable, sink.before_put = True, sent.append
    sent.clear()
    store = Store(tmp_path / "outbox.sqlite")
    store.connection.execute("UPDATE exports SET state = 'running'")
    store.close()
    assert run_export(tmp_path, start=False)["ok"]
    again = {path.lstrip("/") for path in sent} & already
    assert all("logs/" in key for key in again), "what S3 holds already is not uploaded again"


def test_an_object_that_s3_holds_wrongly_fails_the_export(tmp_path: Path, sink: Sink, root: Path) -> None:
    sink.corrupt_puts = True
    finished = run_export(tmp_path)
    assert not finished["ok"]
    assert "S3 holds" in finished["reason"]
    assert not any(key.endswith("export-manifest.json") for key in sink.objects)
    sink.corrupt_puts = False
    assert run_export(tmp_path)["ok"], "the same export id again repairs it"


def test_a_final_model_that_does_not_verify_fails_the_export(tmp_path: Path, sink: Sink, root: Path) -> None:
    (root / "final/rank-0/model.pt").write_bytes(b"rotten!")
    finished = run_export(tmp_path)
    assert (finished["ok"], finished["reason"]) == (
        False,
        "the final model does not verify: rank-0/model.pt does not have the hash that the manifest says",
    )


def test_a_bad_destination_is_refused(tmp_path: Path, sink: Sink, root: Path) -> None:
    with pytest.raises(ValueError, match="s3://bucket/key"):
        s3.parse_uri("https://elsewhere/x")
    with pytest.raises(CommandRefused):
        Exports.start(None, RUN, "e;1", f"s3://{PREFIX}", "all")  # type: ignore[arg-type]


def test_s3_refuses_a_file_that_changed_after_it_was_hashed(tmp_path: Path, sink: Sink) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    known = s3.digest(path)
    path.write_bytes(b"after!")
    with pytest.raises(Refused, match="BadDigest"):
        S3("us-east-1").put_file(Location("data", "k"), path, known)


def test_the_agent_speaks_s3_and_eventbridge_as_moto_understands_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    from trainyard_agent.outbox import Sender

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setattr(s3, "SINGLE_PUT_BYTES", 6 * 1024 * 1024)
        monkeypatch.setattr(s3, "PART_BYTES", 5 * 1024 * 1024)
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="data")
        boto3.client("events", region_name="us-east-1").create_event_bus(Name="bus")
        client, small, large = S3("us-east-1"), tmp_path / "small", tmp_path / "large"
        small.write_bytes(b"x" * 1000)
        large.write_bytes(b"y" * 12 * 1024 * 1024)
        for path in (small, large):
            known = s3.digest(path)
            at = Location("data", f"a b/{path.name}")
            client.put_file(at, path, known)
            assert client.head(at) is not None
            assert client.head(at)[0] == known.size  # type: ignore[index]
            assert hashlib.sha256(client.get(at) or b"").hexdigest() == known.sha256
        assert client.head(Location("data", "a b/small")) == (1000, s3.digest(small).checksum)
        assert s3.digest(large).checksum.endswith("-3")
        assert client.get(Location("data", "nothing")) is None
        entry = {"Source": "trainyard.agent", "DetailType": "T", "Detail": "{}", "EventBusName": "bus"}
        assert "EventId" in Sender(tmp_path / "o", "bus", "us-east-1")._put_events([entry])[0]
    finally:
        server.stop()
