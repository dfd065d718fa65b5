"""`make setup` repairs what it may of a machine, else it prints the one command to run."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.repository import ROOT


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with no program installed and nothing that can be run."""
    spec = importlib.util.spec_from_file_location("trainyard_setup", ROOT / "scripts/setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "missing_slurm", lambda: ["slurmctld", "munged"])
    monkeypatch.setattr(
        module.shutil,
        "which",
        lambda name, path=None: "/usr/bin/apt-get" if name == "apt-get" else None,
    )
    return module


def test_a_user_who_may_not_install_is_told_the_exact_command(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    with pytest.raises(setup.SetupError) as refused:
        setup.ensure_slurm()
    assert "missing: slurmctld, munged" in str(refused.value)
    assert (
        "sudo apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge"
        in str(refused.value)
    )


def test_a_machine_without_apt_is_told_the_same(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup.shutil, "which", lambda name, path=None: None)
    with pytest.raises(setup.SetupError, match="apt-get install"):
        setup.ensure_slurm()


def test_root_installs_without_being_asked_anything(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        monkeypatch.setattr(setup, "missing_slurm", list)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    monkeypatch.setattr(setup.subprocess, "run", run)
    setup.ensure_slurm()
    assert [command[2:4] for command in commands] == [["apt-get", "update"], ["apt-get", "install"]]
    assert all(command[:2] == ["env", "DEBIAN_FRONTEND=noninteractive"] for command in commands)


def test_a_failed_installation_shows_what_apt_said(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess(["apt-get"], 100, "", "E: Unable to locate package slurmd")
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    monkeypatch.setattr(setup.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(setup.SetupError, match="Unable to locate package slurmd"):
        setup.ensure_slurm()


def test_another_lock_or_another_place_is_another_environment(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = setup.fingerprint()
    assert before == setup.fingerprint()
    for member in ("requirements/dev.txt", *(f"{name}/pyproject.toml" for name in setup.MEMBERS)):
        (tmp_path / member).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / member).write_bytes((ROOT / member).read_bytes())
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    moved = setup.fingerprint()
    (tmp_path / "requirements/dev.txt").write_text("pytest==9.9.9\n")
    assert len({before, moved, setup.fingerprint()}) == 3


def test_programs_of_the_trainers_are_asked_for_in_the_same_words(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    with pytest.raises(
        setup.SetupError, match=r"need g\+\+ and mpirun. This user may not install packages"
    ) as refused:
        setup.ensure_programs(setup.TRAINER_PROGRAMS, "the trainers'")
    assert "sudo apt-get install -y --no-install-recommends g++ openmpi-bin" in str(refused.value)


def test_packages_of_the_trainers_leave_torch_and_all_others_alone(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[tuple[str, ...], dict[str, str]]] = []
    monkeypatch.setattr(
        setup, "pip", lambda *words, **environment: asked.append((words, environment))
    )
    setup.install_trainer_packages()
    (first, _), (second, variables) = asked
    assert (first[0], second[:2]) == ("--no-deps", ("--no-deps", "--no-build-isolation"))
    assert [word.partition("==")[0] for word in second[2:]] == ["deepspeed"]
    assert variables == {"DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}
    held = {name(line) for line in lock_lines("dev")}
    assert not held & {name(line) for line in lock_lines("trainers")}, (
        "a package in two locks could have two versions"
    )


def test_the_generator_of_clients_is_installed_alone_and_its_needs_are_locked(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(setup, "pip", lambda *words: asked.append(words))
    setup.install_client_generator()
    assert asked == [("--no-deps", "-r", str(setup.ROOT / "requirements/openapi-client.txt"))]
    held = {name(line) for line in (*lock_lines("dev"), *lock_lines("trainers"))}
    assert not held & {name(line) for line in lock_lines("openapi-client")}


def test_without_a_browser_the_tests_of_the_console_are_left_out_and_it_is_said(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise setup.SetupError("no apt")

    monkeypatch.setattr(setup, "ensure_programs", refuse)
    setup.ensure_browser()
    assert "the tests of the web console are left out: no apt" in capsys.readouterr().out


def test_a_browser_without_npm_leaves_axe_out_and_says_so(
    setup: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(setup, "ensure_programs", lambda *_: None)
    monkeypatch.setattr(setup, "AXE", tmp_path)
    monkeypatch.setattr(setup.shutil, "which", lambda _name: None)
    setup.ensure_browser()
    assert "no axe-core from npm" in capsys.readouterr().out
    (tmp_path / "axe.min.js").touch()
    setup.ensure_browser()
    assert capsys.readouterr().out == ""


def test_a_python_without_headers_gets_those_of_its_version(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(setup, "apt", lambda packages, _why: asked.append(packages))
    monkeypatch.setattr(setup.sysconfig, "get_path", lambda _name: str(tmp_path))
    setup.ensure_headers()
    assert asked == [(f"python3.{setup.sys.version_info.minor}-dev",)]
    (tmp_path / "Python.h").touch()
    setup.ensure_headers()
    assert len(asked) == 1


def test_training_jobs_have_an_environment_of_their_own_with_the_versions_of_the_other_locks(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(setup, "pip_into", lambda *words: asked.append(words))
    setup.install_job_packages()
    lock = str(ROOT / "requirements/training-jobs.txt")
    assert asked == [(ROOT / ".venv-training-jobs", "--no-deps", "-r", lock)]
    others = {name(line): line for lock in ("dev", "trainers") for line in lock_lines(lock)}
    jobs = {name(line): line for line in lock_lines("training-jobs")}
    assert {jobs[key] for key in jobs if key in others} == {
        others[key] for key in jobs if key in others
    }
    assert jobs["torch"] == others["torch"]
    assert jobs["sagemaker-training"] == "sagemaker_training==5.1.4"


def lock_lines(lock: str) -> list[str]:
    return [
        line
        for line in (ROOT / f"requirements/{lock}.txt").read_text().splitlines()
        if not line.startswith("#")
    ]


def name(line: str) -> str:
    return line.partition("==")[0].lower().replace("_", "-").replace(".", "-")


def test_locks_pin_every_package_and_name_no_host() -> None:
    for lock in ("runtime", "dev", "trainers", "training-jobs", "sam"):
        lines = lock_lines(lock)
        assert lines
        for line in lines:
            package, separator, version = line.partition("==")
            assert separator, line
            assert package.replace("-", "").replace("_", "").replace(".", "").isalnum(), line
            assert version, line
            assert "+" not in version, f"{line}: a local version exists on one machine only"
    assert "resolved" not in (ROOT / "requirements/asl/package-lock.json").read_text()
