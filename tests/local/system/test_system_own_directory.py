"""A directory goes up by the command, runs as it is, and its results come down by the command."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.repository import ROOT
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


OWN = ROOT / "tests/data/own_project"
#: So much of it is data, which the program reads.
DATA_BYTES = 5 * 1024 * 1024


@pytest.fixture
def persons_project(tmp_path: Path) -> Path:
    """Sixty lines, two modules beside them, a requirement, data, and no word of ours in them."""
    root = tmp_path / "price-of-words"
    shutil.copytree(OWN, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "gitignore").rename(root / ".gitignore")
    words = "".join(path.read_text() for path in root.rglob("*.py"))
    assert "trainyard" not in words.lower()
    (root / "data").mkdir()
    (root / "data/title.txt").write_text("Déjà vu\n", encoding="utf-8")
    (root / "data/numbers.bin").write_bytes(random.Random(7).randbytes(DATA_BYTES))
    return root


def by_hand(root: Path, packages: Path) -> bytes:
    """The model of the same program, as its author runs it there; nobody cleans up after it."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(packages)]
    subprocess.run([*pip, "-r", "requirements.txt"], cwd=root, check=True, timeout=120)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    python = [sys.executable, "train.py"]
    subprocess.run(python, cwd=root, env=environment, check=True, timeout=120)
    return (root / "out/model.json").read_bytes()


def typed(system: System, root: Path, *arguments: str) -> str:
    """What the command prints on both ways for a person in that directory."""
    command = [str(Path(sys.executable).with_name("trainyard")), *arguments]
    environment = {
        **os.environ,
        "TRAINYARD_STATE_DIR": str(system.state_dir),
        "XDG_CACHE_HOME": str(root.parent / "cache"),
        "COLUMNS": "100",
    }
    done = subprocess.run(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}"
    return done.stdout


def test_three_commands_bring_the_model_that_the_program_makes_by_hand(
    system: System, shared: str, persons_project: Path, tmp_path: Path
) -> None:
    expected = by_hand(persons_project, tmp_path / "packages")
    told = typed(system, persons_project, "init")
    assert "It runs train.py: it has a usual name." in told
    watched = typed(system, persons_project, "run", "submit", "trainyard.yaml", "--watch")
    [run] = system.api.runs(at_most=1)
    assert (run["name"], run["status"]) == ("price-of-words", "Succeeded"), watched
    typed(system, persons_project, "run", "download", run["id"])
    results = persons_project / run["id"]
    assert (results / "working/out/model.json").read_bytes() == expected
    assert json.loads(expected)["title"] == "Deja vu"
    left = {str(path.relative_to(results)) for path in results.rglob("*") if path.is_file()}
    # What came with it is no result. Its log says losses, and they are kept.
    reported = {"logs/attempt-1.log", "curves/attempt-1.curves.json"}
    assert left == {".gitignore", "working/out/model.json", *reported}
