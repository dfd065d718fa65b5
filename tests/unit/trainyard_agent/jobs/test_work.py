"""The working directory: the same at each attempt, with what the program left there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.support.agent import RUN, config
from tests.support.trees import packed

from trainyard_agent.jobs import work
from trainyard_agent.jobs.attempt_files import write_attempt
from trainyard_contracts.bundle_parts import BundleCode
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import tree_id


def bundle(attempt: int = 1, **changes: Any) -> JobBundle:
    fields = {"run_id": RUN, "attempt": attempt, "cluster_name": "c", "batch_script": ""}
    fields |= {"nodes": 1, "processes_per_node": 1, "program": ["train.py"]}
    return JobBundle(**(fields | changes))


FILES = {"train.py": "print()\n", "conf/a.yaml": "a: 1\n"}


def lay_out(root: Path, attempt: int = 1) -> Path:
    directory = root / "attempts" / str(attempt)
    write_attempt(directory, bundle(attempt, files=FILES), config(root), {})
    return root / "work"


def test_the_files_of_the_submission_are_there_at_the_first_attempt(tmp_path: Path) -> None:
    top = lay_out(tmp_path)
    assert {name: (top / name).read_text() for name in FILES} == FILES
    assert not (tmp_path / "attempts/1/files").exists()


def test_what_a_program_made_changed_or_replaced_is_there_again_at_the_next_attempt(
    tmp_path: Path,
) -> None:
    top = lay_out(tmp_path)
    (top / "snapshot.pt").write_bytes(b"epoch 3")
    (top / "train.py").write_text("print('patched')\n")
    lay_out(tmp_path, 2)
    assert (top / "snapshot.pt").read_bytes() == b"epoch 3"
    assert (top / "train.py").read_text() == "print('patched')\n"
    assert (top / "conf/a.yaml").read_text() == FILES["conf/a.yaml"]


def test_a_file_that_is_missing_is_written_again(tmp_path: Path) -> None:
    top = lay_out(tmp_path)
    (top / "conf/a.yaml").unlink()
    lay_out(tmp_path, 2)
    assert (top / "conf/a.yaml").read_text() == FILES["conf/a.yaml"]


def test_nothing_is_written_through_a_link_that_the_program_made(tmp_path: Path) -> None:
    top = lay_out(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (top / "conf/a.yaml").unlink()
    (top / "conf").rmdir()
    (top / "conf").symlink_to(tmp_path / "elsewhere")
    (top / "train.py").unlink()
    (top / "train.py").symlink_to(tmp_path / "nowhere")
    lay_out(tmp_path, 2)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (top / "train.py").is_symlink()
    assert not (tmp_path / "nowhere").exists()


def test_a_file_in_the_place_of_a_directory_stays(tmp_path: Path) -> None:
    top = lay_out(tmp_path)
    (top / "conf/a.yaml").unlink()
    (top / "conf").rmdir()
    (top / "conf").write_text("one file now")
    lay_out(tmp_path, 2)
    assert (top / "conf").read_text() == "one file now"


def test_changed_and_removed_files_are_named(tmp_path: Path) -> None:
    top = lay_out(tmp_path)
    asked = bundle(files=FILES)
    assert work.changed(tmp_path, asked) == ""
    (top / "made.txt").write_text("the program's own")
    (top / "train.py").write_text("PRINT()\n")
    (top / "conf/a.yaml").unlink()
    assert work.changed(tmp_path, asked) == "conf/a.yaml, train.py"


def test_a_long_list_of_changed_files_is_cut(tmp_path: Path) -> None:
    asked = bundle(files={f"file-{number}": "text" for number in range(9)})
    work.lay_out(tmp_path, asked)
    for number in range(9):
        (tmp_path / f"work/file-{number}").write_text("changed")
    words = work.changed(tmp_path, asked)
    assert words == "file-0, file-1, file-2, file-3, file-4 and 4 more"


def test_files_of_an_upload_are_compared_with_its_tree(tmp_path: Path) -> None:
    tree, _ = packed({"a.py": b"aaa", "b.py": b"bbb", "c.py": b"ccc"})
    asked = bundle(code=BundleCode(tree=tree_id(tree.document()), prefix="x"))
    (tmp_path / "tree.json").write_bytes(tree.document())
    top = tmp_path / "work"
    top.mkdir()
    for name, body in (("a.py", b"aaa"), ("b.py", b"BBB"), ("c.py", b"ccc")):
        (top / name).write_bytes(body)
    os.utime(top / "a.py", (work.UNPACKED_AT, work.UNPACKED_AT))
    assert work.changed(tmp_path, asked) == "b.py", "c.py has another time, and the same bytes"


def test_a_tree_that_is_not_the_submissions_says_nothing(tmp_path: Path) -> None:
    tree, _ = packed({"a.py": b"aaa"})
    (tmp_path / "tree.json").write_bytes(tree.document())
    asked = bundle(code=BundleCode(tree="0" * 64, prefix="x"))
    assert work.brought(tmp_path, asked) == {}
