"""The archive of the nodes has all that the agent imports, on each Python of their images."""

from __future__ import annotations

import os
import platform
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.machines.conftest import PACKAGES
from tests.support.repository import ROOT

pytestmark = pytest.mark.machines
IMPORT_ALL = """
import importlib, pkgutil, trainyard_agent, trainyard_contracts
for package in (trainyard_contracts, trainyard_agent):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
"""


def interpreter(version: str) -> Path:
    """Of the system or of pyenv; the test is skipped where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    known = [
        *pyenv.glob(f"versions/{version}.*/bin/python3"),
        *(Path(place, f"python{version}") for place in ("/usr/bin", "/usr/local/bin")),
    ]
    for path in known:
        if path.is_file():
            return path
    pytest.skip(f"there is no Python {version} here")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = PACKAGES.with_name(f"linux-{platform.machine()}.zip")
    unpacked = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(unpacked)
    return unpacked


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12"])
def test_all_of_the_agent_is_imported_from_its_archive(site: Path, version: str) -> None:
    places = [site, ROOT / "node_agent", ROOT / "layers/contracts"]
    done = subprocess.run(
        [interpreter(version), "-S", "-B", "-c", IMPORT_ALL],
        env={"PYTHONPATH": ":".join(map(str, places)), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
