"""What a pattern fits, how much is looked at for it, and which step a name says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard_agent.checkpoints import patterns
from trainyard_agent.checkpoints.patterns import find, look, step_in, store_name


def put(root: Path, name: str, at: int = 1, body: bytes = b"x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    os.utime(path, (at, at))
    return path


def found(root: Path, *given: str) -> list[str]:
    return [match.name for match in find(root, given).matches]


def test_files_and_directories_of_the_working_and_the_output_directory(tmp_path: Path) -> None:
    put(tmp_path, "work/snapshot.pt", 3)
    put(tmp_path, "output/snapshot.pt", 2)
    put(tmp_path, "work/out/checkpoint-5/model.pt", 1)
    put(tmp_path, "attempts/1/snapshot.pt")
    assert found(tmp_path, "snapshot*.pt", "out/checkpoint-*") == [
        "work/out/checkpoint-5",
        "output/snapshot.pt",
        "work/snapshot.pt",
    ]
    assert found(tmp_path, "**/model.pt") == ["work/out/checkpoint-5/model.pt"]
    assert found(tmp_path, "out/**") == ["work/out/checkpoint-5"]
    assert found(tmp_path, "none") == []
    assert found(tmp_path / "nowhere", "**") == []


def test_what_is_ours_hidden_or_a_link_is_not_found(tmp_path: Path) -> None:
    put(tmp_path, "work/.torn-attempt-1.a.pt")
    put(tmp_path, "work/.putting-back-a.pt")
    put(tmp_path, "work/.hidden.pt")
    put(tmp_path, "work/a.pt")
    (tmp_path / "work/b.pt").symlink_to(tmp_path / "work/a.pt")
    (tmp_path / "work/c").symlink_to("/etc")
    assert found(tmp_path, "*") == ["work/a.pt"]
    assert found(tmp_path, ".hidden*") == ["work/.hidden.pt"]
    assert look(tmp_path, "work/b.pt") is None


def test_what_lies_in_a_match_is_part_of_it(tmp_path: Path) -> None:
    put(tmp_path, "work/checkpoint-5/a.pt", 5)
    put(tmp_path, "work/checkpoint-5/.metadata", 7)
    (match,) = find(tmp_path, ["**", "*"]).matches
    assert match.name == "work/checkpoint-5"
    assert match.modified_ns == 7_000_000_000
    assert [file.name for file in match.files] == [
        "work/checkpoint-5/.metadata",
        "work/checkpoint-5/a.pt",
    ]


def test_a_match_changes_with_each_of_its_files(tmp_path: Path) -> None:
    path = put(tmp_path, "work/c/a.pt")
    seen = set()
    for change in (
        lambda: None,
        lambda: put(tmp_path, "work/c/a.pt", 1, b"xy"),
        lambda: os.utime(path, (2, 2)),
        lambda: put(tmp_path, "work/c/b.pt"),
        lambda: path.unlink(),
    ):
        change()
        (match,) = find(tmp_path, ["c"]).matches
        seen.add(match.signature)
    assert len(seen) == 5


def test_a_pattern_that_fits_everything_costs_no_more_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "MOST_MATCHES", 3)
    for number in range(9):
        put(tmp_path, f"work/{number}.pt", number)
    some = find(tmp_path, ["*"])
    assert [match.name for match in some.matches] == ["work/6.pt", "work/7.pt", "work/8.pt"]
    assert "9 files and directories match" in some.cut
    monkeypatch.setattr(patterns, "MOST_NAMES", 5)
    assert "more than 5 names" in find(tmp_path, ["**"]).cut
    monkeypatch.setattr(patterns, "MOST_NAMES", 50)
    monkeypatch.setattr(patterns, "MOST_FILES", 5)
    for number in range(9):
        put(tmp_path, f"output/all/{number}")
    assert "'output/all' has more than 5 files" in find(tmp_path, ["all"]).cut


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("work/checkpoint-500", 500),
        ("work/global_step500", 500),
        ("work/epoch=2-step=1500.ckpt", 1500),
        ("work/step_1500_epoch_2.pt", 1500),
        ("work/snapshot_3.pt", 3),
        ("work/ckpt.00012.pt", 12),
        ("work/model_12.safetensors", 12),
        ("work/500", 500),
        ("work/run-7.pt", 7),
        ("work/epoch=01-val_loss=0.32.ckpt", 1),
        ("work/best-0.32.pt", None),
        ("work/snapshot.pt", None),
        ("work/llama3.pt", None),
        ("work/2024/snapshot.pt", None),
        ("work/" + "9" * 40 + ".pt", None),
    ],
)
def test_the_step_that_a_name_says(name: str, step: int | None) -> None:
    assert step_in(name) == step


def test_series_have_directories_of_their_own_with_plain_names() -> None:
    names = ["work/checkpoint-N", "work/checkpoint N", "work/checkpoint/N", "work/" + "n" * 300]
    stores = [store_name(name) for name in names]
    assert len({*stores}) == 4
    assert all("/" not in store and " " not in store and len(store) < 100 for store in stores)
