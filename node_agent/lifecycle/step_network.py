"""Waits for the network: HyperPod's host agent restarts the resolver as lifecycle scripts begin."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

import node_facts
from node import Node, StepFailed, say
from step_mounts import shared_path

NAMES_SECONDS = 120.0
LOOK_SECONDS = 2.0
METADATA_SECONDS = 5.0


def names(node: Node) -> None:
    """Every host that later steps call has an address.

    Raises StepFailed with the first that has none in time.
    """
    began = time.monotonic()
    if not node.local:
        await_names(node, began + NAMES_SECONDS)
    mount_path = shared_path(node)
    node_facts.tell_network(time.monotonic() - began, services(node), mount_path)


def await_names(node: Node, deadline: float) -> None:
    for host in hosts(node):
        while not resolves(host):
            if time.monotonic() > deadline:
                raise StepFailed(
                    f"the name {host} has no address after {NAMES_SECONDS:.0f} s; "
                    "the node's VPC needs DNS support and DNS host names"
                )
            say(f"waiting for the name {host}")
            time.sleep(LOOK_SECONDS)


def hosts(node: Node) -> Iterator[str]:
    """The shared filesystem's, and those of the services that a node calls."""
    if filesystem := node.cluster.get("sharedFilesystem"):  # else others have mounted it
        yield filesystem["dnsName"]
    yield from dict.fromkeys(host for host, _ in services(node).values())


def services(node: Node) -> dict[str, tuple[str, int]]:
    """Host and port of each service that a node calls, by its name."""
    called = ("secretsmanager", "s3", "events")
    if override := node.environ.get("AWS_ENDPOINT_URL"):
        url = urlsplit(override)
        return dict.fromkeys(
            called, (url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
        )
    region = node.cluster["region"]
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return {service: (f"{service}.{region}.{suffix}", 443) for service in called}


def resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP))
    except OSError:
        return False


def metadata(endpoint: str, name: str) -> str:
    """One fact of the instance's own metadata (version 2). Raises StepFailed."""
    url = urlsplit(endpoint)
    connection = http.client.HTTPConnection(url.netloc, timeout=METADATA_SECONDS)
    try:
        connection.request(
            "PUT", "/latest/api/token", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        )
        token = connection.getresponse().read().decode()
        path = f"/latest/meta-data/{name}"
        connection.request("GET", path, headers={"X-aws-ec2-metadata-token": token})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != HTTPStatus.OK:
            raise StepFailed(f"the instance's metadata have no {name} (HTTP {answer.status})")
        return text.strip()
    except OSError as error:
        raise StepFailed(f"the instance's metadata do not answer: {error}") from error
    finally:
        connection.close()
