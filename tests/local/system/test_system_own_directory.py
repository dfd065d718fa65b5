"""A directory goes up by the command, runs as it is, and its results come down by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System

from trainyard_cli import main

#: It reads its own files, keeps what it makes beside them, and imports a module of its own.
PROGRAM = """
import os, pathlib
from package.words import WORD

data = pathlib.Path("data/input.txt").read_text()
pathlib.Path("made.txt").write_text(WORD + data)
out = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
(out / "model.bin").write_bytes(bytes(range(256)) * 4096)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "project"
    for path, text in {
        "train.py": PROGRAM,
        "package/__init__.py": "",
        "package/words.py": "WORD = 'read: '\n",
        "data/input.txt": "data",
        "left/out.txt": "private",
        ".gitignore": "left/\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    spec = {
        "name": "own-directory",
        "cluster": {"spec": cluster_spec("own-directory")},
        "job": {"recipe": "command", "nodes": 1, "workdir": ".", "script": "train.py"},
    }
    (root / "spec.json").write_text(json.dumps(spec))
    return root


def trainyard(system: System, capsys: pytest.CaptureFixture[str], *arguments: str) -> Json:
    code = main.run(["--state-dir", str(system.state_dir), "--json", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured
    found: Json = json.loads(captured.out)
    return found


def test_a_directory_goes_up_runs_and_its_results_come_down(
    system: System, project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_id = trainyard(system, capsys, "run", "submit", str(project / "spec.json"))["id"]
    run = system.ended(run_id, "Succeeded")
    assert run["export"]["uri"].startswith(f"s3://{system.local['bucket']}/")

    listed = trainyard(system, capsys, "run", "outputs", run_id)
    assert "output/model.bin" in {found["key"] for found in listed["outputs"]}
    to = tmp_path / "results"
    trainyard(system, capsys, "run", "download", run_id, "--to", str(to))
    assert (to / "output/model.bin").read_bytes() == bytes(range(256)) * 4096
    made = list(to.rglob("made.txt"))
    assert [path.read_text() for path in made] == ["read: data"]
    assert not list(to.rglob("out.txt"))
    # Nothing is up twice, and nothing comes down twice.
    again = trainyard(system, capsys, "run", "submit", str(project / "spec.json"), "--dryrun")
    assert again["upload"]["sentPacks"] == 0
    assert trainyard(system, capsys, "run", "download", run_id, "--to", str(to))["downloaded"] == []
