"""What a program left is found once each, and what the submission brought is not its result."""

from __future__ import annotations

from pathlib import Path

from tests.support.agent import commit
from tests.support.trees import packed
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.checkpoints import own_files
from trainyard_contracts.bundle_parts import BundleCode
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import tree_id


def attempt(root: Path, given: JobBundle) -> None:
    directory = root / "attempts" / str(given.attempt)
    directory.mkdir(parents=True)
    (directory / "bundle.json").write_text(given.model_dump_json(by_alias=True))


def keys(root: Path) -> list[str]:
    return [file.key for file in own_files.working(root, "checkpoints").files]


def test_a_working_directory_is_found_without_what_the_submission_brought(tmp_path: Path) -> None:
    tree, _ = packed({"a.py": b"aaa", "b.py": b"bbb"})
    code = BundleCode(tree=tree_id(tree.document()), prefix="x")
    attempt(tmp_path, bundle(1, code=code, files={"conf.yaml": "a: 1\n", "kept.yaml": "b: 1\n"}))
    (tmp_path / "tree.json").write_bytes(tree.document())
    top = tmp_path / "work"
    (top / "run").mkdir(parents=True)
    for name, text in {
        "a.py": "aaa", "b.py": "BBB", "conf.yaml": "a: 2\n", "kept.yaml": "b: 1\n",
        "model.pt": "weights", "run/snapshot.pt": "in a directory called run",
    }.items():  # fmt: skip
        (top / name).write_text(text)
    (tmp_path / "snapshot.pt").write_text("beside")
    (tmp_path / ".work-0123").mkdir()
    (tmp_path / ".work-0123/half").write_text("being unpacked")
    commit(tmp_path, 10)
    assert keys(tmp_path) == [
        "working/b.py", "working/conf.yaml", "working/model.pt", "working/run/snapshot.pt",
        "run/snapshot.pt",
    ]  # fmt: skip


def test_without_its_tree_everything_of_an_upload_is_exported(tmp_path: Path) -> None:
    attempt(tmp_path, bundle(1, code=BundleCode(tree="0" * 64, prefix="x")))
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("aaa")
    assert keys(tmp_path) == ["working/a.py"]


def test_the_working_directories_of_an_older_version_are_found_too(tmp_path: Path) -> None:
    for number in (1, 2):
        attempt(tmp_path, bundle(number, files={"train.py": "print()\n"}))
        files = tmp_path / f"attempts/{number}/files"
        files.mkdir()
        (files / "train.py").write_text("print()\n")
        (files / "model.pt").write_text(f"weights {number}")
    assert keys(tmp_path) == ["attempts/2/files/model.pt", "attempts/1/files/model.pt"]


def test_a_submission_that_was_cut_short_does_not_make_its_files_results(tmp_path: Path) -> None:
    attempt(tmp_path, bundle(1, files={"train.py": "print()\n"}))
    (tmp_path / "attempts/2").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.py").write_text("print()\n")
    (tmp_path / "work/model.pt").write_text("weights")
    assert keys(tmp_path) == ["working/model.pt"]


def test_what_attempts_reported_is_found_apart_and_is_no_result(tmp_path: Path) -> None:
    for number, name, size in (
        (1, "steps.jsonl", 100), (1, "metrics.jsonl", 10), (2, "steps.jsonl", 101),
        (2, "curves.json", 5), (2, "progress.json", 5),
    ):  # fmt: skip
        path = tmp_path / f"attempts/{number}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (tmp_path / "attempts/2/metrics.jsonl").symlink_to("/etc/passwd")
    found = own_files.curves(tmp_path, 100)
    assert [(file.key, file.size) for file in found] == [
        ("curves/attempt-2.curves.json", 5),
        ("curves/attempt-1.steps.jsonl", 100),
        ("curves/attempt-1.metrics.jsonl", 10),
    ]
    assert own_files.working(tmp_path, "checkpoints").files == []
    assert own_files.curves(tmp_path / "nothing") == []
