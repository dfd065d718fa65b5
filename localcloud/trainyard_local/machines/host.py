"""What this machine must have so that nodes of the local cloud can be machines.

Where it lacks something, it says what and how to get it.
"""

from __future__ import annotations

import os
import shutil

PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Impossible(Exception):
    """Nodes cannot be machines here; the message says why, `remedy` what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}. {remedy}")
        self.message, self.remedy = message, remedy


def missing() -> tuple[str, str] | None:
    """What is missing, and what to do about it; None if nodes can be machines here."""
    packages = sorted(
        {
            package
            for program, package in PROGRAMS.items()
            if shutil.which(program, path=SEARCH_PATH) is None
        }
    )
    if packages:
        command = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
        return (
            f"packages are missing: {', '.join(packages)}",
            f"On Debian or Ubuntu, as root: {command}",
        )
    if os.geteuid() != 0:
        return (
            "machines need root (namespaces, bridges, mounts), and this is not root",
            "Run it as root, or use --nodes processes",
        )
    return None


def require() -> None:
    """Raises Impossible where nodes cannot be machines."""
    if found := missing():
        raise Impossible(f"nodes cannot be machines here: {found[0]}", found[1])
