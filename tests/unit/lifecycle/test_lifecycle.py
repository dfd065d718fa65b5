"""Lifecycle scripts: role by own address, idempotent files, no data in a shell, clear failures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.lifecycle import LIFECYCLE, a_node

from trainyard_contracts.files import AgentConfig


def test_the_agents_configuration_is_the_contracts(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)
    scripts.step_install.configuration(node)
    config = AgentConfig.model_validate_json(
        (tmp_path / "root/etc/trainyard/agent.json").read_bytes()
    )
    assert (config.role, config.node_name, config.link_port) == ("worker", "ip-10-1-0-6", 4990)
    assert config.shared_root == str(tmp_path / "root/shared")
    assert config.heartbeat_seconds == 2


def test_every_step_may_run_again(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    user = {"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA `id` ada"]}
    node = a_node(
        scripts, root, bundle, users=[user], s3Mounts=[{"bucket": "corpus", "mountPath": "/data"}]
    )
    monkeypatch.setattr(scripts.step_install, "read_secret", lambda name, region, environ: "k" * 32)
    assert scripts.lifecycle.run(lambda: node) == 0
    first = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert scripts.lifecycle.run(lambda: node) == 0
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == first
    assert (root / "home/ada/.ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA `id` ada\n"
    assert (root / "etc/trainyard/key").stat().st_mode & 0o777 == 0o600
    assert (root / "fsx").is_symlink()


def test_the_failed_step_is_named_with_its_reason(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)

    def refuse(name: str, region: str, environ: object) -> str:
        raise scripts.node.StepFailed("secret 's' cannot be read")

    monkeypatch.setattr(scripts.step_install, "read_secret", refuse)
    assert scripts.lifecycle.run(lambda: node) == 1
    assert "FAILED in step 'cluster key': secret 's' cannot be read" in capsys.readouterr().out


@pytest.mark.real
def test_what_a_failing_program_says_is_not_lost_behind_its_last_remarks(
    scripts: SimpleNamespace,
) -> None:
    said = (
        "echo 'ERROR: No matching distribution found for torchh' >&2; echo >&2; "
        "echo 'notice: a new release' >&2; echo 'notice: run' >&2; exit 1"
    )
    with pytest.raises(scripts.node.StepFailed, match="No matching distribution found for torchh"):
        scripts.node.command(["sh", "-c", said])


@pytest.mark.real
def test_a_program_that_hangs_or_is_missing_fails_its_step_in_words(
    scripts: SimpleNamespace,
) -> None:
    with pytest.raises(scripts.node.StepFailed, match="'sleep 60' did not end within 0 s"):
        scripts.node.command(["sleep", "60"], timeout=0.05)
    with pytest.raises(scripts.node.StepFailed, match="'no-such-program' is not installed"):
        scripts.node.command(["no-such-program"])


@pytest.mark.real
def test_what_the_scripts_print_is_in_the_file_that_leaves_the_node(tmp_path: Path) -> None:
    services = tmp_path / "opt/trainyard/bin/start-services"
    services.parent.mkdir(parents=True)
    services.write_text("echo services are up\n")
    environment = {
        "PATH": os.environ["PATH"],
        "TRAINYARD_ROOT": str(tmp_path),
        "TRAINYARD_PYTHON": "false",
    }
    done = subprocess.run(
        [str(LIFECYCLE / "on_create.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "services are up" not in done.stdout, "a failed step is the end"
    environment["TRAINYARD_PYTHON"] = "echo"
    subprocess.run(
        [str(LIFECYCLE / "on_create.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    sent = (tmp_path / "var/log/provision/provisioning.log").read_text()
    assert sent.endswith("services are up\n[trainyard] lifecycle finished\n")
    assert sent == (tmp_path / "var/log/trainyard/lifecycle.log").read_text()


class Systemd:
    """start_services.sh on a machine with systemd, whose munge refuses to start `refused` times.

    munged ends at once where it finds no key, and with it `systemctl enable --now munge` (the unit
    is of type forking).
    """

    def __init__(self, directory: Path, role: str, refused: int) -> None:
        self.directory, self.said = directory, directory / "said"
        (directory / "etc/trainyard").mkdir(parents=True)
        for name, text in {
            "role": role, "node-name": "ip-10-1-0-5", "slurm-setup": "ProvisioningParameters",
        }.items():  # fmt: skip
            (directory / "etc/trainyard" / name).write_text(text)
        (directory / "refused").write_text("x\n" * refused)
        self._program(
            "systemctl",
            'echo "$*" >> "$SAID"\n'
            '[[ "$*" == *munge ]] || exit 0\n'
            "[[ -s $REFUSED ]] || exit 0\n"
            'sed -i 1d "$REFUSED"; exit 1\n',
        )
        self._program("sleep", 'echo "sleep $*" >> "$SAID"\n')
        self._program("scontrol", 'echo "scontrol $*" >> "$SAID"\n')

    def _program(self, name: str, body: str) -> None:
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/bash\n" + body)
        path.chmod(0o755)

    def start(self, patience: str = "60") -> subprocess.CompletedProcess[str]:
        """Run the part for systemd, which the script chooses on a machine that booted with it."""
        text = (LIFECYCLE / "start_services.sh").read_text()
        functions, _ = text.rsplit("\nif [[ -z $root && -d /run/systemd/system ]]; then\n", 1)
        functions = functions.replace("SECONDS + 60", f"SECONDS + {patience}")
        environment = {
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}",
            "TRAINYARD_ROOT": str(self.directory),
            "SAID": str(self.said),
            "REFUSED": str(self.directory / "refused"),
        }
        return subprocess.run(
            ["bash", "-c", f"{functions}\nstart_with_systemd\n"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.mark.real
@pytest.mark.parametrize("role", ["controller", "worker", "login"])
def test_munges_key_may_come_after_the_scripts_began(tmp_path: Path, role: str) -> None:
    systemd = Systemd(tmp_path, role, refused=3)
    done = systemd.start()
    assert done.returncode == 0, done.stderr
    said = systemd.said.read_text().splitlines()
    tried = [line for line in said if line.endswith("munge") or line.startswith("sleep")]
    assert tried == ["enable --now munge", "sleep 1"] * 3 + ["enable --now munge"]
    assert said[-1] == "enable --now trainyard-agent"
    daemon = "slurmctld" if role == "controller" else "slurmd"
    slurm = next(at for at, line in enumerate(said) if daemon in line and "mask" not in line)
    assert slurm > said.index("enable --now munge") + 2 * 3, "Slurm starts when munge does"


@pytest.mark.real
def test_a_key_of_munge_that_never_comes_fails_the_node_before_slurm_starts(
    tmp_path: Path,
) -> None:
    systemd = Systemd(tmp_path, "controller", refused=99)
    assert systemd.start(patience="0").returncode != 0
    assert systemd.said.read_text().splitlines()[1:] == ["enable --now munge"]


@pytest.mark.real
def test_scripts_have_unix_line_ends_and_are_strict() -> None:
    for path in LIFECYCLE.iterdir():
        if path.is_file():
            assert b"\r" not in path.read_bytes(), path.name
    for name in ("on_create.sh", "start_services.sh", "trainyard-agent"):
        assert "set -euo pipefail" in (LIFECYCLE / name).read_text()
        assert (LIFECYCLE / name).stat().st_mode & 0o111
    for path in LIFECYCLE.iterdir():
        if path.is_file() and path.read_bytes().startswith(b"#!/bin/bash"):
            subprocess.run(["bash", "-n", str(path)], check=True)
            assert "eval" not in [
                word
                for line in path.read_text().splitlines()
                if not line.lstrip().startswith("#")
                for word in line.split()
            ]
