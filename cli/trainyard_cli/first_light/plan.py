"""What first-light runs: the given spec, or the smallest one that this stack and network allow."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from typing import Any

from ..doctor.account import Account, NotAnswered
from ..problems import CliError, InvalidInput

Json = dict[str, Any]
#: Where nobody cleans up, the product deletes the cluster after so long without a run.
IDLE_SECONDS = 1800
#: With a disturbance, training must outlast the time that AWS takes to begin removing a node; here
#: that is a second.
STEPS, STEPS_ON_AWS, STEP_SECONDS = 200, 6000, 0.1
NETWORK_OUTPUTS = ("SubnetIds", "SecurityGroupIds", "FilesystemDnsName", "FilesystemMountName")
DEFAULT_TYPE = "ml.c5.xlarge"
#: The local cloud has a network and a filesystem by any name.
LOCAL_NETWORK: Json = {
    "network": {
        "subnetIds": ["subnet-0123456789abcdef0"],
        "securityGroupIds": ["sg-0123456789abcdef0"],
    },
    "sharedFilesystem": {
        "dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
        "mountName": "abcdefgh",
    },
}


def new_name() -> str:
    """A name of letters only, so that nothing in it looks like something to be redacted."""
    return "first-light-" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(8))


def spec_of(
    given: Json | None,
    account: Account,
    *,
    local: bool,
    network_stack: str | None,
    instance_type: str,
    resume: bool,
) -> Json:
    """A run's spec with `cluster.spec`. Raises InvalidInput."""
    if given is None:
        cluster = _cluster(
            account, local=local, network_stack=network_stack, instance_type=instance_type
        )
    elif "job" not in given:
        cluster = given
    else:
        _serves(given)
        return given
    return _run_on(cluster, STEPS_ON_AWS if resume and not local else STEPS)


def _serves(given: Json) -> None:
    """Raises InvalidInput for a run's spec that would leave something unproved."""
    reference = given.get("cluster")
    if not isinstance(reference, dict) or not isinstance(reference.get("spec"), dict):
        raise InvalidInput(
            "First light makes a cluster of its own",
            (
                "cluster.spec: is missing; a cluster that is there already proves nothing of "
                "how one is made"
            ),
            "Give cluster.spec in place of cluster.name; examples/ddp-demo.yaml has one",
        )
    if isinstance(given.get("export"), dict) and given["export"].get("enabled") is False:
        raise InvalidInput(
            "First light shows that results arrive",
            "export.enabled: is false, and there would be none",
            "Leave it out, or say true",
        )


def _run_on(cluster: Json, steps: int) -> Json:
    return {
        "name": "first-light",
        "cluster": {"spec": cluster},
        "job": {
            "recipe": "torchrun",
            "nodes": 2,
            "processesPerNode": 1,
            "module": "trainyard_trainers.ddp",
            "arguments": ["--steps", str(steps), "--step-seconds", str(STEP_SECONDS)],
        },
        "checkpoint": {"everySeconds": 2, "keep": 5},
        "export": {"checkpoints": "last"},
        "recovery": {"maxAttempts": 5},
        "limits": {"maxDurationSeconds": 4 * 3600},
    }


def _cluster(
    account: Account, *, local: bool, network_stack: str | None, instance_type: str
) -> Json:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": instance_type, "count": 1},
        {"name": "workers", "role": "worker", "instanceType": instance_type, "count": 2},
    ]
    common = {"name": "first-light", "instanceGroups": groups, "idleLimitSeconds": IDLE_SECONDS}
    if local and network_stack is not None:
        raise InvalidInput(
            "This is the local cloud and not AWS",
            f"--network-stack: the local cloud has no stack {network_stack}",
            (
                "Leave it out; or give your stack's ApiUrl with --endpoint or TRAINYARD_API_URL to "
                "try AWS"
            ),
        )
    if local:
        return {
            **common,
            **LOCAL_NETWORK,
            "environment": {"kind": "existing", "path": "/opt/trainyard/env"},
        }
    if network_stack is None:
        raise InvalidInput(
            "First light does not know your network",
            (
                "--network-stack: is missing, and no SPEC was given; "
                "nodes need subnets, a security group and FSx for Lustre"
            ),
            (
                "Give the name of a stack of network.yaml, or a SPEC, such as your copy of "
                "examples/ddp-demo.yaml"
            ),
        )
    return {**common, **_network(_outputs(account, network_stack))}


def _network(outputs: Mapping[str, str]) -> Json:
    filesystem = {
        "dnsName": outputs["FilesystemDnsName"],
        "mountName": outputs["FilesystemMountName"],
    }
    network = {
        "subnetIds": outputs["SubnetIds"].split(","),
        "securityGroupIds": outputs["SecurityGroupIds"].split(","),
    }
    # HyperPod's image need not have torch.
    environment = {"kind": "venv", "path": "/opt/trainyard/env", "requirements": ["torch==2.13.0"]}
    return {"network": network, "sharedFilesystem": filesystem, "environment": environment}


def _outputs(account: Account, stack: str) -> dict[str, str]:
    try:
        found = account.call("cloudformation", "DescribeStacks", StackName=stack)["Stacks"][0]
    except NotAnswered as error:
        raise CliError(
            "The network's stack cannot be read",
            f"--network-stack {stack}: {error}",
            "Check its name and region",
        ) from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs") or []}
    missing = [name for name in NETWORK_OUTPUTS if not outputs.get(name)]
    if missing:
        raise InvalidInput(
            "That is not a stack of network.yaml",
            (
                f"--network-stack: {stack} ({found.get('StackStatus')}) has no output "
                f"{', '.join(missing)}"
            ),
            "Give the stack that network.yaml made, or a SPEC",
        )
    return outputs
