"""Checkpoints of programs that know nothing of us: copied once they are complete, and put back."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.s3_client import S3Client, refusal
from tests.unit.trainyard_container.test_results import write
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container.matches import Torn, find, look, proven, step_in
from trainyard_container.putting_back import put_back
from trainyard_container.store import Store
from trainyard_container.surroundings import Place, Surroundings
from trainyard_container.watching import Order, Watching, place
from trainyard_contracts.files import CheckpointManifest


def saved(text: str) -> bytes:
    """As torch.save writes: an archive with a CRC of each member. The same bytes at any time."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("data"), text * 100)
    return made.getvalue()


class Run:
    """One run's first host, its bucket and what it reported."""

    def __init__(self, tmp_path: Path, **watch: Any) -> None:
        self.client, self.told = S3Client(), list[tuple[str, dict[str, Any]]]()
        self.where: Surroundings = replace(
            surroundings(tmp_path), attempt=1, data=Place("b", "runs/1/")
        )
        self.where.attempt_dir.mkdir(parents=True)
        self.store = Store(self.client, "b", patience_seconds=0)
        bundle = {"nodes": 1, "processesPerNode": 1, "checkpointKeep": 2}
        given = {"pattern": "snap*", "complete": "auto", "stableSeconds": 60.0, **watch}
        order = Order.of({**bundle, "checkpointWatch": given})
        assert order is not None
        self.order = order
        self.watching = self.another()

    def another(self) -> Watching:
        return Watching(self.where, self.store, self.order, lambda: 7, self.report)

    def report(self, kind: str, **fields: Any) -> None:
        self.told.append((kind, fields))

    def write(self, name: str, body: bytes) -> Path:
        path = write(self.where.run_dir, name)
        path.write_bytes(body)
        return path

    def look(self, *, ended: bool = False) -> str:
        return self.watching._look(ended=ended)

    def kept(self) -> list[str]:
        """Names of the copies in S3, each proven by its manifest's class."""
        found = [key for key in self.client.objects if key.endswith("/manifest.json")]
        for key in found:
            CheckpointManifest.model_validate_json(self.client.objects[key])
        return sorted(key.split("/")[-2] for key in found)

    def put_back(self, attempt: int = 2) -> None:
        self.where = replace(self.where, attempt=attempt)
        put_back(self.store, self.where, self.order.patterns, self.report)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_what_proves_itself_is_copied_at_once_and_once(run: Run) -> None:
    run.write("work/snapshot.pt", saved("one"))
    assert run.look() == run.look() == ""
    assert run.kept() == ["save-000000000001-step-000000000007-attempt-1"]
    [(kind, fields)] = run.told
    assert (kind, fields["source"], fields["step"]) == (
        "CheckpointCommitted",
        "work/snapshot.pt",
        7,
    )
    run.write("work/snapshot.pt", saved("another"))
    run.look()
    assert len(run.kept()) == 2


def test_what_is_torn_is_no_copy_and_is_told_at_the_end(run: Run) -> None:
    run.write("work/snapshot-5.pt", saved("one")[:-40])
    run.look()
    assert run.look(ended=True) == ""
    assert run.kept() == []
    [(kind, fields)] = run.told
    assert (kind, fields["step"], fields["path"]) == ("CheckpointRejected", 5, "work/snapshot-5.pt")


def test_what_proves_nothing_must_keep_still(tmp_path: Path) -> None:
    run = Run(tmp_path, stableSeconds=1.0)
    run.write("output/snap.bin", b"raw")
    run.look()
    assert run.kept() == []
    seen = run.watching._seen["output/snap.bin"]
    run.watching._seen["output/snap.bin"] = (seen[0], seen[1] - 2)
    run.look()
    assert len(run.kept()) == 1


def test_a_marker_of_this_save_says_that_it_is_complete(tmp_path: Path) -> None:
    run = Run(tmp_path, complete="marker-file", marker="{name}.done", pattern="snap.bin")
    run.write("work/snap.bin", b"raw")
    run.look()
    assert run.kept() == []
    run.write("work/snap.bin.done", b"")
    run.look()
    assert len(run.kept()) == 1


def test_older_copies_make_room_manifests_first(run: Run) -> None:
    for number in range(4):
        run.write("work/snapshot.pt", saved(f"{number}"))
        run.look()
    assert [place(name)[0] for name in run.kept()] == [3, 4]
    pruned = [fields["path"] for kind, fields in run.told if kind == "CheckpointPruned"]
    assert len(pruned) == 2
    assert len([key for key in run.client.objects if key.endswith("snapshot.pt")]) == 2


def test_a_copy_that_s3_refuses_is_tried_again(run: Run) -> None:
    run.write("work/snapshot.pt", saved("one"))

    def deny(name: str, key: str) -> None:
        if name == "put" and key.endswith("manifest.json"):
            raise refusal("AccessDenied")

    run.client.before = deny
    assert "cannot be brought to S3" in run.look()
    assert run.kept() == []
    run.client.before = lambda _name, _key: None
    assert run.look() == ""
    assert len(run.kept()) == 1


def test_a_copy_counts_though_older_ones_cannot_be_deleted(run: Run) -> None:
    def denied(kind: str, _key: str) -> None:
        if kind == "delete":
            raise refusal("AccessDenied")

    run.client.before = denied
    for text in ("one", "two", "three"):
        run.write("work/snapshot.pt", saved(text))
        assert run.look() == ""
    assert run.look(ended=True) == ""
    assert len(run.kept()) == 3


@pytest.mark.parametrize(
    "header", [b"[]", b'{"a": {"data_offsets": [1]}}', b'{"a": {"data_offsets": [0, Infinity]}}']
)
def test_a_header_of_another_shape_is_torn_and_no_end_of_the_watch(run: Run, header: bytes) -> None:
    path = run.write("work/snap.safetensors", len(header).to_bytes(8, "little") + header)
    match = look(run.where.run_dir, path)
    assert match is not None
    with pytest.raises(Torn):
        proven(run.where.run_dir, match)


def test_a_lost_or_torn_file_is_put_back_and_the_program_s_own_is_set_aside(run: Run) -> None:
    path = run.write("work/snapshot.pt", saved("whole"))
    run.look()
    path.write_bytes(saved("a newer one")[:-9])
    run.put_back()
    assert path.read_bytes() == saved("whole")
    assert (path.parent / ".torn-attempt-1.snapshot.pt").exists()
    [restored] = [fields for kind, fields in run.told if kind == "CheckpointRestored"]
    assert restored["setAside"] == "work/.torn-attempt-1.snapshot.pt"
    run.told.clear()

    path.unlink()
    run.put_back(3)
    assert path.read_bytes() == saved("whole")
    run.put_back(4)
    assert len(run.told) == 1, "what is there already is left as it is"


def test_a_newer_directory_that_does_not_prove_itself_makes_way(tmp_path: Path) -> None:
    run = Run(tmp_path, pattern="checkpoint-*")
    run.write("output/checkpoint-10/model.pt", saved("ten"))
    run.look()
    run.write("output/checkpoint-20/model.pt", saved("twenty")[:-30])
    run.write("output/checkpoint-30/model.pt", saved("thirty"))
    run.put_back()
    names = sorted(path.name for path in (run.where.run_dir / "output").iterdir())
    assert names == [".torn-attempt-1.checkpoint-20", "checkpoint-10", "checkpoint-30"]


def test_a_copy_that_is_torn_in_s3_gives_way_to_the_one_before(run: Run) -> None:
    path = run.write("work/snapshot.pt", saved("first"))
    run.look()
    path.write_bytes(saved("second"))
    run.look()
    newest = max(key for key in run.client.objects if key.endswith("snapshot.pt"))
    run.client.objects[newest] = b"else"
    path.unlink()
    run.put_back()
    assert path.read_bytes() == saved("first")


def test_a_copy_that_names_a_place_elsewhere_is_not_put_there(run: Run) -> None:
    run.write("work/snapshot.pt", saved("one"))
    run.look()
    [key] = [key for key in run.client.objects if key.endswith("manifest.json")]
    changed = run.client.objects[key].replace(b"work/snapshot.pt", b"../../snapshot.p")
    run.client.objects[key] = changed
    run.put_back()
    assert not list(run.where.ml.rglob("snapshot.p"))


@pytest.mark.parametrize(
    ("name", "step"),
    [("checkpoint-100", 100), ("a/step_20.pt", 20), ("last.ckpt", None), ("epoch=3-step=40", 40)],
)
def test_a_name_says_the_step(name: str, step: int | None) -> None:
    assert step_in(name) == step


def test_links_and_what_lies_in_another_match_are_none_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "work/ckpt-1/snap.pt")
    (tmp_path / "work/ckpt-2").symlink_to("ckpt-1")
    assert [match.name for match in find(tmp_path, ["ckpt-*", "**/snap.pt"])] == ["work/ckpt-1"]


@pytest.mark.parametrize("missing", ["trainer_state.json", ".metadata"])
def test_a_directory_whose_last_file_is_missing_is_torn(tmp_path: Path, missing: str) -> None:
    for name in ("training_args.bin", "shard.distcp", "trainer_state.json", ".metadata"):
        if name != missing:
            write(tmp_path, f"work/checkpoint-5/{name}", "{}")
    match = look(tmp_path, tmp_path / "work/checkpoint-5")
    assert match is not None
    with pytest.raises(Torn, match="is missing"):
        proven(tmp_path, match)
