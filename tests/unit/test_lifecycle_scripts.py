"""The lifecycle scripts: role by own address, idempotent files, data that never reaches a shell, and failures that say what to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import tomllib

from trainyard_contracts.files import AgentConfig

LIFECYCLE = Path(__file__).parents[2] / "node_agent" / "lifecycle"
MODULES = ("node", "lifecycle", "cluster_secret", "step_accounts", "step_environment", "step_install", "step_mounts", "step_slurm")

CLUSTER = {
    "clusterName": "c", "region": "eu-west-1", "eventBus": "bus", "dataBucket": "sagemaker-x", "secretName": "s",
    "controllerGroup": "ctl", "workerGroups": [{"name": "gpu", "partition": "main"}], "linkPort": 4990, "heartbeatSeconds": 2, "expectedWorkers": 1,
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
    (directory / "lib" / "trainyard_agent" / "cli.py").write_text("import sys\ndef main():\n    print(sys.argv[1:])\n    return 0\n")
    (directory / "lib" / "trainyard_agent" / "__init__.py").touch()
    for path in LIFECYCLE.iterdir():
        if path.is_file():
            (directory / path.name).write_bytes(path.read_bytes())
    (directory / "cluster.json").write_text(json.dumps(CLUSTER))
    return directory


def a_node(scripts: SimpleNamespace, root: Path, bundle: Path, address: str = "10.1.0.6", **cluster: Any) -> Any:
    merged = {**CLUSTER, **cluster}
    identity = scripts.node.identify(merged, RESOURCES, {address})
    (root / "opt/slurm/etc").mkdir(parents=True, exist_ok=True)
    conf = root / "opt/slurm/etc/slurm.conf"
    if not conf.exists():
        conf.write_text("SlurmctldHost=ip-10-1-0-5(10.1.0.5)\nKillWait=30\n# KillWait is long\nPartitionName=main Nodes=ALL\n")
    environ = {
        "TRAINYARD_SHARED": str(root / "shared"),
        "TRAINYARD_PYTHON": sys.executable,
        "TRAINYARD_NODE": "i-2",
        "SLURM_CONF": str(conf),
    }
    return scripts.node.Node(str(root), bundle, merged, identity, environ)


@pytest.mark.parametrize(("address", "role"), [("10.1.0.5", "controller"), ("10.1.0.6", "worker"), ("10.1.0.8", "login")])
def test_a_node_finds_its_role_by_its_own_address(scripts: SimpleNamespace, address: str, role: str) -> None:
    identity = scripts.node.identify(CLUSTER, RESOURCES, {"127.0.0.1", address})
    assert identity.role == role
    assert identity.controller_address == "10.1.0.5"
    assert identity.node_name == "ip-" + address.replace(".", "-")


def test_a_stale_resource_config_is_named_as_the_reason(scripts: SimpleNamespace) -> None:
    with pytest.raises(scripts.node.StepFailed, match=r"10\.9\.9\.9.*stale"):
        scripts.node.identify(CLUSTER, RESOURCES, {"10.9.9.9"})


def test_the_agents_configuration_is_the_contracts(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)
    scripts.step_install.configuration(node)
    config = AgentConfig.model_validate_json((tmp_path / "root/etc/trainyard/agent.json").read_bytes())
    assert (config.role, config.node_name, config.link_port) == ("worker", "ip-10-1-0-6", 4990)
    assert config.shared_root == str(tmp_path / "root/shared")
    assert config.heartbeat_seconds == 2


def test_every_step_may_run_again(scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    user = {"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA `id` ada"]}
    node = a_node(scripts, root, bundle, users=[user], s3Mounts=[{"bucket": "corpus", "mountPath": "/data"}])
    monkeypatch.setattr(scripts.step_install, "read_secret", lambda name, region, environ: "k" * 32)
    assert scripts.lifecycle.run(lambda: node) == 0
    first = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert scripts.lifecycle.run(lambda: node) == 0
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == first
    assert (root / "home/ada/.ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA `id` ada\n"
    assert (root / "etc/trainyard/key").stat().st_mode & 0o777 == 0o600
    assert (root / "fsx").is_symlink()


def test_the_failed_step_is_named_with_its_reason(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)

    def refuse(name: str, region: str, environ: object) -> str:
        raise scripts.node.StepFailed("secret 's' cannot be read")

    monkeypatch.setattr(scripts.step_install, "read_secret", refuse)
    assert scripts.lifecycle.run(lambda: node) == 1
    assert "FAILED in step 'cluster key': secret 's' cannot be read" in capsys.readouterr().out


def test_slurm_settings_replace_what_was_there_and_nothing_else(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    scripts.step_slurm.hooks(node)
    lines = (tmp_path / "root/opt/slurm/etc/slurm.conf").read_text().splitlines()
    assert lines.count("KillWait=2") == 1
    assert "KillWait=30" not in lines
    assert lines[:3] == ["SlurmctldHost=ip-10-1-0-5(10.1.0.5)", "# KillWait is long", "PartitionName=main Nodes=ALL"]
    assert f"EpilogSlurmctld={tmp_path}/root/opt/trainyard/bin/slurm-job-end" in lines
    assert "Epilog=/bin/true" in lines
    assert "SchedulerParameters=batch_sched_delay=0" in lines


def test_what_the_scheduler_was_told_already_stays(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    assert scripts.step_slurm.additions("SchedulerParameters=bf_interval=5")["SchedulerParameters"] == "bf_interval=5,batch_sched_delay=0"
    assert "SchedulerParameters" not in scripts.step_slurm.additions("SchedulerParameters=batch_sched_delay=2,bf_interval=5")


def test_an_epilog_that_the_cluster_has_already_stays(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    path.write_text(path.read_text() + "Epilog = /opt/site/epilog.sh\n")
    scripts.step_slurm.hooks(node)
    assert [line for line in path.read_text().splitlines() if line.startswith("Epilog")] == ["Epilog = /opt/site/epilog.sh"]


def test_only_the_controller_gets_the_job_end_hook(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    scripts.step_slurm.hooks(a_node(scripts, tmp_path / "root", bundle))
    assert "EpilogSlurmctld" not in (tmp_path / "root/opt/slurm/etc/slurm.conf").read_text()


def test_the_launcher_takes_its_settings_as_data(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    root = tmp_path / "root"
    node = a_node(scripts, root, bundle)
    node.environ["TRAINYARD_SHARED"] = f"{tmp_path}/$(touch {tmp_path}/pwned)"
    scripts.step_install.agent(node)
    launcher = root / "opt/trainyard/bin/trainyard-agent"
    done = subprocess.run(
        [launcher, "status", "a b;$(id)"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "['status', 'a b;$(id)']\n"
    assert not (tmp_path / "pwned").exists()


def test_on_aws_mounts_and_users_are_made_with_the_real_programs(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    target = tmp_path / "fsx"
    filesystem = {"dnsName": "fs-1.fsx.eu-west-1.amazonaws.com", "mountName": "abc", "mountPath": str(target)}
    local = a_node(scripts, tmp_path / "root", bundle, sharedFilesystem=filesystem)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    monkeypatch.setattr(scripts.step_mounts, "FSTAB", str(tmp_path / "fstab"))
    for module in (scripts.step_mounts, scripts.step_accounts):
        monkeypatch.setattr(module, "command", lambda argv, **options: ran.append(list(argv)))
    for _ in range(2):
        scripts.step_mounts.shared_filesystem(node)
    scripts.step_accounts.ensure_account(node, {"name": "no-such-user-here", "uid": 5000})
    source = "fs-1.fsx.eu-west-1.amazonaws.com@tcp:/abc"
    assert ran[0] == ["mount", "-t", "lustre", "-o", "noatime,flock", source, str(target)]
    assert (tmp_path / "fstab").read_text() == f"{source} {target} lustre defaults,noatime,flock,_netdev,nofail 0 0\n"
    assert ran[-1][:3] == ["useradd", "--uid", "5000"]


def test_local_nodes_share_one_environment_with_the_requirements_which_sees_what_their_own_python_has(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    shared = tmp_path / "shared"
    environment = {"kind": "venv", "requirements": ["pip>=20", "pydantic"]}
    controller, *workers = [
        a_node(scripts, tmp_path / address, bundle, address, environment=environment) for address in ("10.1.0.5", "10.1.0.6", "10.1.0.7")
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


def test_a_requirement_that_does_not_exist_fails_the_node_with_pips_words(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, environment={"kind": "venv", "requirements": ["pip==0.0.99"]})
    with pytest.raises(scripts.node.StepFailed, match=r"pip==0\.0\.99"):
        scripts.step_environment.job_environment(node)


def test_what_a_failing_program_says_is_not_lost_behind_its_last_remarks(scripts: SimpleNamespace) -> None:
    said = "echo 'ERROR: No matching distribution found for torchh' >&2; echo >&2; echo 'notice: a new release' >&2; echo 'notice: run' >&2; exit 1"
    with pytest.raises(scripts.node.StepFailed, match="No matching distribution found for torchh"):
        scripts.node.command(["sh", "-c", said])


def test_a_program_that_hangs_or_is_missing_fails_its_step_in_words(scripts: SimpleNamespace) -> None:
    with pytest.raises(scripts.node.StepFailed, match="'sleep 60' did not end within 0 s"):
        scripts.node.command(["sleep", "60"], timeout=0.05)
    with pytest.raises(scripts.node.StepFailed, match="'no-such-program' is not installed"):
        scripts.node.command(["no-such-program"])


def test_the_agent_is_installed_with_everything_that_it_imports() -> None:
    lines = (LIFECYCLE / "agent-requirements.txt").read_text().split()
    named = {re.split(r"[<>=]", line)[0] for line in lines}
    needed = tomllib.loads((LIFECYCLE.parent / "pyproject.toml").read_text())["project"]["dependencies"]
    assert named | {"trainyard-contracts"} == {*needed, "pydantic"}


def test_a_user_with_another_uid_is_refused(scripts: SimpleNamespace, tmp_path: Path, bundle: Path) -> None:
    local = a_node(scripts, tmp_path / "root", bundle)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    with pytest.raises(scripts.node.StepFailed, match="exists with uid 0, users asks for 5000"):
        scripts.step_accounts.ensure_account(node, {"name": "root", "uid": 5000})


def test_the_secrets_signature_is_botocores(scripts: SimpleNamespace) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    environ = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    body, host = b'{"SecretId": "s"}', "secretsmanager.eu-west-1.amazonaws.com"
    mine = scripts.cluster_secret.signed(host, body, "eu-west-1", environ, "20261120T231500Z")
    headers = {name: value for name, value in mine.items() if name not in ("authorization", "x-amz-security-token")}
    request = AWSRequest("POST", f"https://{host}/", headers=headers, data=body)
    request.context["timestamp"] = "20261120T231500Z"
    signer = SigV4Auth(Credentials("AKID", "secret", "token"), "secretsmanager", "eu-west-1")
    request.headers["X-Amz-Security-Token"] = "token"
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert mine["authorization"].endswith(f"Signature={signature}")


def test_services_that_do_not_start_are_told_in_one_line_with_their_last_words(tmp_path: Path) -> None:
    services = tmp_path / "opt/trainyard/bin/start-services"
    services.parent.mkdir(parents=True)
    services.write_text("echo 'slurmd: fatal: no such user'\nsleep 0.2\nexit 1\n")
    environment = {"PATH": os.environ["PATH"], "TRAINYARD_ROOT": str(tmp_path), "TRAINYARD_PYTHON": "true"}
    done = subprocess.run([str(LIFECYCLE / "on_create.sh")], env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].endswith("ended with an error; its last words: slurmd: fatal: no such user")


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
                word for line in path.read_text().splitlines() if not line.lstrip().startswith("#") for word in line.split()
            ]


def test_a_supervised_program_starts_again_until_it_is_stopped(tmp_path: Path) -> None:
    stop, starts = tmp_path / "stop", tmp_path / "starts"
    program = f'echo x >> "{starts}"; [[ $(wc -l < "{starts}") -lt 2 ]] || touch "{stop}"'
    argv = ["bash", str(LIFECYCLE / "supervise.sh"), str(stop), str(tmp_path / "pid"), str(tmp_path / "log"), "bash", "-c", program]
    subprocess.run(argv, check=True, timeout=10)
    assert starts.read_text() == "x\nx\n"
    assert not (tmp_path / "pid").exists()
