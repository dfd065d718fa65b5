"""What a resume takes is told as a multiple of what nobody can do without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import resume_start

ROUND = {"importTorch": 1.0, "read": 1.0, "plain": 3.0, "resume": 4.0, "firstStep": 5.0}


def test_the_ratio_is_of_the_rounds_medians(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resume_start, "ROOT", tmp_path)
    (tmp_path / "build/bench").mkdir(parents=True)
    resume_start.report([ROUND, {**ROUND, "resume": 400.0}, ROUND], 77)
    found = json.loads((tmp_path / "build/bench/resume_start.json").read_text())
    assert (found["ratio"], found["resumeSeconds"], found["checkpointBytes"]) == (2.0, 4.0, 77)
    assert "A resume takes 2.00 times" in capsys.readouterr().out
