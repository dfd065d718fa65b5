"""A cold start's times are medians, and the layers without compiled modules are the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import cold_start


def test_each_time_is_the_samples_median() -> None:
    found = [{"init": value, "firstAnswer": 2 * value, "cpu": 1.0} for value in (10.0, 900.0, 20.0)]
    assert cold_start._medians(found) == {
        "initMilliseconds": 20.0,
        "firstAnswerMilliseconds": 40.0,
        "cpuMilliseconds": 1.0,
    }


def test_only_what_was_compiled_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_start, "WORK", tmp_path / "work")
    for name in ("python/a.py", "python/__pycache__/a.pyc"):
        (tmp_path / "opt" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "opt" / name).touch()
    bare = cold_start.without_compiled(tmp_path / "opt")
    assert [path.name for path in bare.rglob("*") if path.is_file()] == ["a.py"]
