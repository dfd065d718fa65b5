"""The agent's packages: what is left out of the archive, and that it is the same each time."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from node_agent import build_packages
from node_agent.build_packages import main, pack, pins, wanted, without_constraints

KEPT = [
    "botocore/data/endpoints.json",
    "botocore/session.py",
    "pydantic/__init__.py",
    "pydantic/data/notes.json",
]
LEFT_OUT = [
    "bin/jp.py",
    "botocore/data/sagemaker/2017-07-24/service-2.json.gz",
    "botocore/data/ec2/endpoints.json",
    "pydantic/__pycache__/__init__.pyc",
    "pydantic/tests/test_main.py",
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in KEPT + LEFT_OUT:
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "site"


def test_descriptions_of_services_tests_and_programs_stay_out(site: Path) -> None:
    assert [path.relative_to(site).as_posix() for path in wanted(site)] == KEPT


def test_the_same_packages_are_the_same_bytes_whenever_they_are_packed(
    site: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    pack(site, first)
    for path in site.rglob("*"):
        path.chmod(0o700)
    pack(site, second)
    assert first.read_bytes() == second.read_bytes()
    assert zipfile.ZipFile(first).namelist() == KEPT
    assert not list(tmp_path.glob("*.part"))


def test_every_package_is_pinned_and_what_is_built_for_a_python_is_among_them() -> None:
    named = [pin.partition("==")[0] for pin in pins()]
    assert set(build_packages.PER_PYTHON) <= set(named)
    assert len(set(named)) == len(named)


def test_constraints_of_other_environments_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "runtime.txt")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example")
    found = without_constraints()
    assert "PIP_CONSTRAINT" not in found
    assert found["PIP_INDEX_URL"] == "https://index.example"


def test_without_a_directory_it_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "build_packages.py DIRECTORY" in capsys.readouterr().err
