"""The memory that is left is what the tightest cgroup leaves, of either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard_trainers.checkpoints import staging
from trainyard_trainers.checkpoints.staging import SharedMemory
from trainyard_trainers.common import cgroups

MB = 1 << 20


def of(tmp_path: Path, line: str) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(line + "\n")
    (tmp_path / "cgroup").mkdir()
    return tmp_path


def group(directory: Path, **files: object) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(f"{content}\n")


def free(place: Path) -> int | None:
    return cgroups.free(place / "proc", place / "cgroup")


def test_the_tightest_group_of_version_2_counts_and_what_can_be_dropped_is_free(
    tmp_path: Path,
) -> None:
    place = of(tmp_path, "0::/slurm/job_7/step_0")
    top = place / "cgroup" / "slurm"
    group(top, memory__max="max", memory__current=9000 * MB)
    group(
        top / "job_7",
        memory__max=700 * MB,
        memory__current=500 * MB,
        memory__stat=f"anon 5\nfile 7\ninactive_file {60 * MB}\nactive_file {40 * MB}\nshmem 8",
    )
    group(top / "job_7" / "step_0", memory__max=900 * MB, memory__current=500 * MB)
    assert free(place) == 300 * MB


def test_version_1_is_read_where_its_memory_controller_is_mounted(tmp_path: Path) -> None:
    place = of(tmp_path, "4:cpu:/other\n9:memory:/job_7\n0::/unified")
    group(
        place / "cgroup" / "memory" / "job_7",
        memory__limit_in_bytes=700 * MB,
        memory__usage_in_bytes=500 * MB,
        memory__stat=f"inactive_file 1\ntotal_inactive_file {50 * MB}\ntotal_active_file 0",
    )
    group(
        place / "cgroup" / "memory",
        memory__limit_in_bytes=9223372036854771712,
        memory__usage_in_bytes=1,
    )
    assert free(place) == 250 * MB


def test_a_containers_own_group_may_be_the_uppermost(tmp_path: Path) -> None:
    place = of(tmp_path, "0::/")
    group(place / "cgroup", memory__max=100 * MB, memory__current=30 * MB)
    assert free(place) == 70 * MB


def test_without_limits_or_cgroups_nothing_is_said(tmp_path: Path) -> None:
    place = of(tmp_path, "0::/user")
    assert free(place) is None
    group(place / "cgroup" / "user", memory__max="max", memory__current=1)
    assert free(place) is None
    assert cgroups.free(tmp_path / "none", tmp_path) is None


def test_a_checkpoint_that_the_cgroup_has_no_room_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staging.cgroups, "free", lambda: 3 * MB)
    memory = SharedMemory()
    memory.mapped(2 * MB)
    with pytest.raises(OSError, match=f"and {3 * MB} are free; use asynchronous=false"):
        memory.mapped(6 * MB)
