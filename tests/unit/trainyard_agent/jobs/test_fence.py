"""The fence: it only rises, and no older attempt commits behind it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trainyard_agent.jobs.fence import FenceBusy, Fenced, raise_fence, read_fence


def test_the_fence_only_rises(tmp_path: Path) -> None:
    raise_fence(tmp_path, 1)
    raise_fence(tmp_path, 3)
    raise_fence(tmp_path, 3)
    with pytest.raises(Fenced, match="attempt 3"):
        raise_fence(tmp_path, 2)
    assert read_fence(tmp_path) == 3


@pytest.mark.parametrize("torn", [b"", b"\xff\xfe", b"3x\n", b"9" * 5000])
def test_a_torn_fence_is_raised_all_the_same_and_lets_no_older_attempt_in(
    tmp_path: Path, torn: bytes
) -> None:
    (tmp_path / "attempts" / "3").mkdir(parents=True)
    (tmp_path / "fence").write_bytes(torn)
    with pytest.raises(Fenced, match="attempt 3"):
        raise_fence(tmp_path, 2)
    assert (tmp_path / "fence").read_bytes() == torn
    raise_fence(tmp_path, 3)
    assert (tmp_path / "fence").read_text() == "3\n"


@pytest.mark.parametrize("name", ["fence", "fence.lock"])
def test_a_directory_in_the_fences_place_is_kept_under_another_name_and_ends_no_run(
    tmp_path: Path, name: str
) -> None:
    for attempt in (2, 3, 3):
        (tmp_path / "attempts" / str(attempt)).mkdir(parents=True, exist_ok=True)
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).mkdir()
        (tmp_path / name / "a-programs-own").write_text(f"{attempt}")
        raise_fence(tmp_path, attempt)
        assert (read_fence(tmp_path), (tmp_path / name).is_file()) == (attempt, True)
    kept = sorted(tmp_path.glob(f"{name}.directory-before-attempt-*/a-programs-own"))
    assert [path.read_text() for path in kept] == ["2", "3", "3"]


def test_a_directory_in_the_fences_place_lets_no_older_attempt_in(tmp_path: Path) -> None:
    (tmp_path / "attempts" / "3").mkdir(parents=True)
    (tmp_path / "fence").mkdir()
    with pytest.raises(Fenced, match="attempt 3"):
        raise_fence(tmp_path, 2)
    assert (tmp_path / "fence").is_dir()


def test_a_commit_in_progress_is_waited_for_and_a_stuck_one_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    from trainyard_agent.jobs import fence

    holder = (tmp_path / "fence.lock").open("a")
    fcntl.flock(holder, fcntl.LOCK_EX)
    monkeypatch.setattr(fence, "LOCK_SECONDS", 0.05)
    with pytest.raises(FenceBusy):
        raise_fence(tmp_path, 1)
    monkeypatch.setattr(fence, "LOCK_SECONDS", 5)
    threading.Timer(0.05, holder.close).start()
    raise_fence(tmp_path, 1)
    assert read_fence(tmp_path) == 1
