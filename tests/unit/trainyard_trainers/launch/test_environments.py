"""A job's Python environment is built once, never used half built, and its failures have words."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from trainyard_trainers.launch import environments
from trainyard_trainers.launch.allocation import Job
from trainyard_trainers.launch.environments import EnvironmentFailed, Wanted

#: Without requirements nothing is fetched from anywhere.
EMPTY = Wanted.of({"kind": "venv", "requirements": []})
ASK = """
import sys
from pathlib import Path
from trainyard_trainers.launch import environments
wanted = environments.Wanted.of({"kind": "venv", "requirements": []})
print(environments.ready(Path(sys.argv[1]), wanted))
"""


@pytest.mark.real
def test_two_that_ask_at_once_build_once_over_what_was_left_half_built(tmp_path: Path) -> None:
    half = tmp_path / EMPTY.name / "bin"
    half.mkdir(parents=True)
    (half / "python").write_text("#!/bin/sh\nexit 1\n")
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ASK, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0].splitlines() for process in asking]
    python = tmp_path / EMPTY.name / "bin" / "python"
    assert [lines[-1] for lines in said] == [str(python)] * 2
    assert sum("building venv environment" in line for lines in said for line in lines) == 1
    seen = subprocess.run(
        [python, "-c", "import pytest; print(pytest.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.strip() == pytest.__file__, "it sees what the cluster's environment has"
    assert json.loads((tmp_path / EMPTY.name / environments.STAMP).read_text())["kind"] == "venv"
    assert environments.ready(tmp_path, EMPTY) == python


def packages_of(python: Path) -> Path:
    return next(python.parent.parent.glob("lib/python3*/site-packages"))


def printed_by(python: Path, program: str) -> list[str]:
    done = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Interpreters of three environments: a job's, the cluster's below it, the image's below."""
    pythons: list[Path] = []
    for name in ("image", "cluster", "job"):
        path = tmp_path_factory.mktemp("chain") / name
        venv.create(path, with_pip=False, symlinks=True)
        pythons.insert(0, path / "bin" / "python")
        if len(pythons) > 1:
            environments.see(str(pythons[1]), pythons[0])
    return pythons


@pytest.mark.real
def test_an_environment_sees_what_its_base_sees_and_its_own_packages_come_first(
    chain: list[Path],
) -> None:
    job, cluster, image = (packages_of(python) for python in chain)
    for place in (job, cluster, image):
        where = place.parents[2].name
        (place / f"only_{where}.py").write_text(f"NAME = {where!r}\n")
        (place / "torch.py").write_text(f"VERSION = {where!r}\n")
        portion = place / "company" / where
        portion.mkdir(parents=True)
        (portion / "__init__.py").write_text("")
    (job / "torch.py").unlink()
    names = "only_job, only_cluster, only_image"
    assert printed_by(
        chain[0],
        f"import {names}, torch, company.job, company.cluster, company.image\n"
        f"print(*(module.NAME for module in ({names})), torch.VERSION)",
    ) == ["job cluster image cluster"]


@pytest.mark.real
def test_what_is_installed_editable_in_a_base_is_seen(chain: list[Path], tmp_path: Path) -> None:
    image = packages_of(chain[2])
    (tmp_path / "by_path").mkdir()
    (tmp_path / "by_path" / "editable_by_path.py").write_text("")
    (image / "__editable__.one.pth").write_text(f"{tmp_path / 'by_path'}\n")
    (image / "_finder.py").write_text(
        "import importlib.machinery, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'editable_by_finder':\n"
        "            return importlib.machinery.ModuleSpec(name, None, is_package=True)\n"
        "sys.meta_path.append(Finder())\n"
    )
    (image / "__editable__.two.pth").write_text("import _finder\n")
    assert printed_by(chain[0], "import editable_by_path, editable_by_finder; print('both')") == [
        "both"
    ]


def test_another_kind_version_base_or_requirement_is_another_environment_and_order_is_none() -> (
    None
):
    first = {"kind": "venv", "requirements": ["a==1", "b"]}
    others = [
        {**first, "kind": "uv"},
        {**first, "python": "3.9"},
        {**first, "requirements": ["a==1"]},
    ]
    names = {Wanted.of(document).name for document in (first, *others)} | {
        Wanted.of(first, base="/usr/bin/python3").name
    }
    assert len(names) == 5
    assert Wanted.of(first).name == Wanted.of({**first, "requirements": ["b", "a==1"]}).name


@pytest.mark.parametrize("kind", ["uv", "conda"])
def test_a_tool_that_the_node_lacks_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(environments, f"{kind.upper()}_HOMES", ())
    with pytest.raises(
        EnvironmentFailed,
        match=f"kind is '{kind}', but no {kind} is installed on this node; "
        "use 'venv', or an image with",
    ):
        environments.ready(tmp_path, Wanted.of({"kind": kind, "requirements": ["x"]}))
    assert not list(tmp_path.glob(f"*/{environments.STAMP}"))


def test_an_interval_that_is_automatic_reaches_the_job(tmp_path: Path) -> None:
    document = {
        "runId": "run-x",
        "attempt": 1,
        "program": ["a.py"],
        "checkpointEverySeconds": "auto",
        "secondsBetweenFailures": 3600.0,
    }
    variables = Job(tmp_path / "run" / "attempts" / "1", document).environment()
    assert variables["TRAINYARD_CHECKPOINT_EVERY_SECONDS"] == "auto"
    assert variables["TRAINYARD_SECONDS_BETWEEN_FAILURES"] == "3600.0"


@pytest.mark.real
def test_an_environment_is_made_and_filled_without_ensurepip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HyperPod's image has none: pip then runs from the wheel that travels with the library."""
    import ensurepip

    (wheel,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    monkeypatch.setattr(environments, "pip_wheel", lambda: wheel)
    package = tmp_path / "source"
    package.mkdir()
    (package / "tiny.py").write_text("ANSWER = 42\n")
    packed = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(package / "tiny.py", "tiny.py")
        archive.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("tiny-1.0.dist-info/RECORD", "")
    path = tmp_path / "env"
    environments.make("venv", path, base=sys.executable, version="3.11")
    python = path / "bin" / "python"
    assert (
        subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode
        == 1
    )
    environments.install("venv", python, [str(packed)])
    assert (
        subprocess.run(
            [python, "-c", "import tiny; print(tiny.ANSWER)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        == "42\n"
    )
