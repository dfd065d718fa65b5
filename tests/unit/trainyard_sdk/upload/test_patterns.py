"""Lines of a .gitignore mean what they mean to git."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from trainyard_sdk.upload.patterns import decision, parse
from trainyard_sdk.upload.scan import scan


@pytest.mark.parametrize(
    ("lines", "path", "ignored"),
    [
        ("*.pt", "a/b/model.pt", True),
        ("/*.pt", "a/model.pt", None),
        ("/*.pt", "model.pt", True),
        ("a/b", "a/b", True),
        ("a/b", "x/a/b", None),
        ("**/b", "x/a/b", True),
        ("**/b", "b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**", "a/x/y", True),
        ("a/**", "a", None),
        ("a**/b", "ax/y/b", None),
        ("build/", "build", None),
        ("*.pt\n!best.pt", "best.pt", False),
        ("!best.pt\n*.pt", "best.pt", True),
        ("# no\n\\#yes", "#yes", True),
        ("\\!yes", "!yes", True),
        ("name ", "name", True),
        ("name\\ ", "name ", True),
        ("name\r\nother", "name", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", None),
        ("[^a-c]x", "dx", True),
        ("[]]x", "]x", True),
        ("[a\\]]x", "]x", True),
        ("[[:digit:]]x", "7x", True),
        ("[[:nope:]]x", "nx", None),
        ("[a", "[a", None),
        ("[/]x", "/x", None),
        ("back\\", "back\\", None),
        ("?x", "éx", None),  # git counts bytes
        ("/", "anything", None),
        ("!", "anything", None),
        ("", "anything", None),
        ("\ufeffname", "name", True),
    ],
)
def test_a_line_says_of_a_file_what_git_says(lines: str, path: str, ignored: bool | None) -> None:
    assert decision(parse(lines.encode()), path.encode(), directory=False) is ignored


def test_a_line_with_a_slash_at_its_end_is_about_directories() -> None:
    rules = parse(b"build/")
    assert decision(rules, b"a/build", directory=True) is True
    assert decision(rules, b"a/build", directory=False) is None


NAMES = ["a", "b", "ab", "x.pt", "y.pt", "data", "é", "[a]"]
LINES = [
    "a", "b/", "/a", "/data/", "*.pt", "!x.pt", "!a/", "!data", "data/*", "!data/a", "**/b", "a/**",
    "a/**/b", "/*", "!/a", "*", "!*/", "!*.pt", "?", "[ab]", "[!a]", "\\[a\\]", "data/**/x.pt",
    "!data/**", "# a", "", "ab ", "é", "a*b", "**", "!**/x.pt", "/**/a", "***/b", "a/*/b",
]  # fmt: skip


def _grow(directory: Path, chance: random.Random, depth: int) -> None:
    directory.mkdir()
    if chance.random() < 0.6:
        lines = chance.choices(LINES, k=chance.randint(1, 4))
        (directory / ".gitignore").write_text("\n".join(lines) + "\n")
    for name in chance.sample(NAMES, k=chance.randint(1, len(NAMES))):
        if depth and chance.random() < 0.45:
            _grow(directory / name, chance, depth - 1)
        else:
            (directory / name).write_text("")


@pytest.mark.real
def test_of_many_directories_the_same_files_go_up_that_git_would_add(tmp_path: Path) -> None:
    chance = random.Random(20261123)
    for case in range(60):
        _grow(tmp_path / f"case{case}", chance, 2)

    def git(*arguments: str) -> bytes:
        command = ["git", "-c", "core.quotePath=false", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout

    git("init", "-q")
    listed = git("ls-files", "--others", "--exclude-standard", "-z").decode().split("\0")
    ours = [entry.path for entry in scan(tmp_path).files]
    assert sorted(ours) == sorted(filter(None, listed))
    assert len(ours) > 100
