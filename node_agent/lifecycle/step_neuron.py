"""AWS Neuron's driver and runtime, which ParallelCluster's images lack."""

from __future__ import annotations

import shutil
from pathlib import Path

from node import Node, StepFailed, command, repeatedly, say

DEVICE = Path("/dev/neuron0")
SOURCE = "/etc/apt/sources.list.d/neuron.list"
PINS = (
    "aws-neuronx-dkms",
    "aws-neuronx-collectives",
    "aws-neuronx-runtime-lib",
    "aws-neuronx-tools",
)
REPOSITORY = "https://apt.repos.neuron.amazonaws.com"
KEY = "/etc/apt/keyrings/neuron.asc"
INSTALL_SECONDS = 900.0


def software(node: Node) -> None:
    """Leave what is there; a custom image that has it needs no package index."""
    if node.local:
        say("skipped: Neuron's software: there is no accelerator under a root prefix")
        return
    if DEVICE.exists() and shutil.which("neuron-ls", path="/opt/aws/neuron/bin:/usr/bin"):
        say("Neuron's software is there already")
        return
    if shutil.which("apt-get") is None:
        raise StepFailed(
            "Neuron's software is installed on Ubuntu only; use image.os ubuntu2204, or an image "
            "that has it"
        )
    repeatedly(node, "Neuron's software", lambda: install(node))
    command(["modprobe", "neuron"], timeout=120)
    if not DEVICE.exists():
        raise StepFailed("Neuron's driver is loaded, but there is no /dev/neuron0")
    say("Neuron's software is installed")


def install(node: Node) -> None:
    """As AWS's page 'Neuron setup' has it for Ubuntu."""
    release = command(["lsb_release", "-cs"]).strip()
    node.path(KEY).parent.mkdir(parents=True, exist_ok=True)
    command(
        ["curl", "-fsSL", "-o", KEY, f"{REPOSITORY}/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB"], timeout=60
    )
    node.write(SOURCE, f"deb [signed-by={KEY}] {REPOSITORY} {release} main\n")
    command(["apt-get", "update", "-q"], timeout=INSTALL_SECONDS)
    environment = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = ["apt-get", "install", "-qy", "--no-install-recommends", *PINS]
    command(argv, timeout=INSTALL_SECONDS, env=environment)
