"""Waits for the network: HyperPod's host agent restarts the resolver while the lifecycle scripts begin."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from node import Node, StepFailed, say

NAMES_SECONDS = 120.0
LOOK_SECONDS = 2.0


def names(node: Node) -> None:
    """Every host that later steps call has an address. Raises StepFailed with the first that has none in time."""
    if node.local:
        return
    deadline = time.monotonic() + NAMES_SECONDS
    for host in hosts(node):
        while not resolves(host):
            if time.monotonic() > deadline:
                raise StepFailed(
                    f"the name {host} has no address after {NAMES_SECONDS:.0f} s; the node's VPC needs DNS support and DNS host names"
                )
            say(f"waiting for the name {host}")
            time.sleep(LOOK_SECONDS)


def hosts(node: Node) -> Iterator[str]:
    """The shared filesystem's, and those of the services that a node calls."""
    filesystem = node.cluster.get("sharedFilesystem")
    if filesystem:
        yield filesystem["dnsName"]
    override = node.environ.get("AWS_ENDPOINT_URL")
    if override:
        yield urlsplit(override).hostname or ""
        return
    region = node.cluster["region"]
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    yield from (f"{service}.{region}.{suffix}" for service in ("secretsmanager", "s3", "events"))


def resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP))
    except OSError:
        return False
