"""Checkpoints on their way to S3: never a manifest over what is not there, wherever it stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.s3_client import S3Client, refusal

from trainyard_container import restoring, store
from trainyard_container.publishing import Publisher
from trainyard_container.store import Store, StoreFailed
from trainyard_job.checkpoints import checkpoint
from trainyard_job.common.attempt import Attempt

PREFIX = "directories/c/run-1/"


class Run:
    """A run's directory, and a bucket whose requests may be made to fail."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory = directory
        self.client = S3Client()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.keep = keep

    def attempt(self, number: int = 1) -> Attempt:
        attempts, checkpoints = self.directory / "attempts", self.directory / "checkpoints"
        return Attempt("run-1", number, self.directory, attempts / str(number), checkpoints)

    def save(
        self, step: int, body: bytes = b"weights", number: int = 1, final: bool = False
    ) -> str:
        attempt = self.attempt(number)
        name = checkpoint.checkpoint_name(step, number)
        target = attempt.run_dir / "final" if final else attempt.checkpoint_dir / name
        temporary = checkpoint.temporary_directory(target, attempt)
        files = {"model/weights": body, "rank-0": str(step).encode()}
        entries = [
            checkpoint.write_file(temporary, path, lambda stream, text=text: stream.write(text))
            for path, text in files.items()
        ]
        checkpoint.commit(attempt, target, step, 1, entries)
        return name

    def publisher(self, number: int = 1) -> Publisher:
        attempt = self.attempt(number)
        bucket = Store(self.client, "b", patience_seconds=0)
        return Publisher(
            bucket,
            PREFIX,
            attempt.run_dir,
            attempt.attempt_dir,
            attempt.checkpoint_dir,
            keep=self.keep,
            report=lambda kind, **fields: self.told.append((kind, fields)),
        )

    def publish(self, number: int = 1) -> str:
        made = self.publisher(number)
        made._thread.start()
        return made.finish()

    def in_s3(self) -> list[str]:
        """Checkpoints with a manifest, each of which must be whole."""
        names = []
        bucket = Store(self.client, "b")
        at = f"{PREFIX}checkpoints/"
        for name, there in restoring.by_name(at, bucket.sizes(at)).items():
            if "manifest.json" in there:
                assert restoring.lacking(restoring.manifest_of(bucket, at, name)[1], there) == ""
                names.append(name)
        return names


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


pytestmark = pytest.mark.real  # a thread


def test_a_committed_checkpoint_is_in_s3_and_told(run: Run) -> None:
    name = run.save(5)
    assert run.publish() == ""
    assert run.in_s3() == [name]
    [(kind, fields)] = run.told
    assert (kind, fields["step"], fields["path"]) == (
        "CheckpointCommitted",
        5,
        f"checkpoints/{name}",
    )
    assert (fields["files"], fields["bytes"]) == (2, 8)


@pytest.mark.parametrize("number", range(12))
def test_whatever_request_is_the_last_one_no_manifest_names_what_is_missing(
    run: Run, number: int
) -> None:
    left = [number]

    def dies(_name: str, _key: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise refusal("AccessDenied")

    older = run.save(1)
    assert run.publish() == ""
    run.save(2)
    run.client.before = dies
    run.publish()
    run.client.before = lambda _name, _key: None
    assert older in run.in_s3()


def test_a_failed_upload_is_tried_again_and_told_once(run: Run) -> None:
    name = run.save(1)

    def no_manifests(kind: str, key: str) -> None:
        if kind == "put" and key.endswith("manifest.json"):
            raise refusal("AccessDenied")

    run.client.before = no_manifests
    assert "AccessDenied" in run.publish()
    assert (run.in_s3(), run.told) == ([], [])
    run.client.before = lambda _name, _key: None
    assert run.publish() == ""
    assert (run.in_s3(), len(run.told)) == ([name], 1)


def test_a_step_that_is_saved_again_replaces_what_was_there(run: Run) -> None:
    run.save(1, b"first")
    run.publish()
    run.save(1, b"again")
    run.publish()
    assert run.client.objects[f"{PREFIX}checkpoints/{run.in_s3()[0]}/model/weights"] == b"again"


@pytest.mark.parametrize(
    "manifest",
    ['{"shards": []}', "[]", "torn", '{"files": [{"path": "../x", "bytes": 1, "sha256": ""}]}'],
)
def test_a_manifest_of_another_kind_is_said_once_and_the_others_go_on(
    run: Run, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = run.save(5)
    foreign = run.attempt().checkpoint_dir / checkpoint.checkpoint_name(6, 1)
    foreign.mkdir()
    (foreign / "manifest.json").write_text(manifest)
    (foreign / "x").write_text("x")
    assert run.publish() == ""
    assert run.in_s3() == [name]
    assert capsys.readouterr().out.count(f"{foreign.name} is no checkpoint") == 1
    later = run.save(7)
    assert run.publish() == ""
    assert run.in_s3() == [later, name]


def test_the_newest_whole_ones_stay_and_the_best_and_what_is_torn(run: Run) -> None:
    run.keep = 2
    names = []
    for step in range(1, 7):
        names.append(run.save(step))
        if step == 2:
            run.publish()
            best = {"keep": [names[1]]}
            (run.directory / "best.json").write_text(json.dumps(best))
        if step == 4:
            run.publish()
            del run.client.objects[f"{PREFIX}checkpoints/{names[2]}/rank-0"]
        run.publish()
    with pytest.raises(AssertionError):
        run.in_s3()  # the torn one is still there, as evidence
    del run.client.objects[f"{PREFIX}checkpoints/{names[2]}/manifest.json"]
    assert run.in_s3() == [names[5], names[4], names[1]]
    pruned = [fields["step"] for kind, fields in run.told if kind == "CheckpointPruned"]
    assert pruned == [1, 4]


def test_what_an_earlier_attempt_saved_is_pruned_as_its_own(run: Run) -> None:
    run.keep = 1
    run.save(1)
    run.publish()
    run.save(2, number=2)
    run.publish(2)
    [pruned] = [fields for kind, fields in run.told if kind == "CheckpointPruned"]
    assert (pruned["step"], pruned["attempt"]) == (1, 1)
    assert pruned["path"].endswith("attempt-1")
    assert [fields["attempt"] for kind, fields in run.told if kind == "CheckpointCommitted"] == [
        1, 2,
    ]  # fmt: skip


def test_the_final_model_is_there_whole_and_alone(run: Run) -> None:
    run.client.objects[f"{PREFIX}final/of-before"] = b"old"
    run.save(9, final=True)
    assert run.publish() == ""
    found = {key.removeprefix(f"{PREFIX}final/") for key in run.client.objects}
    assert found == {"model/weights", "rank-0", "manifest.json"}


def test_what_another_attempt_restored_is_not_sent_again(run: Run) -> None:
    name = run.save(5)
    run.publish()
    asked: list[str] = []
    run.client.before = lambda kind, _key: asked.append(kind)
    made = run.publisher(2)
    made.start(name)
    assert made.finish() == ""
    assert "put" not in asked


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_FIRST_PAUSE", 0.001)


def test_the_newest_whole_checkpoint_comes_back(run: Run, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        run.save(step, bytes([step]) * 100)
        run.publish()
    at = f"{PREFIX}checkpoints/"
    del run.client.objects[f"{at}{checkpoint.checkpoint_name(3, 1)}/manifest.json"]
    changed = f"{at}{checkpoint.checkpoint_name(2, 1)}/model/weights"
    run.client.objects[changed] = b"\x07" * 100
    rejected: dict[int, str] = {}

    bucket, here = Store(run.client, "b", patience_seconds=0), tmp_path / "here"
    target = here / "checkpoints"
    saved = restoring.newest(
        bucket, at, here, target, "run-1", lambda step, _name, why: rejected.update({step: why})
    )

    assert saved is not None
    assert (saved.step, saved.path.parent) == (1, target)
    assert checkpoint.verify(saved.path, run_id="run-1").step == 1
    assert rejected == {
        3: "it was never finished: it has no manifest.json",
        2: "model/weights does not have the manifest's sha256",
    }
    assert list((here / ".restoring").iterdir()) == []


def test_nothing_is_trained_anew_because_s3_cannot_be_read(run: Run, tmp_path: Path) -> None:
    run.save(1)
    run.publish()

    def denied(kind: str, key: str) -> None:
        if kind == "get" and key.endswith("weights"):
            raise refusal("AccessDenied")

    run.client.before = denied
    bucket = Store(run.client, "b", patience_seconds=0)
    with pytest.raises(StoreFailed):
        restoring.newest(
            bucket, f"{PREFIX}checkpoints/", tmp_path, tmp_path / "c", "run-1", lambda *_: None
        )


def test_a_checkpoint_of_another_run_or_with_a_path_that_leaves_it_is_none(
    run: Run, tmp_path: Path
) -> None:
    name = run.save(1)
    run.publish()
    bucket, at = Store(run.client, "b"), f"{PREFIX}checkpoints/"
    with pytest.raises(restoring.NotWhole, match="is of run run-1"):
        restoring.bring(bucket, at, name, tmp_path, tmp_path / "c", "run-2")
    key = f"{at}{name}/manifest.json"
    run.client.objects[key] = run.client.objects[key].replace(b"model/weights", b"../..//weights")
    with pytest.raises(restoring.NotWhole, match="leaves the checkpoint"):
        restoring.bring(bucket, at, name, tmp_path, tmp_path / "c", "run-1")
