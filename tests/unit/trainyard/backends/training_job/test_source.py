"""The archive of a container's program: the same bytes everywhere, and all that it needs."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.job_container import sources

from trainyard.backends.training_job import source


def test_the_same_files_give_the_same_bytes_whatever_their_times(tmp_path: Path) -> None:
    made = source.build(sources())
    for path in (tmp_path / "job").rglob("*"):
        path.touch()
    assert source.build(sources()) == made
    assert made.name == f"source-{made.sha256}.tar.gz"


def test_the_archive_holds_the_entry_and_nothing_of_this_machine() -> None:
    with tarfile.open(fileobj=io.BytesIO(source.build(sources()).body), mode="r:gz") as tar:
        members = tar.getmembers()
    names = {member.name for member in members}
    assert {"trainyard_entry.py", "trainyard_job/api.py", "trainyard_contracts/places.py"} <= names
    assert "trainyard_trainers/launch/__main__.py" in names
    assert "trainyard_contracts/files.py" not in names
    assert {(one.uid, one.gid, one.mtime, one.mode) for one in members} == {(0, 0, 0, 0o644)}


@pytest.mark.real
def test_what_is_unpacked_runs_without_pydantic_and_says_what_it_lacks(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(source.build(sources()).body)) as tar:
        tar.extractall(tmp_path, filter="data")
    every = ["pydantic", "trainyard_agent", "torch"]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({every!r}))\n"
        "import trainyard_container.courier_server, trainyard_container.ending\n"
        "import trainyard_container.events, trainyard_container.links\n"
        "import trainyard_container.run_files, trainyard_container.surroundings\n"
        "import trainyard_trainers.launch.node_part\n"
        "from trainyard_container.surroundings import Unfit, read\n"
        "from pathlib import Path\n"
        "try: read({}, Path('nowhere'))\n"
        "except Unfit as unfit: print(unfit)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{program}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "resourceconfig.json cannot be read" in done.stdout, done.stderr


def test_a_missing_layer_is_named(tmp_path: Path) -> None:
    with pytest.raises(source.SourceIncomplete, match="trainers and job library layers"):
        source.build(replace(sources(), trainers=tmp_path))
    with pytest.raises(source.SourceIncomplete):
        source.build(replace(sources(), entry=tmp_path / "trainyard_entry.py"))


def test_the_entrypoint_fits_what_sagemaker_takes() -> None:
    command = source.bootstrap()
    assert all(len(part) <= 256 and "\n" not in part for part in command)
    assert len(command) <= 10
    compile(command[2], "bootstrap", "exec")
