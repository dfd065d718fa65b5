"""Installs the agent: its packages, launcher, key and configuration."""

from __future__ import annotations

import json
import os
import platform
import shutil
import zipfile
from pathlib import Path
from typing import Any

from cluster_secret import read_secret
from node import Node, StepFailed, command, repeatedly, say
from step_environment import job_python
from step_mounts import shared_path
from step_slurm import our_epilog, slurm_conf

#: Debian's and HyperPod's units do not restart a killed daemon; without slurmctld no job's end is
#: ever seen.
SLURM_UNITS = ("munge", "slurmctld", "slurmd")
RESTARTS = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=1\n"
#: Slurm is set up, started and changed by others only.
BACKENDS_OWN = "BackendsOwn"
#: So is everything else on the node (adopt.py).
ADOPTED = "Adopted"
THEIRS = (BACKENDS_OWN, ADOPTED)
LIBRARY = "/opt/trainyard/lib"
PACKAGES = "/opt/trainyard/packages"
#: For environments of jobs (trainyard_trainers/launch/environments.py).
PIP = "pip.whl"
PROGRAMS = {
    "trainyard-agent": "trainyard-agent",
    "slurm-job-begin": "slurm-job-begin",
    "slurm-job-end": "slurm-job-end",
    "start_services.sh": "start-services",
    "supervise.sh": "supervise",
}
#: A node's processes are recognised by it; the launcher hands it to agents that start with an empty
#: environment (Slurm's epilog).
PASSED_ON = ("LOCAL", "NODE", "ROOT", "ADDRESS", "PYTHON", "SHARED", "MUNGE_SOCKET")


def agent(node: Node) -> None:
    copy_library(node)
    programs = node.path("/opt/trainyard/bin")
    programs.mkdir(parents=True, exist_ok=True)
    for source, name in PROGRAMS.items():
        node.write(f"/opt/trainyard/bin/{name}", (node.bundle / source).read_text(), mode=0o755)
    node.write("/etc/trainyard/agent-python", agent_python(node) + "\n")
    node.write("/etc/trainyard/environment", environment_lines(node))
    node.write("/etc/trainyard/role", node.identity.role + "\n")
    node.write("/etc/trainyard/node-name", node.identity.node_name + "\n")
    node.write("/etc/trainyard/slurm-setup", slurm_setup(node) + "\n")
    for directory in ("/var/lib/trainyard", "/var/log/trainyard"):
        node.path(directory).mkdir(parents=True, exist_ok=True)
    if node.local:
        say(
            "skipped: systemd unit and slice: a root prefix has no systemd; "
            "the agent runs under 'supervise'"
        )
        return
    for unit in ("trainyard-agent.service", "trainyard.slice"):
        node.write(f"/etc/systemd/system/{unit}", (node.bundle / unit).read_text())
    for unit in SLURM_UNITS if slurm_setup(node) not in THEIRS else ():
        node.write(
            f"/etc/systemd/system/{unit}.service.d/trainyard.conf",
            RESTARTS + (slurmd_options(node) if unit == "slurmd" else ""),
        )
    # An agent that starts before the mount would write below the mount point.
    node.write(
        "/etc/systemd/system/trainyard-agent.service.d/mounts.conf",
        f"[Unit]\nRequiresMountsFor={shared_path(node)}\n",
    )
    link = Path("/usr/local/bin/trainyard-agent")
    if not link.is_symlink() and slurm_setup(node) != ADOPTED:
        link.symlink_to("/opt/trainyard/bin/trainyard-agent")


def slurm_setup(node: Node) -> str:
    """SlurmConfig: HyperPod sets Slurm up before these scripts.

    ProvisioningParameters: they do it.
    """
    return str(node.cluster.get("slurmSetup") or "SlurmConfig")


def slurmd_options(node: Node) -> str:
    """The image's slurmd.service takes its configuration from the server in SLURMD_OPTIONS."""
    if slurm_setup(node) != "ProvisioningParameters" or node.identity.role == "controller":
        return ""
    return f'Environment="SLURMD_OPTIONS=--conf-server {node.identity.controller_address}"\n'


def copy_library(node: Node) -> None:
    """Replace the packages as a whole.

    A crash in between leaves the old ones or none, and the step is repeated.
    """
    target = node.path(LIBRARY)
    part = target.with_name("lib.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(node.bundle / "lib", part)
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def agent_python(node: Node) -> str:
    """The interpreter of the agent: the node's own, with the bundle's packages.

    No job's requirement can break it.
    """
    if node.local and node.environ.get("TRAINYARD_PYTHON"):
        return node.environ["TRAINYARD_PYTHON"]
    unpack_packages(node)
    named = node.environ.get("TRAINYARD_AGENT_PYTHON")
    python = named or shutil.which("python3") or "/usr/bin/python3"
    environment = {"PYTHONPATH": str(node.path(PACKAGES)), "PATH": "/usr/bin:/bin"}
    command(
        [python, "-S", "-c", "import botocore.session, psutil, pydantic, pynvml"], env=environment
    )
    return python


def unpack_packages(node: Node) -> None:
    """The agent's packages come with the bundle, so no index, pip or ensurepip is needed.

    HyperPod's image lacks ensurepip.
    """
    archive = node.bundle / "packages" / f"linux-{platform.machine()}.zip"
    if not archive.exists():
        raise StepFailed(
            f"the bundle has no {archive.name}: the control plane was built without the "
            "agent's packages; build it with sam build, "
            "which makes them; the local cloud makes them at: trainyard local up --nodes machines"
        )
    shutil.copyfile(archive.with_name(PIP), node.path(f"/opt/trainyard/{PIP}"))
    target = node.path(PACKAGES)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(part)
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def environment_lines(node: Node) -> str:
    have = {f"TRAINYARD_{name}": node.environ.get(f"TRAINYARD_{name}") for name in PASSED_ON}
    have["SLURM_CONF"] = slurm_conf(node)
    return "".join(
        f"{name}={value}\n" for name, value in have.items() if value and "\n" not in value
    )


def cluster_key(node: Node) -> None:
    name, region = node.cluster["secretName"], node.cluster["region"]
    secret = repeatedly(node, "cluster key", lambda: read_secret(name, region, node.environ))
    node.write("/etc/trainyard/key", secret, mode=0o600)


def configuration(node: Node) -> None:
    node.write(
        "/etc/trainyard/agent.json",
        json.dumps(agent_config(node), indent=1, sort_keys=True) + "\n",
        mode=0o600,
    )


def agent_config(node: Node) -> dict[str, Any]:
    """files.AgentConfig of the contracts, camelCase."""
    me, cluster = node.identity, node.cluster
    slurm_bin, setup = node.path("/opt/slurm/bin"), slurm_setup(node)
    return {
        "clusterName": cluster["clusterName"],
        "clusterArn": me.cluster_arn,
        "nodeName": me.node_name,
        "instanceId": me.instance_id,
        "role": me.role,
        "address": me.address,
        "controllerAddress": me.controller_address,
        "linkPort": cluster["linkPort"],
        "keyFile": str(node.path("/etc/trainyard/key")),
        # The directory itself, not the link below this node's root: a job on another node must not
        # depend on this node's files.
        "sharedRoot": node.environ["TRAINYARD_SHARED"] if node.local else shared_path(node),
        "sharedPath": shared_path(node),
        "stateDir": str(node.path("/var/lib/trainyard")),
        "python": job_python(node),
        "libraryDir": str(node.path(LIBRARY)),
        "eventBus": cluster["eventBus"],
        "region": cluster["region"],
        "dataBucket": cluster["dataBucket"],
        "runsPrefix": cluster.get("runsPrefix") or "runs",
        "slurmBin": str(slurm_bin) if (slurm_bin / "sbatch").exists() else "",
        "slurmConf": slurm_conf(node),
        "partitions": sorted({group["partition"] for group in cluster["workerGroups"]}),
        "jobEndHook": our_epilog(node) if me.role == "controller" and setup not in THEIRS else None,
        "nodesComeAndGo": setup == BACKENDS_OWN,
        "spot": me.spot,
        **({"metadataEndpoint": me.metadata} if me.metadata else {}),
        "heartbeatSeconds": cluster.get("heartbeatSeconds") or 60,
        "expectedWorkers": cluster.get("expectedWorkers") or 0,
        # A directory of others may lie somewhere below what is mounted.
        "mounts": [shared_path(node)]
        if not node.local and (setup != ADOPTED or os.path.ismount(shared_path(node)))
        else [],
    }
