"""What a program makes beside its checkpoints, on its way to S3 and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.s3_client import S3Client, refusal
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import results
from trainyard_container.ending import HostEnd
from trainyard_container.host_part import HostPart, Means
from trainyard_container.links import First
from trainyard_container.results import Results
from trainyard_container.run_files import UNPACKED_AT
from trainyard_container.store import Store
from trainyard_container.surroundings import Unfit


def make(client: S3Client, run_dir: Path) -> Results:
    return Results(Store(client, "b", patience_seconds=0), "runs/1/", run_dir)


def write(run_dir: Path, name: str, text: str = "x", at: int | None = None) -> Path:
    path = run_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if at is not None:
        os.utime(path, (at, at))
    return path


def test_what_the_program_made_or_changed_goes_up_and_not_what_it_was_given(tmp_path: Path) -> None:
    write(tmp_path, "work/train.py", at=UNPACKED_AT)
    write(tmp_path, "work/__pycache__/train.pyc")
    write(tmp_path, "work/deep/snapshot.pt", "state")
    write(tmp_path, "output/plot", "o")
    (tmp_path / "output/link").symlink_to("plot")
    client = S3Client()
    made = make(client, tmp_path)
    assert made.changed() == ["output/plot", "work/deep/snapshot.pt"]
    assert made.send(made.changed()) == ""
    assert client.objects == {"runs/1/output/plot": b"o", "runs/1/work/deep/snapshot.pt": b"state"}
    assert made.changed() == []
    write(tmp_path, "output/plot", "another")
    assert made.changed() == ["output/plot"]


def test_the_next_attempt_finds_it_there(tmp_path: Path) -> None:
    client = S3Client()
    client.objects |= {"runs/1/work/deep/s": b"state", "runs/1/final/model": b"not this"}
    made = make(client, tmp_path)
    write(tmp_path, "work/deep/s", "as submitted", at=UNPACKED_AT)
    assert made.restore() == 1
    assert (tmp_path / "work/deep/s").read_bytes() == b"state"
    assert not (tmp_path / "final").exists()
    assert made.changed() == []


def test_one_file_that_cannot_go_up_is_named_and_the_others_do(tmp_path: Path) -> None:
    def denied(kind: str, key: str) -> None:
        if kind == "put" and key.endswith("/bad"):
            raise refusal("AccessDenied")

    client = S3Client(denied)
    write(tmp_path, "output/bad")
    write(tmp_path, "output/good")
    made = make(client, tmp_path)
    assert made.send([*made.changed(), "output/removed"]).startswith("output/bad: ")
    assert list(client.objects) == ["runs/1/output/good"]
    assert made.changed() == ["output/bad"]


def test_more_than_the_limits_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "OUTPUT_FILES", 2)
    monkeypatch.setattr(results, "WORKING_BYTES", 5)
    for number in range(3):
        write(tmp_path, f"output/{number}")
        write(tmp_path, f"work/{number}", "123")
    made = make(S3Client(), tmp_path)
    assert made.changed() == ["output/0", "output/1", "work/0"]
    assert made.left_out == 3


def test_a_key_that_leaves_the_directory_is_refused(tmp_path: Path) -> None:
    client = S3Client()
    client.objects["runs/1/work/../../../etc/x"] = b"1"
    with pytest.raises(Unfit, match="leaves its directory"):
        make(client, tmp_path).restore()


def test_results_and_copies_are_kept_whatever_becomes_of_a_checkpoint(tmp_path: Path) -> None:
    client, where = S3Client(), surroundings(tmp_path, "algo-1", ("algo-1",))
    where.attempt_dir.mkdir(parents=True)
    write(where.run_dir, "output/plot", "o")
    store, kept = Store(client, where.data.bucket, patience_seconds=0), list[str]()

    class Quiet:
        def of_attempt(self, kind: str, **_: Any) -> None:
            kept.append(kind)

        def flush(self, _seconds: float) -> bool:
            return True

    class Part:
        def finish(self) -> str:
            kept.append("finished")
            return "s3://b/x: AccessDenied"

    means = Means(
        where, store, lambda _: store, cast(Any, Quiet()), First(), None, {}, lambda *_: ""
    )
    part: Any = Part()
    end = HostEnd(where.host, 0, {}, "")

    assert HostPart(means, {})._close(end, part, part) != 0

    assert kept == ["finished", "finished", "AttemptEnded"]
    assert client.objects == {f"{where.data.prefix}output/plot": b"o"}
