"""A newcomer's first hour, typed as the pages say it, on a local cloud with real nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.page_commands import USE, Command, File, steps
from tests.support.repository import ROOT

#: Ends a hang; the commands themselves wait for what they start.
BOUND_SECONDS = 300
#: The longer run of the quickstart is broken in tests/local/system and in the demo.
UNTIL = "trainyard run download latest final --to results"


class Newcomer:
    """Types in a directory that has the repository's examples and template."""

    def __init__(self, home: Path) -> None:
        self.where = home
        for name in ("examples", "template.yaml"):
            (home / name).symlink_to(ROOT / name)
        settings = {"TRAINYARD_STATE_DIR": str(home / ".trainyard"), "XDG_CACHE_HOME": str(home)}
        settings |= {"TRAINYARD_CONFIG": str(home / "contexts.json"), "COLUMNS": "120"}
        settings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        left_out = ("TRAINYARD_API_URL", "TRAINYARD_CONTEXT")
        inherited = {name: value for name, value in os.environ.items() if name not in left_out}
        self.environment = {**inherited, **settings}

    def types(self, line: str) -> str:
        """One line in a shell; the local cloud's own port would meet that of another test."""
        if line == "trainyard local up":
            line = f"trainyard local up --port 0 --template {ROOT / 'template.yaml'}"
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.where,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    one = Newcomer(tmp_path_factory.mktemp("newcomer"))
    yield one
    one.types("trainyard local down --yes")


def test_the_quickstart_trains_and_brings_the_model(newcomer: Newcomer) -> None:
    lines = [step.line for step in steps(USE / "quickstart.md") if isinstance(step, Command)]
    for line in lines[: lines.index(UNTIL) + 1]:
        if line.startswith("trainyard"):
            newcomer.types(line)
    assert list((newcomer.where / "results/final").glob("*.pt"))


@pytest.mark.long
def test_a_script_of_ones_own_trains_and_brings_the_model(newcomer: Newcomer) -> None:
    for step in steps(USE / "own-script.md"):
        if isinstance(step, File):
            (newcomer.where / step.name).write_text(step.text)
        elif step.line.startswith("mkdir"):
            newcomer.types(step.line)
        elif step.words[0] == "cd":
            newcomer.where /= step.words[1]
        elif step.words[0] == "trainyard":
            newcomer.types(step.line)
            if "download" in step.words:
                break
    assert (newcomer.where / "results/final/model.pt").stat().st_size > 0
