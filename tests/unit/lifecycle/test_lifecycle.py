"""The lifecycle scripts: role by own address, idempotent files, data that never reaches a shell, and failures that say what to do."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import tomllib
from tests.support.repository import ROOT
from tests.support.spec_parts import FILESYSTEM
from tests.support.waiting import eventually

from trainyard_agent.host import slurm_settings
from trainyard_contracts.files import AgentConfig

LIFECYCLE = ROOT / "node_agent" / "lifecycle"
MODULES = (
    "node", "node_facts", "lifecycle", "cluster_secret", "step_accounts", "step_environment", "step_install", "step_mounts", "step_network", "step_slurm",
)  # fmt: skip

CLUSTER = {
    "clusterName": "c", "region": "eu-west-1", "eventBus": "bus", "dataBucket": "sagemaker-x", "secretName": "s",
    "controllerGroup": "ctl", "workerGroups": [{"name": "gpu", "partition": "main"}], "linkPort": 4990, "heartbeatSeconds": 2, "expectedWorkers": 1,
    "sharedFilesystem": {**FILESYSTEM, "mountPath": "/fsx"},
}  # fmt: skip
RESOURCES = {
    "ClusterConfig": {"ClusterName": "c", "ClusterArn": "arn:aws:sagemaker:eu-west-1:123456789012:cluster/abcdefghijkl"},
    "InstanceGroups": [
        {"Name": "ctl", "InstanceType": "ml.m5.large", "Instances": [{"InstanceName": "ctl-1", "CustomerIpAddress": "10.1.0.5", "InstanceId": "i-1"}]},
        {"Name": "gpu", "InstanceType": "ml.p5.48xlarge", "Instances": [
            {"InstanceName": "gpu-1", "CustomerIpAddress": "10.1.0.6", "InstanceId": "i-2"},
            {"InstanceName": "gpu-2", "CustomerIpAddress": "10.1.0.7", "InstanceId": "i-3"}]},
        {"Name": "door", "InstanceType": "ml.m5.large", "Instances": [{"InstanceName": "d-1", "CustomerIpAddress": "10.1.0.8", "InstanceId": "i-4"}]},
    ],
}  # fmt: skip


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The scripts as modules; they are flat files, importable only from their own directory, as on a node."""
    monkeypatch.syspath_prepend(str(LIFECYCLE))
    loaded: dict[str, ModuleType] = {name: __import__(name) for name in MODULES}
    yield SimpleNamespace(**loaded)
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    directory = tmp_path / "bundle"
    (directory / "lib" / "trainyard_agent").mkdir(parents=True)
    (directory / "lib" / "trainyard_agent" / "cli.py").write_text(
        "import sys\ndef main():\n    print(sys.argv[1:])\n    return 0\n"
    )
    (directory / "lib" / "trainyard_agent" / "__init__.py").touch()
    for path in LIFECYCLE.iterdir():
        if path.is_file():
            (directory / path.name).write_bytes(path.read_bytes())
    (directory / "cluster.json").write_text(json.dumps(CLUSTER))
    return directory


def a_node(
    scripts: SimpleNamespace, root: Path, bundle: Path, address: str = "10.1.0.6", **cluster: Any
) -> Any:
    merged = {**CLUSTER, **cluster}
    identity = scripts.node.identify(merged, RESOURCES, {address})
    (root / "opt/slurm/etc").mkdir(parents=True, exist_ok=True)
    conf = root / "opt/slurm/etc/slurm.conf"
    if not conf.exists():
        conf.write_text(
            "SlurmctldHost=ip-10-1-0-5(10.1.0.5)\nKillWait=45\nMessageTimeout=11\n# MessageTimeout is long\nPartitionName=main Nodes=ALL\n"
        )
    environ = {
        "TRAINYARD_SHARED": str(root / "shared"),
        "TRAINYARD_PYTHON": sys.executable,
        "TRAINYARD_NODE": "i-2",
        "SLURM_CONF": str(conf),
    }
    return scripts.node.Node(str(root), bundle, merged, identity, environ)


@pytest.mark.parametrize(
    ("address", "role"), [("10.1.0.5", "controller"), ("10.1.0.6", "worker"), ("10.1.0.8", "login")]
)
def test_a_node_finds_its_role_by_its_own_address(
    scripts: SimpleNamespace, address: str, role: str
) -> None:
    identity = scripts.node.identify(CLUSTER, RESOURCES, {"127.0.0.1", address})
    assert identity.role == role
    assert identity.controller_address == "10.1.0.5"
    assert identity.node_name == "ip-" + address.replace(".", "-")


def test_a_stale_resource_config_is_named_as_the_reason(scripts: SimpleNamespace) -> None:
    with pytest.raises(scripts.node.StepFailed, match=r"10\.9\.9\.9.*stale"):
        scripts.node.identify(CLUSTER, RESOURCES, {"10.9.9.9"})


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


def test_our_slurm_settings_are_a_file_of_our_own_and_one_line_at_the_end(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    before = conf.read_text()
    assert "MessageTimeout=11" in before
    for _ in range(2):
        scripts.step_slurm.hooks(node)
        assert conf.read_text() == before + "Include trainyard.conf\n"
    ours = conf.with_name("trainyard.conf").read_text().splitlines()
    assert f"EpilogSlurmctld={tmp_path}/root/opt/trainyard/bin/slurm-job-end" in ours
    assert {
        "MessageTimeout=2",
        "Epilog=/bin/true",
        "SchedulerParameters=batch_sched_delay=0",
    } <= set(ours)
    assert "KillWait" not in "".join(ours), (
        "how long everybody's jobs may save when they are ended is not ours to say"
    )


def test_a_slurm_conf_with_a_comment_in_another_encoding_costs_no_node(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    before = conf.read_bytes() + "# J\xf6rg\n".encode("latin-1")
    conf.write_bytes(before)
    scripts.step_slurm.hooks(node)
    assert conf.read_bytes() == before + b"Include trainyard.conf\n"
    assert "SlurmctldHost" in scripts.node_facts.whole(conf)


@pytest.mark.parametrize("settings", [{"Epilog": "/bin/true"}, {"MessageTimeout": "2"}])
def test_a_setting_that_was_written_after_ours_is_followed_by_ours_again(
    settings: dict[str, str],
) -> None:
    conf = "SlurmctldHost=a\nInclude trainyard.conf\nNodeName=ip-1\n"
    assert slurm_settings.included(conf, settings)
    assert not slurm_settings.included(
        conf + "".join(f"{key.lower()} = 7\n" for key in settings), settings
    )
    assert not slurm_settings.included("SlurmctldHost=a\n#Include trainyard.conf\n", settings)


def test_no_line_is_lost_that_another_hand_adds_while_ours_is_written(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("SlurmctldHost=a\n")
    for number in range(50):
        appender = threading.Thread(
            target=lambda number=number: slurm_settings._append(conf, f"NodeName=ip-{number}\n")
        )
        conf.write_text(conf.read_text().replace("Include trainyard.conf\n", ""))
        appender.start()
        slurm_settings.keep(conf, 2, None)
        appender.join()
        assert f"NodeName=ip-{number}" in conf.read_text().splitlines()
    assert "Include trainyard.conf" in conf.read_text().splitlines()


def test_what_the_scheduler_was_told_already_stays() -> None:
    assert (
        slurm_settings.additions("SchedulerParameters=bf_interval=5")["SchedulerParameters"]
        == "bf_interval=5,batch_sched_delay=0"
    )
    assert "SchedulerParameters" not in slurm_settings.additions(
        "SchedulerParameters=batch_sched_delay=2,bf_interval=5"
    )


def test_an_epilog_that_the_cluster_has_already_stays(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    path.write_text(path.read_text() + "Epilog = /opt/site/epilog.sh\n")
    scripts.step_slurm.hooks(node)
    assert [
        line
        for line in path.with_name("trainyard.conf").read_text().splitlines()
        if line.startswith("Epilog")
    ] == []


def test_only_the_controller_gets_the_job_end_hook(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    scripts.step_slurm.hooks(a_node(scripts, tmp_path / "root", bundle))
    assert "EpilogSlurmctld" not in (tmp_path / "root/opt/slurm/etc/trainyard.conf").read_text()


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


def test_on_aws_mounts_and_users_are_made_with_the_real_programs(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    target = tmp_path / "fsx"
    filesystem = {
        "dnsName": "fs-1.fsx.eu-west-1.amazonaws.com",
        "mountName": "abc",
        "mountPath": str(target),
    }
    local = a_node(scripts, tmp_path / "root", bundle, sharedFilesystem=filesystem)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    monkeypatch.setattr(scripts.step_mounts, "FSTAB", str(tmp_path / "fstab"))
    for module in (scripts.step_mounts, scripts.step_accounts):
        monkeypatch.setattr(module, "command", lambda argv, **options: ran.append(list(argv)))
    for _ in range(2):
        scripts.step_mounts.shared_filesystem(node)
    scripts.step_accounts.ensure_account(node, {"name": "no-such-user-here", "uid": 5000})
    source = "fs-1.fsx.eu-west-1.amazonaws.com@tcp:/abc"
    assert ran[:2] == [["modprobe", "lnet"], ["modprobe", "lustre"]]
    assert ran[2] == ["mount", "-t", "lustre", "-o", "noatime,flock", source, str(target)]
    assert (
        tmp_path / "fstab"
    ).read_text() == f"{source} {target} lustre defaults,noatime,flock,_netdev,nofail 0 0\n"
    assert ran[-1][:3] == ["useradd", "--uid", "5000"]


def test_local_nodes_share_one_environment_with_the_requirements_which_sees_what_their_own_python_has(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    shared = tmp_path / "shared"
    environment = {"kind": "venv", "requirements": ["pip>=20", "pydantic"]}
    controller, *workers = [
        a_node(scripts, tmp_path / address, bundle, address, environment=environment)
        for address in ("10.1.0.5", "10.1.0.6", "10.1.0.7")
    ]
    for node in (controller, *workers):
        node.environ["TRAINYARD_SHARED"] = str(shared)
        scripts.step_environment.job_environment(node)
    pythons = {scripts.step_environment.job_python(node) for node in (controller, *workers)}
    assert pythons == {f"{shared}/trainyard/environments/c/bin/python"}
    program = "import pip, pydantic, pytest; print(pip.__file__); print(pytest.__file__)"
    own, base = scripts.node.command([pythons.pop(), "-c", program]).split()
    assert own.startswith(str(shared)), "what is installed into it comes first"
    assert base == pytest.__file__


def test_a_requirement_that_does_not_exist_fails_the_node_with_pips_words(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(
        scripts,
        tmp_path / "root",
        bundle,
        environment={"kind": "venv", "requirements": ["pip==0.0.99"]},
    )
    with pytest.raises(scripts.node.StepFailed, match=r"pip==0\.0\.99"):
        scripts.step_environment.job_environment(node)


def test_what_a_failing_program_says_is_not_lost_behind_its_last_remarks(
    scripts: SimpleNamespace,
) -> None:
    said = "echo 'ERROR: No matching distribution found for torchh' >&2; echo >&2; echo 'notice: a new release' >&2; echo 'notice: run' >&2; exit 1"
    with pytest.raises(scripts.node.StepFailed, match="No matching distribution found for torchh"):
        scripts.node.command(["sh", "-c", said])


def test_a_program_that_hangs_or_is_missing_fails_its_step_in_words(
    scripts: SimpleNamespace,
) -> None:
    with pytest.raises(scripts.node.StepFailed, match="'sleep 60' did not end within 0 s"):
        scripts.node.command(["sleep", "60"], timeout=0.05)
    with pytest.raises(scripts.node.StepFailed, match="'no-such-program' is not installed"):
        scripts.node.command(["no-such-program"])


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
    locked = pins((LIFECYCLE.parents[1] / "requirements/runtime.txt").read_text())
    assert packed == {name: locked[name] for name in packed}


def on_aws(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    address: str = "10.1.0.6",
    **cluster: Any,
) -> Any:
    """A node whose root is the machine's; what writes is sent below tmp_path."""
    local = a_node(scripts, tmp_path / "root", bundle, address=address, **cluster)
    return scripts.node.Node("", bundle, local.cluster, local.identity, {})


def test_a_bundle_without_the_agents_packages_says_how_to_build_them(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    with pytest.raises(scripts.node.StepFailed, match="build it with sam build"):
        scripts.step_install.agent_python(on_aws(scripts, tmp_path, bundle))


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


@pytest.mark.parametrize(
    "empty",
    [{"Instances": None}, {}, {"Instances": [{"InstanceName": "gpu-1", "InstanceId": "i-2"}]}],
)
def test_a_group_without_instances_and_an_instance_without_address_are_passed_over(
    scripts: SimpleNamespace, empty: dict[str, Any]
) -> None:
    """The controller is provisioned first: when its scripts run, the workers' group says null."""
    resources = {
        **RESOURCES,
        "InstanceGroups": [RESOURCES["InstanceGroups"][0], {"Name": "gpu", **empty}],
    }  # type: ignore[index]
    me = scripts.node.identify(CLUSTER, resources, {"10.1.0.5"})
    assert (me.role, me.controller_address) == ("controller", "10.1.0.5")


def test_an_address_that_comes_late_is_waited_for(
    scripts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "resource_config.json"
    given.write_text(json.dumps({**RESOURCES, "InstanceGroups": None}))
    monkeypatch.setattr(scripts.node, "own_addresses", lambda _environ: {"10.1.0.6"})
    monkeypatch.setattr(
        scripts.node.time, "sleep", lambda _seconds: given.write_text(json.dumps(RESOURCES))
    )
    assert scripts.node.await_identity(CLUSTER, given, {}).role == "worker"


def test_a_name_that_has_no_address_yet_is_waited_for_and_one_that_never_has_fails_the_node(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem = {
        "dnsName": "fs-1.fsx.eu-west-1.amazonaws.com",
        "mountName": "abc",
        "mountPath": "/fsx",
    }
    node = on_aws(scripts, tmp_path, bundle, sharedFilesystem=filesystem)
    asked: list[str] = []

    def resolves(host: str) -> bool:
        asked.append(host)
        return asked.count(host) > 2

    monkeypatch.setattr(scripts.step_network, "resolves", resolves)
    monkeypatch.setattr(scripts.step_network, "LOOK_SECONDS", 0.0)
    scripts.step_network.names(node)
    assert set(asked) == {
        filesystem["dnsName"],
        *(f"{name}.eu-west-1.amazonaws.com" for name in ("secretsmanager", "s3", "events")),
    }
    monkeypatch.setattr(scripts.step_network, "resolves", lambda _host: False)
    monkeypatch.setattr(scripts.step_network, "NAMES_SECONDS", 0.0)
    with pytest.raises(scripts.node.StepFailed, match=r"fs-1\.fsx.* has no address after"):
        scripts.step_network.names(node)


def test_what_the_network_refuses_at_first_is_tried_again_but_not_for_ever(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = on_aws(scripts, tmp_path, bundle)
    monkeypatch.setattr(scripts.node.time, "sleep", lambda _seconds: None)
    tries: list[int] = []

    def action() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise scripts.node.StepFailed("refused")
        return "done"

    assert scripts.node.repeatedly(node, "mount", action) == "done"
    tries.clear()

    def never() -> str:
        tries.append(1)
        raise scripts.node.StepFailed("refused")

    with pytest.raises(scripts.node.StepFailed):
        scripts.node.repeatedly(node, "mount", never)
    assert len(tries) == scripts.node.TRIES


@pytest.mark.parametrize(("address", "role"), [("10.1.0.6", "worker"), ("10.1.0.8", "login")])
def test_a_slurm_conf_that_lies_on_a_worker_or_login_node_is_left_alone(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, address: str, role: str
) -> None:
    """The image leaves one there until slurmd's unit deletes it."""
    node = on_aws(scripts, tmp_path, bundle, address=address)
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    node = scripts.node.Node("", bundle, node.cluster, node.identity, {"SLURM_CONF": str(path)})
    assert node.identity.role == role
    before = path.read_text()
    scripts.step_slurm.hooks(node)
    assert path.read_text() == before
    assert scripts.step_slurm.slurm_conf(node) is None


def test_a_slurm_conf_that_never_comes_costs_our_settings_and_not_the_controller(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(scripts.step_slurm, "CONFIGURATION_WAIT_SECONDS", 0.0)
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    (tmp_path / "root/opt/slurm/etc/slurm.conf").unlink()
    scripts.step_slurm.hooks(node)
    assert "WARNING" in capsys.readouterr().out


def test_an_epilog_of_slurmctld_that_the_cluster_has_already_runs_beside_ours(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    root, mark = tmp_path / "root", tmp_path / "mark"
    site = tmp_path / "site-epilog"
    site.write_text(f"#!/bin/sh\necho site >> {mark}\n")
    site.chmod(0o755)
    node = a_node(scripts, root, bundle, address="10.1.0.5")
    conf = root / "opt/slurm/etc/slurm.conf"
    conf.write_text(conf.read_text() + f"EpilogSlurmctld={site}\n")
    scripts.step_install.agent(node)
    for _ in range(2):  # the second time ours is there already, and is no epilog of the cluster's
        scripts.step_slurm.hooks(node)
    subprocess.run([str(root / "opt/trainyard/bin/slurm-job-end")], check=True, timeout=120)
    eventually("the cluster's epilog wrote", lambda: mark.exists() and mark.read_text(), 30)
    assert mark.read_text() == "site\n"


def test_our_own_epilog_is_never_taken_for_one_of_the_clusters(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    conf.write_text(
        conf.read_text() + f"EpilogSlurmctld={tmp_path}/root/opt/trainyard/bin/slurm-job-end\n"
    )
    scripts.step_slurm.hooks(node)
    assert not (tmp_path / "root/etc/trainyard/epilog-before-ours").exists(), (
        "it would call itself without end"
    )


@pytest.mark.parametrize(
    ("version", "calls_it"),
    [
        ("22.05.8", True),
        ("23.11.10", True),
        ("24.05.0", False),
        ("24.11.5", False),
        ("25.05.1", False),
    ],
)
def test_a_slurm_that_runs_every_epilog_itself_has_ours_call_no_other(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, version: str, calls_it: bool
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    scontrol = tmp_path / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f"#!/bin/sh\necho slurm {version}\n")
    scontrol.chmod(0o755)
    node.environ["PATH"] = f"{scontrol.parent}:/usr/bin:/bin"
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    conf.write_text(conf.read_text() + "EpilogSlurmctld=/opt/site/epilog\n")
    scripts.step_slurm.hooks(node)
    assert (tmp_path / "root/etc/trainyard/epilog-before-ours").exists() == calls_it


def test_the_end_of_a_job_is_told_by_any_user(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    """slurmctld runs its epilog as SlurmUser, who owns none of our directories."""
    if os.geteuid() != 0:
        pytest.skip("another user's process takes root")
    root = tmp_path / "root"
    scripts.step_install.agent(a_node(scripts, root, bundle, address="10.1.0.5"))
    told = tmp_path / "told"
    told.touch()
    told.chmod(0o666)
    launcher = root / "opt/trainyard/bin/trainyard-agent"
    launcher.write_text(f"#!/bin/sh\necho $1 >> {told}\n")
    for parent in [tmp_path, *tmp_path.parents[:3]]:
        parent.chmod(parent.stat().st_mode | 0o055)
    subprocess.run(
        [str(root / "opt/trainyard/bin/slurm-job-end")],
        check=True,
        timeout=120,
        user=65534,
        group=65534,
        env={"PATH": "/usr/bin:/bin"},
    )
    eventually("the agent is told", told.read_text, 30)
    assert told.read_text() == "notify-job-end\n"


def test_our_settings_keep_the_owner_of_slurm_conf(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("another owner takes root")
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    os.chown(path, 65534, 65534)
    scripts.step_slurm.hooks(node)
    ours = path.with_name("trainyard.conf")
    assert "EpilogSlurmctld" in ours.read_text()
    assert [(one.stat().st_uid, one.stat().st_gid) for one in (path, ours)] == [(65534, 65534)] * 2


@pytest.mark.parametrize(("workers", "seconds"), [(2, "2"), (16, "2"), (17, "10"), (6758, "10")])
def test_a_large_cluster_gets_longer_message_timeouts(workers: int, seconds: str) -> None:
    assert slurm_settings.wanted("", workers, None)["MessageTimeout"] == seconds


@pytest.mark.parametrize(
    ("setup", "address", "options"),
    [
        ("SlurmConfig", "10.1.0.6", ""),
        ("ProvisioningParameters", "10.1.0.5", ""),
        (
            "ProvisioningParameters",
            "10.1.0.6",
            'Environment="SLURMD_OPTIONS=--conf-server 10.1.0.5"\n',
        ),
        (
            "ProvisioningParameters",
            "10.1.0.8",
            'Environment="SLURMD_OPTIONS=--conf-server 10.1.0.5"\n',
        ),
    ],
)
def test_slurmd_learns_its_server_where_our_scripts_set_slurm_up(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, setup: str, address: str, options: str
) -> None:
    assert (
        scripts.step_install.slurmd_options(
            a_node(scripts, tmp_path / "root", bundle, address=address, slurmSetup=setup)
        )
        == options
    )


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


def test_a_user_with_another_uid_is_refused(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    local = a_node(scripts, tmp_path / "root", bundle)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    with pytest.raises(scripts.node.StepFailed, match="exists with uid 0, users asks for 5000"):
        scripts.step_accounts.ensure_account(node, {"name": "root", "uid": 5000})


def test_the_secrets_signature_is_botocores(scripts: SimpleNamespace) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    environ = {
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }
    body, host = b'{"SecretId": "s"}', "secretsmanager.eu-west-1.amazonaws.com"
    mine = scripts.cluster_secret.signed(host, body, "eu-west-1", environ, "20261120T231500Z")
    headers = {
        name: value
        for name, value in mine.items()
        if name not in ("authorization", "x-amz-security-token")
    }
    request = AWSRequest("POST", f"https://{host}/", headers=headers, data=body)
    request.context["timestamp"] = "20261120T231500Z"
    signer = SigV4Auth(Credentials("AKID", "secret", "token"), "secretsmanager", "eu-west-1")
    request.headers["X-Amz-Security-Token"] = "token"
    signature = signer.signature(
        signer.string_to_sign(request, signer.canonical_request(request)), request
    )
    assert mine["authorization"].endswith(f"Signature={signature}")


def test_services_that_do_not_start_are_told_in_one_line_with_their_last_words(
    tmp_path: Path,
) -> None:
    services = tmp_path / "opt/trainyard/bin/start-services"
    services.parent.mkdir(parents=True)
    services.write_text("echo 'slurmd: fatal: no such user'\nsleep 0.2\nexit 1\n")
    environment = {
        "PATH": os.environ["PATH"],
        "TRAINYARD_ROOT": str(tmp_path),
        "TRAINYARD_PYTHON": "true",
    }
    done = subprocess.run(
        [str(LIFECYCLE / "on_create.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].endswith(
        "ended with an error; its last words: slurmd: fatal: no such user"
    )


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


def told(printed: str) -> dict[str, Any]:
    """All facts of a node as one object, as whoever reads the log puts them together."""
    lines = [
        line.partition("trainyard-facts ")[2]
        for line in printed.splitlines()
        if line.startswith("[trainyard] trainyard-facts ")
    ]
    return {name: value for line in lines for name, value in json.loads(line).items()}


def test_a_node_tells_what_it_found_before_the_first_step(
    scripts: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given, conf = tmp_path / "resource_config.json", tmp_path / "slurm.conf"
    empty = {"Name": "gpu", "Instances": None}
    late = {"Name": "door", "Instances": [{"InstanceId": "i-4"}]}
    given.write_text(
        json.dumps(
            {
                **RESOURCES,
                "ClusterType": "Slurm",
                "InstanceGroups": [RESOURCES["InstanceGroups"][0], empty, late],
            }
        )
    )  # type: ignore[index]
    (tmp_path / "nodes.conf").write_text(
        "NodeName=ip-10-1-0-6 State=CLOUD\nNodeName=ip-10-1-0-7\nPartitionName=dev Nodes=ALL Default=YES\nPartitionName=main Nodes=ip-10-1-0-6\n"
    )
    conf.write_text(
        "SlurmUser=slurm\nSlurmctldParameters=enable_configless\nAuthInfo=secret\ninclude nodes.conf\n"
    )
    variables = {
        "TRAINYARD_ROOT": str(tmp_path),
        "SLURM_CONF": str(conf),
        "SAGEMAKER_RESOURCE_CONFIG_PATH": str(given),
    }
    monkeypatch.setenv("SAGEMAKER_RESOURCE_CONFIG_PATH", str(given))
    scripts.node_facts.tell_found(variables)
    printed = capsys.readouterr().out
    facts = told(printed)
    assert facts["resourceConfig"] == {
        "place": "variable", "type": "Slurm", "clusterArn": True, "groups": {"ctl": [True], "gpu": None, "door": [False]},
    }  # fmt: skip
    slurm = {
        name: facts["slurm"][name]
        for name in (
            "user",
            "configless",
            "nodes",
            "cloudNodes",
            "partitions",
            "defaultPartitions",
            "conf",
        )
    }
    assert slurm == {
        "user": "slurm", "configless": True, "nodes": 2, "cloudNodes": 1, "partitions": ["dev", "main"], "defaultPartitions": ["dev"], "conf": True,
    }  # fmt: skip
    assert (facts["python"], facts["credentials"], facts["units"]) == (
        platform.python_version(),
        "instance",
        None,
    )
    assert facts["limits"]["nofile"][0] > 0
    assert printed.count("\n") == 1
    assert "secret" not in printed


def test_what_a_node_cannot_tell_is_null_and_never_fails_it(
    scripts: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("nobody expects this")

    for name in ("limits", "slurm", "state", "resource_config", "named_by_address"):
        monkeypatch.setattr(scripts.node_facts, name, broken)
    scripts.node_facts.tell_found({})
    facts = told(capsys.readouterr().out)
    assert [
        facts[name] for name in ("limits", "slurm", "units", "resourceConfig", "hostNamedByAddress")
    ] == [None] * 5
    assert facts["user"]


@pytest.mark.parametrize(
    ("command", "server"),
    [
        ("slurmd -D $SLURMD_OPTIONS", "$SLURMD_OPTIONS"),
        ("slurmd -D --conf-server 10.0.0.1:6817", "--conf-server"),
        ("slurmd -D", "none"),
    ],
)
def test_a_node_tells_how_slurmd_is_told_its_server(
    scripts: SimpleNamespace, command: str, server: str
) -> None:
    assert (
        scripts.node_facts.server_of(
            f"[Service]\n# --conf-server\nExecStart=/opt/slurm/sbin/{command}\n"
        )
        == server
    )


def test_a_node_tells_which_services_it_reaches(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)
    with (
        socket.create_server(("127.0.0.1", 0)) as listens,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        there, gone = listens.getsockname()[1], closed.getsockname()[1]
        closed.close()
        for port, reached in ((there, True), (gone, False)):
            node.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            scripts.step_network.names(node)
            facts = told(capsys.readouterr().out)
            assert facts["reached"] == dict.fromkeys(("secretsmanager", "s3", "events"), reached)
            assert (facts["namesSeconds"], facts["mounted"]) == (0.0, False)


def test_a_bucket_without_mountpoint_on_the_node_is_told_with_its_field(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts.step_mounts, "MOUNT_S3", str(tmp_path / "mount-s3"))
    node = on_aws(
        scripts,
        tmp_path,
        bundle,
        s3Mounts=[{"bucket": "corpus", "mountPath": str(tmp_path / "data")}],
    )
    with pytest.raises(
        scripts.node.StepFailed,
        match=r"s3Mounts: s3://corpus cannot be mounted at .*/data: this node's image has no",
    ):
        scripts.step_mounts.buckets(node)
    assert not (tmp_path / "data").exists()
