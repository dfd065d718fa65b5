"""How the agent gets onto a node and stays there."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import zipfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomllib
from tests.support.lifecycle import LIFECYCLE, a_node, on_aws
from tests.support.repository import ROOT


@pytest.mark.real
def test_the_launcher_takes_its_settings_as_data(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    root = tmp_path / "root"
    node = a_node(scripts, root, bundle)
    node.environ["TRAINYARD_SHARED"] = f"{tmp_path}/$(touch {tmp_path}/pwned)"
    scripts.step_install.agent(node)
    launcher = root / "opt/trainyard/bin/trainyard-agent"
    done = subprocess.run(
        [launcher, "status", "a b;$(id)"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "['status', 'a b;$(id)']\n"
    assert not (tmp_path / "pwned").exists()


def pins(text: str) -> dict[str, str]:
    lines = [line.split("==") for line in text.splitlines() if "==" in line]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


def test_the_agents_packages_are_all_that_it_imports_in_the_tested_versions() -> None:
    packed = pins((LIFECYCLE.parent / "packages.txt").read_text())
    needed = tomllib.loads((LIFECYCLE.parent / "pyproject.toml").read_text())["project"][
        "dependencies"
    ]
    assert {*needed, "pydantic"} - {"trainyard-contracts"} <= set(packed)
    for name in list(packed):
        for line in metadata.requires(name) or []:
            if "extra ==" not in line:
                assert (
                    re.sub(r"[-_.]+", "-", re.split(r"[ <>=!~;(\[]", line)[0]).lower() in packed
                ), f"{name} needs {line}"
    locked = pins((ROOT / "requirements/runtime.txt").read_text())
    assert packed == {name: locked[name] for name in packed}


def test_a_bundle_without_the_agents_packages_says_how_to_build_them(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    with pytest.raises(scripts.node.StepFailed, match="build it with sam build"):
        scripts.step_install.agent_python(on_aws(scripts, tmp_path, bundle))


@pytest.mark.real
def test_the_agents_packages_are_unpacked_whole_or_not_at_all(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = on_aws(scripts, tmp_path, bundle)
    packages = tmp_path / "node/opt/trainyard/packages"
    packages.parent.mkdir(parents=True)
    archive = bundle / "packages" / f"linux-{platform.machine()}.zip"
    archive.parent.mkdir()
    (archive.parent / "pip.whl").write_bytes(b"pip")
    monkeypatch.setattr(
        scripts.node.Node, "path", lambda _node, absolute: tmp_path / "node" / absolute[1:]
    )
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("botocore/__init__.py", "")
        packed.writestr("botocore/session.py", "")
    with pytest.raises(scripts.node.StepFailed, match="psutil"):
        scripts.step_install.agent_python(node)
    with zipfile.ZipFile(archive, "a") as packed:
        for name in ("psutil", "pydantic", "pynvml"):
            packed.writestr(f"{name}.py", "")
    assert scripts.step_install.agent_python(node) == shutil.which("python3")
    assert not packages.with_name("packages.part").exists()
    assert (packages.parent / "pip.whl").read_bytes() == b"pip"
    assert sorted(path.name for path in packages.iterdir() if path.name != "__pycache__") == [
        "botocore",
        "psutil.py",
        "pydantic.py",
        "pynvml.py",
    ]


def test_the_agents_slice_is_a_share_and_no_limit_of_the_controllers_work() -> None:
    """The agent hashes and exports checkpoints: with a quota that would take hours."""
    text = (LIFECYCLE / "trainyard.slice").read_text(encoding="utf-8")
    settings = dict(
        line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Za-z]+=", line)
    )
    assert {"CPUWeight", "IOWeight", "MemoryHigh"} <= settings.keys()
    assert not {"CPUQuota", "MemoryMax"} & settings.keys()


@pytest.mark.parametrize("setup", ["SlurmConfig", "ProvisioningParameters", "BackendsOwn"])
def test_the_agents_unit_requires_the_mount_of_the_shared_filesystem(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    setup: str,
) -> None:
    """Before the mount it would write below the mount point, where nobody finds it again.

    systemd.unit(5), RequiresMountsFor: "Requires= and After= for all mount units required to access
    the specified path".
    """
    node = on_aws(scripts, tmp_path, bundle, slurmSetup=setup)
    below = tmp_path / "node"
    monkeypatch.setattr(scripts.node.Node, "path", lambda _node, absolute: below / absolute[1:])
    monkeypatch.setattr(scripts.step_install, "agent_python", lambda node: "python3")
    monkeypatch.setattr(scripts.step_install, "Path", lambda path: below / path[1:])
    (below / "usr/local/bin").mkdir(parents=True)
    scripts.step_install.agent(node)
    units = below / "etc/systemd/system"
    drop_in = units / "trainyard-agent.service.d/mounts.conf"
    assert drop_in.read_text() == "[Unit]\nRequiresMountsFor=/fsx\n"
    assert (units / "trainyard-agent.service").is_file()


@pytest.mark.real
def test_a_supervised_program_starts_again_until_it_is_stopped(tmp_path: Path) -> None:
    stop, starts = tmp_path / "stop", tmp_path / "starts"
    program = f'echo x >> "{starts}"; [[ $(wc -l < "{starts}") -lt 2 ]] || touch "{stop}"'
    argv = [
        "bash",
        str(LIFECYCLE / "supervise.sh"),
        str(stop),
        str(tmp_path / "pid"),
        str(tmp_path / "log"),
        "bash",
        "-c",
        program,
    ]
    subprocess.run(argv, check=True, timeout=120)
    assert starts.read_text() == "x\nx\n"
    assert not (tmp_path / "pid").exists()
