"""One local cloud whose nodes are machines; skipped where that cannot be."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from tests.support.new_roles import made_cluster
from tests.support.repository import ROOT
from tests.support.system import System, eventually

from trainyard_local import control
from trainyard_local.machines import host as machine_host
from trainyard_local.machines import network as machine_network
from trainyard_local.nodes import processes as node_processes
from trainyard_sdk.client import Client

PACKAGES = ROOT / "node_agent/packages/pip.whl"
FILESYSTEM = {
    "DnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "MountName": "abcdefgh",
    "MountPath": "/fsx",
}
Json = dict[str, Any]


@pytest.fixture(scope="session", autouse=True)
def _machines_can_be() -> None:
    if missing := machine_host.missing():
        pytest.skip(f"{missing[0]}. {missing[1]}")


class Machines:
    """A local cloud of machines: SageMaker's API, status and faults, programs on nodes."""

    def __init__(self, state_dir: Path, local: Json) -> None:
        self.state_dir, self.local = state_dir.resolve(), local
        self.sagemaker = self.aws("sagemaker")
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.role = self.aws("iam").create_role(RoleName="probe", AssumeRolePolicyDocument=trust)[
            "Role"
        ]["Arn"]

    def aws(self, service: str) -> Any:
        keys = {
            "aws_access_key_id": self.local["accessKeyId"],
            "aws_secret_access_key": self.local["secretAccessKey"],
        }
        return boto3.client(
            service, endpoint_url=self.local["endpoint"], region_name=self.local["region"], **keys
        )

    def create(self, name: str, entry: str, *, fail: bool = False, workers: int = 1) -> None:
        """Make a Continuous cluster whose script is probe.sh, as OnCreate or OnInitComplete."""
        prefix = f"probes/{name}"
        files = {"probe.sh": (Path(__file__).parent / "probe.sh").read_bytes()} | (
            {"fail": b""} if fail else {}
        )
        for path, body in files.items():
            self.aws("s3").put_object(
                Bucket=self.local["bucket"], Key=f"{prefix}/{path}", Body=body
            )
        common = {
            "InstanceType": "ml.c5.large",
            "LifeCycleConfig": {
                "SourceS3Uri": f"s3://{self.local['bucket']}/{prefix}",
                entry: "probe.sh",
            },
            "ExecutionRole": self.role,
            "InstanceStorageConfigs": [{"FsxLustreConfig": FILESYSTEM}],
        }
        groups = [
            {"InstanceGroupName": "controller", "InstanceCount": 1,
             "SlurmConfig": {"NodeType": "Controller"}, **common},
            {
                "InstanceGroupName": "workers", "InstanceCount": workers,
                "SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["main"]}, **common,
            },
        ]  # fmt: skip
        request = {
            "ClusterName": name, "InstanceGroups": groups, "Orchestrator": {"Slurm": {}},
            "NodeProvisioningMode": "Continuous",
            "VpcConfig": {"SecurityGroupIds": ["sg-0123456789abcdef0"],
                          "Subnets": ["subnet-0123456789abcdef0"]},
        }  # fmt: skip
        made_cluster(self.sagemaker, **request)

    def up(self, name: str, entry: str, **more: Any) -> list[Json]:
        """A cluster of which every node runs; controller first."""
        self.create(name, entry, **more)
        return list(eventually(f"every node of {name} runs", lambda: self._all_running(name), 60))

    def _all_running(self, name: str) -> list[Json] | None:
        nodes = self.nodes(name)
        return nodes if nodes and all(node["status"] == "Running" for node in nodes) else None

    def delete(self, name: str) -> None:
        self.sagemaker.delete_cluster(ClusterName=name)
        eventually(
            f"{name} is gone",
            lambda: name not in [cluster["name"] for cluster in self._clusters()],
            30,
        )

    def _clusters(self) -> list[Json]:
        return list(
            httpx.get(
                f"{self.local['endpoint']}/_trainyard/status", headers=self._token, timeout=120
            ).json()["nodes"]["clusters"]
        )

    @property
    def _token(self) -> dict[str, str]:
        return {"x-trainyard-token": self.local["adminToken"]}

    def nodes(self, name: str) -> list[Json]:
        return next(
            (cluster["nodes"] for cluster in self._clusters() if cluster["name"] == name), []
        )

    def node(self, name: str, group: str) -> Json:
        return next(node for node in self.nodes(name) if node["group"] == group)

    def fault(self, kind: str, cluster: str, node: Json, **more: Any) -> Json:
        body = {"kind": kind, "cluster": cluster, "node": node["instanceId"], **more}
        answer = httpx.post(
            f"{self.local['endpoint']}/_trainyard/fault",
            json=body,
            headers=self._token,
            timeout=120,
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def init(self, node: Json) -> int | None:
        """The pid of the machine's init, which alone carries the node's tag."""
        wanted = {"TRAINYARD_LOCAL": str(self.state_dir), "TRAINYARD_NODE": node["instanceId"]}
        for process in node_processes.all_processes():
            if process.name == "systemd" and wanted.items() <= process.environment.items():
                return process.pid
        return None

    def on(self, node: Json, *argv: str) -> str:
        """Run a program on the node as root; what it printed."""
        enter = [
            "nsenter",
            "-t",
            str(self.init(node)),
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
            "-C",
            "-r",
            "-w",
            "--",
            *argv,
        ]
        environment = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        return subprocess.run(
            enter, env=environment, capture_output=True, text=True, timeout=120, check=False
        ).stdout.strip()

    def told(self, name: str, node: Json) -> dict[str, str]:
        """What the node's lifecycle script told, as it lies in CloudWatch."""
        lines = [line.partition("=") for line in self.log(name, node) if "=" in line]
        return {key: value for key, _, value in lines}

    def log(self, name: str, node: Json) -> list[str]:
        logs = self.aws("logs")
        group = next(
            g["logGroupName"]
            for g in logs.describe_log_groups()["logGroups"]
            if f"/Clusters/{name}/" in g["logGroupName"]
        )
        stream = f"LifecycleConfig/{node['group']}/{node['instanceId']}"
        return [
            event["message"]
            for event in logs.get_log_events(logGroupName=group, logStreamName=stream)["events"]
        ]


@contextmanager
def cloud_of_machines(state_dir: Path) -> Iterator[Machines]:
    """Whatever is done to it in the block, no process and no link of it is left."""
    local = control.up(
        state_dir, 0, ROOT / "template.yaml", {"HeartbeatSeconds": "2"}, nodes="machines"
    )
    try:
        yield Machines(state_dir, local)
    finally:
        control.down(state_dir)
    assert nothing_left(state_dir)


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with cloud_of_machines(tmp_path_factory.mktemp("machines")) as made:
        yield made


@pytest.fixture(scope="session")
def system(machines: Machines) -> System:
    """The same cloud as whoever has runs sees it."""
    return system_of(machines)


def system_of(machines: Machines) -> System:
    assert PACKAGES.exists(), (
        f"{PACKAGES} is missing: make test-machines builds it, "
        "and so does node_agent/build_packages.py"
    )
    return System(machines.state_dir, machines.local, Client.from_state_dir(machines.state_dir))


def nothing_left(state_dir: Path) -> bool:
    links = machine_network.ip("-brief", "link", "show")
    mounts = Path("/proc/mounts").read_text()
    prefix = machine_network.digest(state_dir.resolve())[:5]
    assert node_processes.matching(node_processes.of_cloud(state_dir.resolve())) == []
    assert machine_network.bridge_name(state_dir.resolve()) not in links
    assert f"vb-{prefix}" not in links
    assert str(state_dir.resolve()) not in mounts
    return True
