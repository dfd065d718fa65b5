"""`make story` as it is: from a form in Slack to the bill in the thread, with Chromium."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.console_browser import CHROMIUM
from tests.support.repository import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make setup-trainers"),
]
PICTURES = ("1-waits-for-people", "2-trains", "3-a-node-is-lost", "4-trains-again", "5-the-end")


def test_each_stage_of_the_story_is_true_and_recorded(tmp_path: Path) -> None:
    told = subprocess.run(
        [
            *(sys.executable, "-m", "demo.one_story"),
            *("--state-dir", tmp_path / "cloud", "--output", tmp_path / "story"),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=660, check=False,
    )  # fmt: skip
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert "NOT TRUE" not in told.stdout
    assert "the thread in Slack says why  (within 5 s)" in told.stdout
    assert "the page in Chromium says why  (within 5 s)" in told.stdout
    recorded = (tmp_path / "story/channel.txt").read_text()
    assert "trained on after" in recorded
    assert "Waste: " in recorded
    for name in PICTURES:
        assert (tmp_path / f"story/{name}.webp").read_bytes()[:4] == b"RIFF"
