"""What a node tells of itself before anything is set up."""

from __future__ import annotations

import json
import platform
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lifecycle import RESOURCES, a_node, on_aws


def told(printed: str) -> dict[str, Any]:
    """All facts of a node as one object, as whoever reads the log puts them together."""
    lines = [
        line.partition("trainyard-facts ")[2]
        for line in printed.splitlines()
        if line.startswith("[trainyard] trainyard-facts ")
    ]
    return {name: value for line in lines for name, value in json.loads(line).items()}


def found_on(root: Path) -> dict[str, str]:
    """Write what a node may find of HyperPod and Slurm; the variables that say where it is."""
    given, conf = root / "resource_config.json", root / "slurm.conf"
    groups = [
        RESOURCES["InstanceGroups"][0],  # type: ignore[index]
        {"Name": "gpu", "Instances": None},
        {"Name": "door", "Instances": [{"InstanceId": "i-4"}]},
    ]
    resources = {**RESOURCES, "ClusterType": "Slurm", "InstanceGroups": groups}
    given.write_text(json.dumps(resources))
    (root / "nodes.conf").write_text(
        "NodeName=ip-10-1-0-6 State=CLOUD\nNodeName=ip-10-1-0-7\n"
        "PartitionName=dev Nodes=ALL Default=YES\nPartitionName=main Nodes=ip-10-1-0-6\n"
    )
    conf.write_text(
        "SlurmUser=slurm\nSlurmctldParameters=enable_configless\n"
        "AuthInfo=secret\ninclude nodes.conf\n"
    )
    return {
        "TRAINYARD_ROOT": str(root),
        "SLURM_CONF": str(conf),
        "SAGEMAKER_RESOURCE_CONFIG_PATH": str(given),
    }


@pytest.mark.real
def test_a_node_tells_what_it_found_before_the_first_step(
    scripts: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variables = found_on(tmp_path)
    given = variables["SAGEMAKER_RESOURCE_CONFIG_PATH"]
    monkeypatch.setenv("SAGEMAKER_RESOURCE_CONFIG_PATH", given)
    scripts.node_facts.tell_found(variables)
    printed = capsys.readouterr().out
    facts = told(printed)
    assert facts["resourceConfig"] == {
        "place": "variable", "type": "Slurm", "clusterArn": True,
        "groups": {"ctl": [True], "gpu": None, "door": [False]},
    }  # fmt: skip
    slurm = {
        "user": "slurm", "configless": True, "nodes": 2, "cloudNodes": 1,
        "partitions": ["dev", "main"], "defaultPartitions": ["dev"], "conf": True,
    }  # fmt: skip
    assert {name: facts["slurm"][name] for name in slurm} == slurm
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


@pytest.mark.real
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
    monkeypatch.setattr(scripts.step_mounts, "INSTALLERS", ())
    monkeypatch.setattr(scripts.node.time, "sleep", lambda seconds: None)
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
