"""DeepSpeed's exit codes, the locks that it leaves, and what it needs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.launching import allocation

from trainyard_trainers.launch.launchers import CannotLaunch, deepspeed


def test_a_killed_rank_is_known_by_the_code_that_deepspeed_makes_of_it() -> None:
    assert [deepspeed.exit_code(code) for code in (0, 1, 143, 256 - signal.SIGKILL)] == [
        0,
        1,
        143,
        137,
    ]


def test_a_lock_that_a_killed_compiler_left_is_removed_and_anybody_elses_is_not(
    tmp_path: Path,
) -> None:
    given = allocation(tmp_path / "run")
    own = Path(deepspeed.environment(given)["TORCH_EXTENSIONS_DIR"])
    for directory in (own, tmp_path / "shared"):
        (directory / "op").mkdir(parents=True)
        (directory / "op/lock").touch()
        deepspeed.remove_stale_locks(directory, given)
    assert (not (own / "op/lock").exists(), (tmp_path / "shared/op/lock").exists()) == (True, True)


def test_deepspeed_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepspeed.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    with pytest.raises(
        CannotLaunch, match=r"no package deepspeed; add it to job\.pythonEnvironment\.requirements"
    ):
        deepspeed.run(allocation(tmp_path))
