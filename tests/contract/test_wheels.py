"""What users install is one wheel: the command, the SDK and the contracts, and nothing else."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
import tomllib
from scripts import wheels
from tests.support import fresh_environment
from tests.support.repository import ROOT

PACKAGES = {"trainyard_cli", "trainyard_sdk", "trainyard_contracts"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    assert wheels.main([str(place)]) == 0
    return place


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("trainyard-[0-9]*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment with the wheel."""
    declared = fresh_environment.requirements(
        PathDistribution(zipfile.Path(wheel, "trainyard-0.1.0.dist-info/"))
    )
    return fresh_environment.made(tmp_path_factory.mktemp("fresh") / "venv", wheel, declared)


def said(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env={})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_has_three_packages_whole_and_nothing_of_lambda_nodes_or_the_local_cloud(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name) for name in archive.namelist()}
    code = {name for name in names if not name.parts[0].endswith(".dist-info")}
    assert {name.parts[0] for name in code} == PACKAGES
    for folder in (
        "cli/trainyard_cli",
        "cli/trainyard_sdk",
        "layers/contracts/trainyard_contracts",
    ):
        sources = {
            path.relative_to((ROOT / folder).parent) for path in (ROOT / folder).rglob("*.py")
        }
        assert sources <= code
        assert Path(folder).joinpath("py.typed").relative_to(Path(folder).parent) in code


def test_it_shows_its_version_where_only_what_it_declares_is_installed(programs: Path) -> None:
    assert said(programs / "trainyard", "--version") == "trainyard 0.1.0\n"


def test_every_module_of_it_imports_there(programs: Path) -> None:
    script = (
        "import importlib, pkgutil\n"
        f"for name in {sorted(PACKAGES)}:\n"
        "    path = importlib.import_module(name).__path__\n"
        "    for found in pkgutil.walk_packages(path, name + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "print('all')"
    )
    assert said(programs / "python", "-c", script) == "all\n"


def test_a_program_that_imports_the_sdk_loads_no_part_of_the_command(programs: Path) -> None:
    script = (
        "import sys, trainyard_sdk; print(sorted({'typer', 'rich', 'boto3'} & set(sys.modules)))"
    )
    assert said(programs / "python", "-c", script) == "[]\n"


def test_the_local_cloud_is_an_extra_whose_absence_is_said(programs: Path) -> None:
    done = subprocess.run(
        [programs / "trainyard", "local", "status"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "trainyard[local]" in done.stderr


def test_the_extra_asks_for_wheels_that_are_built_with_it(built: Path, wheel: Path) -> None:
    found = PathDistribution(zipfile.Path(wheel, "trainyard-0.1.0.dist-info/"))
    plain = set(fresh_environment.requirements(found))
    extra = set(fresh_environment.requirements(found, "local")) - plain
    names = {path.name.partition("-")[0].replace("_", "-") for path in built.glob("*.whl")}
    assert extra == {"trainyard-local"} <= names


def test_the_same_sources_are_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    wheels.build("trainyard", tmp_path)
    again = tmp_path / wheel.name
    assert (
        hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()
    )


def test_every_package_of_the_clone_has_the_version_of_the_wheel() -> None:
    found = {
        str(path.relative_to(ROOT)): tomllib.loads(path.read_text())["project"]["version"]
        for folder in (".", "cli", "layers/*", "localcloud", "localcloud/sam_on_moto", "node_agent")
        for path in ROOT.glob(f"{folder}/pyproject.toml")
    }
    assert len(found) >= 6
    assert set(found.values()) == {"0.1.0"}
