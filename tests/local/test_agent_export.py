"""Export over HTTP: each object is proved, the manifest comes last, and a rest is resumed."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.agent import RUN, commit, config
from tests.support.agent_cluster import Sink

from trainyard_agent.checkpoints import export, export_plan, own_files
from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.export import Exports
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host import digests, locations, s3
from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.attempts import Attempts

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
    """A daemon's life: take up unfinished exports, perhaps start one, until all end; the event."""

    async def go() -> dict[str, Any]:
        settings = config(directory)
        store = Store(directory / "outbox.sqlite")
        reporter = Reporter(settings, store)
        attempts = Attempts(settings, reporter)
        checkpoints = Checkpoints(settings, attempts, reporter)
        exports = Exports(settings, attempts, checkpoints, reporter, S3("us-east-1"))
        exports.resume()
        if start:
            exports.start(RUN, "e-1", f"s3://{PREFIX}", selection)
            assert exports.start(RUN, "e-1", f"s3://{PREFIX}", selection).state in (
                "running",
                "finished",
            )
        while exports._running:
            await asyncio.wait(list(exports._running.values()))
            await asyncio.sleep(0)
        body = store.connection.execute(
            "SELECT body FROM outbox WHERE kind = 'ExportFinished' ORDER BY seq DESC"
        ).fetchone()
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
        "checkpoints/step-000000000010-attempt-1/rank-0/model.pt",
        "checkpoints/step-000000000010-attempt-1/manifest.json",
        "checkpoints/step-000000000020-attempt-1/rank-0/model.pt",
        "checkpoints/step-000000000020-attempt-1/manifest.json", "final/rank-0/model.pt",
        "final/manifest.json", "logs/attempt-1.log",
    }  # fmt: skip
    for item in manifest["objects"]:
        body, checksum = sink.objects[f"{PREFIX}/{item['key']}"]
        assert (len(body), hashlib.sha256(body).hexdigest()) == (item["bytes"], item["sha256"])
        assert checksum == b64encode(hashlib.sha256(body).digest()).decode()
    assert (manifest["lastStep"], manifest["finalModel"]) == (20, True)
    assert (finished["objects"], finished["manifestKey"]) == (
        7,
        f"runs/{RUN}/export/export-manifest.json",
    )
    assert list(sink.objects)[-1].endswith("export-manifest.json"), "the manifest is written last"


@pytest.mark.parametrize(("selection", "steps"), [("last", {"20"}), ("none", set())])
def test_only_what_was_asked_for_is_exported(
    tmp_path: Path, sink: Sink, root: Path, selection: str, steps: set[str]
) -> None:
    assert run_export(tmp_path, selection)["ok"]
    assert {key.split("step-")[1][10:12] for key in sink.objects if "step-" in key} == steps
    assert any("final/" in key for key in sink.objects)


def test_an_interrupted_export_goes_on_and_sends_nothing_twice(
    tmp_path: Path, sink: Sink, root: Path
) -> None:
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


def test_an_object_that_s3_holds_wrongly_fails_the_export(
    tmp_path: Path, sink: Sink, root: Path
) -> None:
    sink.corrupt_puts = True
    finished = run_export(tmp_path)
    assert not finished["ok"]
    assert "S3 holds" in finished["reason"]
    assert not any(key.endswith("export-manifest.json") for key in sink.objects)
    sink.corrupt_puts = False
    assert run_export(tmp_path)["ok"], "the same export id again repairs it"


def test_a_final_model_that_does_not_verify_fails_the_export(
    tmp_path: Path, sink: Sink, root: Path
) -> None:
    (root / "final/rank-0/model.pt").write_bytes(b"rotten!")
    finished = run_export(tmp_path)
    assert (finished["ok"], finished["reason"]) == (
        False,
        "the final model does not verify: rank-0/model.pt does not have the hash "
        "that the manifest says",
    )


def test_a_bad_destination_is_refused(tmp_path: Path, sink: Sink, root: Path) -> None:
    with pytest.raises(ValueError, match="s3://bucket/key"):
        locations.parse_uri("https://elsewhere/x")


def test_s3_refuses_a_file_that_changed_after_it_was_hashed(tmp_path: Path, sink: Sink) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    known = digests.digest(path)
    path.write_bytes(b"after!")
    with pytest.raises(Refused, match="BadDigest"):
        S3("us-east-1").put_file(Location("data", "k"), path, known)


@contextmanager
def moto_has(monkeypatch: pytest.MonkeyPatch, *, bucket: str, bus: str) -> Iterator[None]:
    """A server of moto, which is AWS to this process, with a bucket and a bus."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=bucket)
        boto3.client("events", region_name="us-east-1").create_event_bus(Name=bus)
        yield
    finally:
        server.stop()


def test_the_agent_speaks_s3_and_eventbridge_as_moto_understands_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainyard_agent.events.outbox import Sender

    with moto_has(monkeypatch, bucket="data", bus="bus"):
        for module in (digests, s3):
            monkeypatch.setattr(module, "SINGLE_PUT_BYTES", 6 * 1024 * 1024)
            monkeypatch.setattr(module, "PART_BYTES", 5 * 1024 * 1024)
        client, small, large = S3("us-east-1"), tmp_path / "small", tmp_path / "large"
        small.write_bytes(b"x" * 1000)
        large.write_bytes(b"y" * 12 * 1024 * 1024)
        for path in (small, large):
            known = digests.digest(path)
            at = Location("data", f"a b/{path.name}")
            client.put_file(at, path, known)
            assert client.head(at) is not None
            assert client.head(at)[0] == known.size  # type: ignore[index]
            assert hashlib.sha256(client.get(at) or b"").hexdigest() == known.sha256
        assert client.head(Location("data", "a b/small")) == (1000, digests.digest(small).checksum)
        assert digests.digest(large).checksum.endswith("-3")
        assert client.get(Location("data", "nothing")) is None
        with (tmp_path / "fetched").open("w+b") as into:
            assert not client.get_file(Location("data", "nothing"), into)
            client.put_bytes(Location("data", "small"), b"some bytes")
            assert client.get_file(Location("data", "small"), into)
        assert (tmp_path / "fetched").read_bytes() == b"some bytes"
        entry = {
            "Source": "trainyard.agent",
            "DetailType": "T",
            "Detail": "{}",
            "EventBusName": "bus",
        }
        sender = Sender(tmp_path / "o", "bus", "us-east-1", b"key")
        assert "EventId" in sender._put_events([entry])[0]


def test_what_attempts_reported_goes_along_and_counts_as_no_result(
    tmp_path: Path, sink: Sink, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "attempts/1/metrics.jsonl").write_text('{"step": 1, "metrics": {"accuracy": 1}}\n')
    (root / "attempts/1/steps.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    (root / "attempts/2").mkdir()
    (root / "attempts/2/curves.json").write_text("{}")
    own = Exports._own

    async def unreadable(
        exports: Exports, target: Any, top: Path, file: Any, training: bool
    ) -> Any:
        if file.key.endswith("steps.jsonl"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return await own(exports, target, top, file, training)

    monkeypatch.setattr(Exports, "_own", unreadable)
    finished = run_export(tmp_path)
    assert finished["ok"], finished["reason"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    keys = {item["key"] for item in manifest["objects"]}
    assert {key for key in keys if key.startswith("curves/")} == {
        "curves/attempt-1.metrics.jsonl", "curves/attempt-2.curves.json",
    }  # fmt: skip
    assert (manifest["outputFiles"], manifest["workingFiles"]) == (0, 0)
    assert (manifest["outputLeftOut"], manifest["workingLeftOut"]) == (0, 0)
    for key in keys:
        assert sink.objects[f"{PREFIX}/{key}"]


def test_a_programs_own_results_are_exported_and_proved_like_a_checkpoint(
    tmp_path: Path, sink: Sink, root: Path
) -> None:
    (root / "output/plots").mkdir(parents=True)
    (root / "output/plots/loss 1.png").write_bytes(b"png")
    (root / "snapshot.pt").write_bytes(b"beside")
    (root / "checkpoints/model.pt").write_bytes(b"by hand")
    (root / "checkpoints/.tmp-step").mkdir()
    (root / "checkpoints/.tmp-step/half").write_bytes(b"never")
    for files in (root / "work", root / "attempts/1/files"):  # the second is an older version's
        (files / "out").mkdir(parents=True)
        (files / "train.py").write_text("print()\n")
        (files / "kept.py").write_text("changed by the program\n")
        (files / "out/model.pt").write_bytes(b"weights")
    bundle = {
        "runId": RUN, "attempt": 1, "clusterName": "demo", "batchScript": "#!", "nodes": 1,
        "processesPerNode": 1, "program": ["train.py"],
        "files": {"train.py": "print()\n", "kept.py": "as submitted\n"},
    }  # fmt: skip
    (root / "attempts/1/bundle.json").write_text(json.dumps(bundle))
    assert run_export(tmp_path, "none")["ok"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    keys = {item["key"] for item in manifest["objects"] if not item["key"].startswith("final/")}
    assert keys == {
        "output/plots/loss 1.png", "run/snapshot.pt", "run/checkpoints/model.pt",
        "working/out/model.pt", "working/kept.py", "attempts/1/files/out/model.pt",
        "attempts/1/files/kept.py", "logs/attempt-1.log",
    }  # fmt: skip
    for item in manifest["objects"]:
        body, _ = sink.objects[f"{PREFIX}/{quote(item['key'])}"]
        assert (len(body), hashlib.sha256(body).hexdigest()) == (item["bytes"], item["sha256"])
    assert (manifest["outputFiles"], manifest["workingFiles"]) == (1, 6)
    left_out = [manifest[name] for name in ("outputLeftOut", "workingLeftOut", "leftOutBytes")]
    assert left_out == [0, 0, 0]


def test_what_is_too_large_or_leads_elsewhere_is_left_out_and_counted(
    tmp_path: Path, sink: Sink, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "WORKING_BYTES", 10)
    (tmp_path / "elsewhere").write_text("a secret of the system")
    (root / "output").mkdir()
    (root / "output/model.pt").write_bytes(b"weights")
    (root / "output/last.pt").symlink_to("model.pt")
    (root / "output/away.pt").symlink_to(tmp_path / "elsewhere")
    for attempt in (2, 10):
        (root / f"attempts/{attempt}/files").mkdir(parents=True)
        (root / f"attempts/{attempt}/files/model.pt").write_bytes(b"12345678")
    assert run_export(tmp_path)["ok"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    own = [
        item["key"]
        for item in manifest["objects"]
        if item["key"].startswith(("output", "attempts"))
    ]
    assert own == ["output/model.pt", "attempts/10/files/model.pt"], (
        "of two attempts the newer one's"
    )
    assert (manifest["outputLeftOut"], manifest["workingLeftOut"], manifest["leftOutBytes"]) == (
        1,
        1,
        8,
    )
    assert manifest["links"] == [{"key": "output/last.pt", "target": "model.pt"}]


def test_of_more_files_than_an_export_takes_the_first_are_proved_and_the_rest_is_counted(
    tmp_path: Path, sink: Sink, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "OUTPUT_FILES", 300)
    (root / "output").mkdir()
    for number in range(320):
        (root / f"output/{number:03d}").write_bytes(b"four")
    assert run_export(tmp_path)["ok"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    keys = [item["key"] for item in manifest["objects"] if item["key"].startswith("output/")]
    assert keys == [f"output/{number:03d}" for number in range(300)]
    found = [manifest[name] for name in ("outputFiles", "outputLeftOut", "leftOutBytes")]
    assert found == [300, 20, 80]


class Failing:
    """A directory that cannot be listed, so often."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        directory: Path,
        error: OSError,
        times: int = 1_000_000,
    ) -> None:
        self.left, self.real = times, os.scandir
        self.directory, self.error = str(directory), error
        monkeypatch.setattr(os, "scandir", self)

    def __call__(self, path: Any = ".") -> Any:
        if str(path) == self.directory and self.left > 0:
            self.left -= 1
            raise self.error
        return self.real(path)


@pytest.fixture
def plots(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Part of a program's own results."""
    monkeypatch.setattr(export, "READ_PAUSES", (0.01, 0.01))
    found = root / "output/plots"
    found.mkdir(parents=True)
    (found / "loss.png").write_bytes(b"png")
    return found


STALE = OSError(errno.ESTALE, "Stale file handle")


def test_results_that_cannot_be_seen_just_now_are_looked_for_again(
    tmp_path: Path, sink: Sink, plots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Failing(monkeypatch, plots, STALE, times=2)
    assert run_export(tmp_path)["ok"]
    assert f"{PREFIX}/output/plots/loss.png" in sink.objects


def test_an_export_that_may_lack_results_fails(
    tmp_path: Path, sink: Sink, plots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Failing(monkeypatch, plots, STALE)
    finished = run_export(tmp_path)
    assert (finished["ok"], finished["reason"]) == (False, "[Errno 116] Stale file handle")
    assert f"{PREFIX}/export-manifest.json" not in sink.objects


def test_what_nobody_may_list_is_left_out_and_counted(
    tmp_path: Path, sink: Sink, plots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Failing(monkeypatch, plots, PermissionError(errno.EACCES, "Permission denied"))
    assert run_export(tmp_path)["ok"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    assert (manifest["outputFiles"], manifest["outputLeftOut"]) == (0, 1)


def after_planning(monkeypatch: pytest.MonkeyPatch, prune: Callable[[], None]) -> None:
    """Do this after an export has read a checkpoint and before it copies it."""
    real = export_plan.make_plan

    def planned(*arguments: Any) -> export_plan.Plan:
        plan = real(*arguments)
        prune()
        return plan

    monkeypatch.setattr(export, "make_plan", planned)


def test_a_checkpoint_that_is_pruned_while_it_is_copied_is_left_out_and_the_export_holds_the_others(
    tmp_path: Path, sink: Sink, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_planning(
        monkeypatch, lambda: shutil.rmtree(root / "checkpoints/step-000000000010-attempt-1")
    )
    finished = run_export(tmp_path)
    assert finished["ok"], finished["reason"]
    manifest = json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])
    assert not any("step-000000000010" in item["key"] for item in manifest["objects"])
    assert manifest["lastStep"] == 20


def test_an_export_whose_every_checkpoint_was_pruned_begins_anew_with_those_that_are_there_now(
    tmp_path: Path, sink: Sink, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prune() -> None:
        if not (root / "checkpoints/step-000000000040-attempt-1").is_dir():
            shutil.rmtree(root / "checkpoints")
            commit(root, 40, body=b"weights 40")

    after_planning(monkeypatch, prune)
    shutil.rmtree(root / "final")
    finished = run_export(tmp_path)
    assert finished["ok"], finished["reason"]
    assert json.loads(sink.objects[f"{PREFIX}/export-manifest.json"][0])["lastStep"] == 40


def test_an_export_that_pruning_always_overtakes_says_so_in_words(
    tmp_path: Path, sink: Sink, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter(range(100, 200))

    def prune() -> None:
        shutil.rmtree(root / "checkpoints")
        commit(root, next(steps))

    after_planning(monkeypatch, prune)
    shutil.rmtree(root / "final")
    finished = run_export(tmp_path, "last")
    assert not finished["ok"]
    assert "checkpoint.keep" in finished["reason"]
    assert "Errno" not in finished["reason"]
