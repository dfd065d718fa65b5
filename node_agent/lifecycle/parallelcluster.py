"""Turns a node of ParallelCluster into a Trainyard node.

Slurm, mounts and host names are ParallelCluster's own, and are left alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import step_accounts
import step_environment
import step_install
import step_mounts
import step_network
import step_neuron
from node import Identity, Node, StepFailed, cluster_file, own_addresses, read_json, say

import lifecycle

CONFIG = "/etc/parallelcluster/cfnconfig"
CHEF = "/etc/chef/dna.json"
#: The node's name in Slurm, which ParallelCluster looked up in its table.
NODE_NAME = "/etc/parallelcluster/slurm_plugin/slurm_nodename"
METADATA = "http://169.254.169.254"
STEPS: list[tuple[str, Callable[[Node], None]]] = [
    ("network", step_network.names),
    ("shared filesystem", step_mounts.mounted_already),
    ("users", step_accounts.users),
    ("bucket mounts", step_mounts.buckets),
    ("job environment", step_environment.job_environment),
    ("agent", step_install.agent),
    ("cluster key", step_install.cluster_key),
    ("agent configuration", step_install.configuration),
]
NEURON = ("neuron", step_neuron.software)
#: After an update of the cluster: queues may have come or gone. All else stays as it was made.
UPDATED: list[tuple[str, Callable[[Node], None]]] = [
    ("agent configuration", step_install.configuration),
]


def load(role: str) -> Node:
    """What this node is, by ParallelCluster's files. Raises StepFailed."""
    environ = os.environ
    root = environ.get("TRAINYARD_ROOT", "").rstrip("/")
    bundle = Path(__file__).resolve().parent
    cluster = cluster_file(bundle)
    return Node(root, bundle, cluster, identify(cluster, root, role, environ), environ)


def identify(
    cluster: Mapping[str, Any], root: str, role: str, environ: Mapping[str, str]
) -> Identity:
    addresses = sorted(own_addresses(environ))
    if not addresses:
        raise StepFailed("this machine has no address (hostname -I)")
    config = settings(Path(root + CONFIG))
    facts = read_json(Path(root + CHEF), "ParallelCluster writes it on every node")
    configured = facts.get("cluster") or {}
    mine = addresses[0] if environ.get("TRAINYARD_ADDRESS") else own_address(addresses, environ)
    metadata = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA
    head = mine if role == "controller" else head_address(config, configured)
    return Identity(
        instance_id=instance_id(environ),
        group=group_of(cluster, role, config),
        role=role,
        address=mine,
        controller_address=head,
        cluster_arn=str(configured.get("stack_arn") or config.get("stack_name") or ""),
        slurm_name=slurm_name(root) if role == "worker" else "",
        spot=role == "worker" and may_end(metadata),
        metadata=metadata,
    )


def settings(path: Path) -> dict[str, str]:
    """ParallelCluster's NAME=VALUE lines, taken as data."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        raise StepFailed(f"{path} is missing; ParallelCluster writes it on every node") from None
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def head_address(config: Mapping[str, str], configured: Mapping[str, Any]) -> str:
    """Of workers in their own file; on login nodes only what configured the node has it."""
    named = config.get("cfn_head_node_private_ip") or configured.get("head_node_private_ip")
    if not named:
        raise StepFailed(f"neither {CONFIG} nor {CHEF} has the head node's address")
    return str(named)


def slurm_name(root: str) -> str:
    path = Path(root + NODE_NAME)
    try:
        name = path.read_text().strip()
    except FileNotFoundError:
        raise StepFailed(f"{path} is missing; ParallelCluster writes it on every worker") from None
    if not name:
        raise StepFailed(f"{path} is empty; ParallelCluster writes the node's name there")
    return name


def group_of(cluster: Mapping[str, Any], role: str, config: Mapping[str, str]) -> str:
    if role == "worker":
        return config.get("cfn_scheduler_queue_name") or "worker"
    return str(cluster["controllerGroup"]) if role == "controller" else "login"


def instance_id(environ: Mapping[str, str]) -> str:
    return environ.get("TRAINYARD_NODE") or step_network.metadata(METADATA, "instance-id")


def own_address(addresses: Sequence[str], environ: Mapping[str, str]) -> str:
    """A node with several interfaces (EFA) has several; Slurm knows the first one's."""
    return step_network.metadata(METADATA, "local-ipv4") or addresses[0]


def may_end(metadata: str) -> bool:
    """Whether EC2 may take the instance back. Without an answer the agent asks in vain, no more."""
    try:
        return step_network.metadata(metadata, "instance-life-cycle") == "spot"
    except StepFailed as failed:
        say(f"WARNING: whether this is a spot instance is not known: {failed}")
        return True


def main(words: Sequence[str]) -> int:
    role, neuron = words[0], "neuron" in words[1:]
    if "updated" in words[1:]:
        return lifecycle.run(partial(load, role), UPDATED, "ParallelCluster's files")
    steps = [*STEPS[:5], *([NEURON] if neuron and role == "worker" else []), *STEPS[5:]]
    return lifecycle.run(partial(load, role), steps, "ParallelCluster's files")


if __name__ == "__main__":
    say(f"ParallelCluster's node, role {json.dumps(sys.argv[1])}")
    sys.exit(main(sys.argv[1:]))
