"""`make test-often` counts which tests failed and how, and keeps the output of failed runs only."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from tests.support.repository import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.real

SOMETIMES = """
import pathlib
import pytest

def test_every_second_time():
    seen = pathlib.Path(__file__).with_name("seen")
    times = int(seen.read_text()) if seen.exists() else 0
    seen.write_text(str(times + 1))
    assert times % 2 == 0, "met its race"

def test_always_good():
    pass

@pytest.mark.skip(reason="not here")
def test_left_out():
    pass
"""


@pytest.fixture
def often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("trainyard_often", ROOT / "scripts/often.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look there
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which take most of its time
    return module


def test_what_failed_how_often_and_how(
    often: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_sometimes.py").write_text(SOMETIMES)
    assert often.main(["test_sometimes.py", "--times", "4"]) == 1
    table = capsys.readouterr().out.split("\n\n")[1]
    assert "2 of 4 repetitions failed" in table
    assert "  2 of   4  test_sometimes.py::test_every_second_time" in table
    assert "2 x AssertionError: met its race" in table
    assert "always_good" not in table
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "2.log",
        "2.xml",
        "4.log",
        "4.xml",
    ]


def test_nothing_failed(
    often: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_good.py").write_text("def test_good():\n    pass\n")
    assert often.main(["test_good.py", "--times", "2"]) == 0
    assert "no failure in 2 tests" in capsys.readouterr().out


def test_pytest_that_cannot_run_is_a_failure(
    often: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert often.main(["test_not_there.py", "--times", "1"]) == 1
    assert "(pytest)" in capsys.readouterr().out


def test_the_cores_are_burnt_while_the_tests_run_and_not_longer(
    often: ModuleType, tmp_path: Path
) -> None:
    def burning() -> list[psutil.Process]:
        below = psutil.Process().children()
        return [one for one in below if "getppid" in " ".join(one.cmdline())]

    with often.busy(2):
        eventually("both are started", lambda: len(burning()) == 2)
    assert burning() == []


def test_what_burns_the_cores_ends_with_its_starter(often: ModuleType) -> None:
    another = "1" if os.getpid() != 1 else "2"
    left = subprocess.Popen([sys.executable, "-c", often._BURN, another])
    assert left.wait(120) == 0
