"""The recorded demo plays what was shown, in its order, and needs nothing from elsewhere."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from demo import recording
from demo.animation import Line, Scene, animated, drawn
from demo.recording import END, LONGEST, MOST_SCENES, SHORTEST, Recording
from rich.console import Console
from rich.text import Text

SVG = "{http://www.w3.org/2000/svg}"


def shown(text: str) -> tuple[Line, ...]:
    console = Console(file=io.StringIO(), width=40, force_terminal=True)
    return drawn(console, Text.from_markup(text))


def frames(svg: str) -> list[list[str]]:
    """The texts of each scene, from top to bottom."""
    root = ET.fromstring(svg)
    lines = {
        group.get("id"): "".join(text.text or "" for text in group)
        for group in root.iter(f"{SVG}g")
        if group.get("id")
    }
    [strip] = [group for group in root.iter(f"{SVG}g") if group.get("class") == "strip"]
    return [[lines[use.get("href", "")[1:]] for use in scene] for scene in strip]


def test_scenes_are_shown_in_their_order_and_each_line_is_written_once() -> None:
    scenes = [Scene(shown("one\ntwo"), 1), Scene(shown("one\n[bold red]three <&>[/]"), 3)]
    svg = animated(scenes, "title", 40)
    assert frames(svg) == [["one", "two"], ["one", "three <&>"]]
    assert svg.count(">one<") == 1
    assert "animation:play 4.0s step-end infinite" in svg
    assert re.findall(r"([\d.]+)%\{", svg) == ["0.000", "25.000"]


def test_it_plays_on_a_plain_page() -> None:
    svg = animated([Scene(shown("one"), 1)], "title", 40)
    assert "<script" not in svg
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "monospace" in svg
    assert "prefers-reduced-motion" in svg


def test_columns_stand_below_each_other_in_any_font() -> None:
    svg = animated([Scene(shown("[red]wide 日本[/][blue]next[/]"), 1)], "title", 40)
    assert 'x="0" textLength="75.6"' in svg  # nine columns
    assert 'x="75.6"' in svg


def test_a_picture_that_did_not_change_is_no_scene_and_waits_are_shortened() -> None:
    recorded = Recording()
    for at, text in ((0.0, "a"), (1.0, "a"), (60.0, "b"), (60.1, "c")):
        recorded.show(shown(text), at)
    seconds = [scene.seconds for scene in recorded.scenes()]
    assert seconds == pytest.approx([LONGEST, SHORTEST, LONGEST])


def test_a_long_run_has_a_bounded_number_of_scenes() -> None:
    recorded = Recording()
    for number in range(10 * MOST_SCENES):
        recorded.show(shown(str(number)), float(number))
    assert len(recorded.scenes()) == MOST_SCENES


def test_what_is_saved_ends_with_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "picture", lambda snapshot: Text(f"picture of {snapshot}"))
    recorded = Recording()
    recorded.see("one")  # type: ignore[arg-type]
    recorded.save(tmp_path / "a.svg", lambda console: console.print("[green]true"))
    svg = (tmp_path / "a.svg").read_text()
    assert frames(svg) == [["picture of one"], ["true"]]
    assert f"{LONGEST + END:.1f}s" in svg
