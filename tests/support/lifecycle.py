"""The lifecycle scripts as modules, and nodes for them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.repository import ROOT
from tests.support.spec_parts import FILESYSTEM

LIFECYCLE = ROOT / "node_agent" / "lifecycle"
MODULES = (
    "node",
    "node_facts",
    "lifecycle",
    "cluster_secret",
    "step_accounts",
    "step_environment",
    "step_install",
    "step_mounts",
    "step_network",
    "step_neuron",
    "step_slurm",
    "parallelcluster",
    "adopt",
    "take_back",
)
CLUSTER = {
    "clusterName": "c",
    "region": "eu-west-1",
    "eventBus": "bus",
    "dataBucket": "sagemaker-x",
    "secretName": "s",
    "controllerGroup": "ctl",
    "workerGroups": [{"name": "gpu", "partition": "main"}],
    "linkPort": 4990,
    "heartbeatSeconds": 2,
    "expectedWorkers": 1,
    "sharedFilesystem": {**FILESYSTEM, "mountPath": "/fsx"},
}
RESOURCES = {
    "ClusterConfig": {
        "ClusterName": "c",
        "ClusterArn": "arn:aws:sagemaker:eu-west-1:123456789012:cluster/abcdefghijkl",
    },
    "InstanceGroups": [
        {
            "Name": "ctl",
            "InstanceType": "ml.m5.large",
            "Instances": [
                {"InstanceName": "ctl-1", "CustomerIpAddress": "10.1.0.5", "InstanceId": "i-1"}
            ],
        },
        {
            "Name": "gpu",
            "InstanceType": "ml.p5.48xlarge",
            "Instances": [
                {"InstanceName": "gpu-1", "CustomerIpAddress": "10.1.0.6", "InstanceId": "i-2"},
                {"InstanceName": "gpu-2", "CustomerIpAddress": "10.1.0.7", "InstanceId": "i-3"},
            ],
        },
        {
            "Name": "door",
            "InstanceType": "ml.m5.large",
            "Instances": [
                {"InstanceName": "d-1", "CustomerIpAddress": "10.1.0.8", "InstanceId": "i-4"}
            ],
        },
    ],
}


def a_node(
    scripts: SimpleNamespace, root: Path, bundle: Path, address: str = "10.1.0.6", **cluster: Any
) -> Any:
    merged = {**CLUSTER, **cluster}
    identity = scripts.node.identify(merged, RESOURCES, {address})
    (root / "opt/slurm/etc").mkdir(parents=True, exist_ok=True)
    conf = root / "opt/slurm/etc/slurm.conf"
    if not conf.exists():
        conf.write_text(
            "SlurmctldHost=ip-10-1-0-5(10.1.0.5)\nKillWait=45\nMessageTimeout=11\n"
            "# MessageTimeout is long\nPartitionName=main Nodes=ALL\n"
        )
    environ = {
        "TRAINYARD_SHARED": str(root / "shared"),
        "TRAINYARD_PYTHON": sys.executable,
        "TRAINYARD_NODE": "i-2",
        "SLURM_CONF": str(conf),
    }
    return scripts.node.Node(str(root), bundle, merged, identity, environ)


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
