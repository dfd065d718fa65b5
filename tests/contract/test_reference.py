"""Each page of the reference is written by the script or by hand, and the list of pages has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import reference


def test_every_page_is_written_by_somebody(tmp_path: Path) -> None:
    assert reference.strays(reference.DIRECTORY) == []
    (tmp_path / "old.md").write_text(reference.HEAD)
    (tmp_path / "api.md").write_text(reference.HEAD)
    (tmp_path / "layout.md").touch()
    assert reference.strays(tmp_path) == ["old.md"]


def test_a_page_that_nobody_writes_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "DIRECTORY", tmp_path)
    monkeypatch.setattr(reference, "PAGES", {})
    assert reference.main(["--check"]) == 0
    (tmp_path / "old.md").write_text(reference.HEAD)
    assert reference.main(["--check"]) == 1
    assert "old.md: nobody writes it" in capsys.readouterr().out


def test_the_list_of_pages_says_by_whom_each_is_written() -> None:
    text = (reference.DIRECTORY / "README.md").read_text()
    written, by_hand = (
        re.findall(r"^- \[(.+?)\]", part, re.MULTILINE) for part in text.split("Written by hand:")
    )
    assert set(written) == set(reference.PAGES)
    assert {*by_hand, "README.md"} == reference.BY_HAND
