"""The agent comes to a node of others: claimed, listed, then installed; and asked again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lifecycle import LIFECYCLE, a_node, on_aws
from tests.support.waiting import eventually

OWNER = "trainyard/test/theirs/1"
SOURCE = "s3://sagemaker-x/clusters/theirs/1/lifecycle"
THEIRS = {"sharedFilesystem": None, "sharedPath": "/fsx", "slurmSetup": "Adopted"}
#: In the place of AWS's command line: the bundle is a directory.
AWS = """#!/bin/bash
[[ -e $BUNDLE ]] || { echo "fatal error: An error occurred (403) when calling GetObject" >&2; exit 1; }
cp -R "$BUNDLE" "$6"
"""  # noqa: E501
ADOPT = """
import os, sys, time
root = os.environ["TRAINYARD_ROOT"]
os.makedirs(root + "/etc/trainyard", exist_ok=True)
os.makedirs(root + "/var/run/trainyard", exist_ok=True)
with open(root + "/ran", "a") as ran:
    ran.write("once\\n")
while os.path.exists(root + "/hold"):
    time.sleep(0.02)
if os.path.exists(root + "/fails"):
    print("[trainyard] FAILED in step 'rights': the \\"role\\" lacks ReportFacts")
    sys.exit(1)
open(root + "/etc/trainyard/agent.json", "w").write("{}")
open(root + "/var/run/trainyard/agent-process.pid", "w").write("1")
"""


class Installing:
    """adopt_node.sh on a node, with its bundle and AWS's command line."""

    def __init__(self, directory: Path) -> None:
        self.root, self.bundle = directory / "root", directory / "bundle"
        programs = directory / "bin"
        for path in (self.root, self.bundle, programs):
            path.mkdir()
        (programs / "aws").write_text(AWS)
        (programs / "aws").chmod(0o755)
        (self.bundle / "adopt.py").write_text(ADOPT)
        self.environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "BUNDLE": str(self.bundle),
            "TRAINYARD_ROOT": str(self.root),
            "TRAINYARD_PYTHON": sys.executable,
        }

    def ask(self, owner: str = OWNER, source: str = SOURCE) -> dict[str, Any]:
        script = (LIFECYCLE / "adopt_node.sh").read_text()
        done = subprocess.run(
            ["bash", "-s", "--", source, owner],
            input=script,
            capture_output=True,
            text=True,
            env=self.environ,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    @property
    def times(self) -> int:
        ran = self.root / "ran"
        return len(ran.read_text().splitlines()) if ran.exists() else 0


@pytest.fixture
def installing(tmp_path: Path) -> Installing:
    return Installing(tmp_path)


@pytest.mark.real
def test_a_node_is_claimed_and_installed_once(installing: Installing) -> None:
    assert installing.ask() == {"state": "installed", "reason": ""}
    assert (installing.root / "opt/trainyard/adopted-by").read_text() == OWNER + "\n"
    assert installing.ask() == {"state": "installed", "reason": ""}
    assert installing.times == 1


@pytest.mark.real
def test_an_agent_that_does_not_run_any_more_is_installed_again(installing: Installing) -> None:
    installing.ask()
    (installing.root / "var/run/trainyard/agent-process.pid").unlink()
    assert installing.ask()["state"] == "installed"
    assert installing.times == 2


@pytest.mark.real
def test_why_it_failed_is_told_and_the_next_time_it_is_tried_again(installing: Installing) -> None:
    (installing.root / "fails").touch()
    answer = installing.ask()
    assert answer["state"] == "failed"
    assert "step 'rights': the role lacks ReportFacts" in answer["reason"]
    (installing.root / "fails").unlink()
    assert installing.ask()["state"] == "installed"


@pytest.mark.real
def test_a_bundle_that_may_not_be_read_is_told_in_awss_words(installing: Installing) -> None:
    installing.environ["BUNDLE"] = "/nowhere"
    answer = installing.ask()
    assert answer["state"] == "failed"
    assert "403" in answer["reason"]
    assert not (installing.root / "etc/trainyard").exists()


@pytest.mark.real
def test_two_sessions_at_once_install_once(installing: Installing) -> None:
    (installing.root / "hold").touch()
    script = (LIFECYCLE / "adopt_node.sh").read_text()
    both = [
        subprocess.Popen(
            ["bash", "-s", "--", SOURCE, OWNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=installing.environ,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdin is not None
        process.stdin.write(script)
        process.stdin.close()
    eventually("one installs", lambda: installing.times)
    (installing.root / "hold").unlink()
    for process in both:
        assert process.stdout is not None
        assert '"installed"' in process.stdout.read()
        process.wait()
        process.stdout.close()
    assert installing.times == 1


@pytest.mark.real
def test_a_node_of_another_adoption_or_of_a_cluster_of_ours_is_left_alone(
    installing: Installing, tmp_path: Path
) -> None:
    installing.ask()
    answer = installing.ask("trainyard/other/theirs/1")
    assert answer["state"] == "taken"
    assert OWNER in answer["reason"]
    other = tmp_path / "other"
    other.mkdir()
    ours = Installing(other)
    (ours.root / "etc/trainyard").mkdir(parents=True)
    assert ours.ask()["state"] == "taken"
    assert not (ours.root / "opt/trainyard").exists()


@pytest.mark.real
def test_a_claim_that_was_cut_off_is_made_again(installing: Installing) -> None:
    (installing.root / "opt/trainyard").mkdir(parents=True)
    (installing.root / "opt/trainyard/adopted-by").touch()
    assert installing.ask()["state"] == "installed"


@pytest.mark.real
def test_words_that_are_no_source_are_refused(installing: Installing) -> None:
    assert installing.ask(source="here")["state"] == "failed"
    assert not (installing.root / "opt").exists()


def test_everything_that_will_be_there_is_listed_first_with_what_removes_it(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, **THEIRS)
    names = [name for name, _ in scripts.adopt.STEPS]
    assert names[0] == "list of what is installed"
    scripts.adopt.listed(node)
    content = json.loads(node.path("/opt/trainyard/installed.json").read_text())
    assert "/etc/trainyard" in content["directories"]
    assert "/var/run/trainyard-boot" in content["files"]
    assert node.path("/opt/trainyard/take_back.py").exists()
    scripts.adopt.listed(node)  # again


def test_what_is_there_already_and_no_adoption_made_is_not_taken_over(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, **THEIRS)
    node.write("/etc/systemd/system/trainyard.slice", "")
    with pytest.raises(scripts.node.StepFailed, match=r"trainyard\.slice is there already"):
        scripts.adopt.listed(node)
    assert not node.path("/opt/trainyard").exists()


def test_slurm_and_the_programs_of_the_node_are_left_as_they_are(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5", **THEIRS)
    conf = Path(node.environ["SLURM_CONF"]).read_text()
    scripts.step_install.agent(node)
    config = scripts.step_install.agent_config(node)
    assert (config["jobEndHook"], config["nodesComeAndGo"]) == (None, False)
    assert Path(node.environ["SLURM_CONF"]).read_text() == conf
    assert not any("slurm" in name for name, _ in scripts.adopt.STEPS)
    assert (node.path("/etc/trainyard/slurm-setup")).read_text() == "Adopted\n"


def test_a_shared_directory_must_be_on_a_mounted_filesystem(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    team = tmp_path / "fsx" / "team"
    team.mkdir(parents=True)
    node = on_aws(scripts, tmp_path, bundle, **{**THEIRS, "sharedPath": str(team)})
    mounted = {str(team.parent), "/"}
    monkeypatch.setattr(scripts.adopt.os.path, "ismount", lambda path: str(path) in mounted)
    scripts.adopt.shared_directory(node)
    mounted.remove(str(team.parent))
    with pytest.raises(scripts.node.StepFailed, match="give another sharedDir"):
        scripts.adopt.shared_directory(node)
