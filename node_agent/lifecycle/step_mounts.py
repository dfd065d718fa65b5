"""The shared filesystem (FSx for Lustre) and read-only buckets (Mountpoint for Amazon S3)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node import Node, StepFailed, command, repeatedly, say

FSTAB = "/etc/fstab"
MOUNT_S3 = "/usr/bin/mount-s3"
#: Where AWS publishes it (the S3 user guide, "Installing Mountpoint").
RELEASE = "https://s3.amazonaws.com/mountpoint-s3-release/latest"
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64"}
#: The image's installer of packages, the kind that it takes, and its words before the file.
INSTALLERS = (
    ("/usr/bin/apt-get", "deb", ("-o", "DPkg::Lock::Timeout=300", "install", "-qy")),
    ("/usr/bin/dnf", "rpm", ("install", "-qy")),
    ("/usr/bin/yum", "rpm", ("install", "-qy")),
)
INSTALL_SECONDS = 600.0


def shared_path(node: Node) -> str:
    """Where the shared filesystem lies, below the root."""
    filesystem = node.cluster.get("sharedFilesystem")
    return str(filesystem["mountPath"] if filesystem else node.cluster["sharedPath"])


def shared_filesystem(node: Node) -> None:
    if node.local:
        link_shared(node)
        return
    filesystem = node.cluster["sharedFilesystem"]
    target = shared_path(node)
    Path(target).mkdir(parents=True, exist_ok=True)
    source = f"{filesystem['dnsName']}@tcp:/{filesystem['mountName']}"
    # Lifecycle scripts do not run again after a reboot, so the mount must be in fstab.
    remember(node, f"{source} {target} lustre defaults,noatime,flock,_netdev,nofail 0 0")
    if not os.path.ismount(target):
        load_modules()
        repeatedly(node, "mount", lambda: mount(source, target))
    say(f"{target} is {source}")


def mounted_already(node: Node) -> None:
    """The same where the cluster's own software mounts it. Raises StepFailed."""
    if node.local:
        link_shared(node)
    elif not os.path.ismount(shared_path(node)):
        raise StepFailed(
            f"nothing is mounted at {shared_path(node)}; ParallelCluster mounts the cluster's "
            "first sharedStorage there before this script runs"
        )


def load_modules() -> None:
    """The Lustre client's modules.

    Where they are built in, or load by themselves, nothing is to do.
    """
    for module in ("lnet", "lustre"):
        try:
            command(["modprobe", module])
        except StepFailed as failed:
            say(f"modprobe {module}: {failed}")


def mount(source: str, target: str) -> None:
    command(["mount", "-t", "lustre", "-o", "noatime,flock", source, target], timeout=120)


def link_shared(node: Node) -> None:
    shared = node.environ.get("TRAINYARD_SHARED")
    if not shared:
        raise StepFailed(
            "TRAINYARD_SHARED is not set; under TRAINYARD_ROOT it names the directory that "
            "stands for FSx"
        )
    link = node.path(shared_path(node))
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(shared)
    say(
        "skipped: mount -t lustre: cannot run under a root prefix; "
        f"{shared_path(node)} is a link to {shared}"
    )


def buckets(node: Node) -> None:
    for number, mount in enumerate(node.cluster.get("s3Mounts") or []):
        target = mount["mountPath"]
        if node.local:
            node.path(target).mkdir(parents=True, exist_ok=True)
            say(f"skipped: mount-s3 {mount['bucket']} {target}: cannot run under a root prefix")
            continue
        ensure_mountpoint(node, mount)
        Path(target).mkdir(parents=True, exist_ok=True)
        unit = f"trainyard-s3-{number}.service"
        node.write(f"/etc/systemd/system/{unit}", mount_unit(mount))
        command(["systemctl", "daemon-reload"])
        command(["systemctl", "enable", "--now", unit], timeout=120)
        say(f"{target} is s3://{mount['bucket']}/{mount.get('prefix') or ''}")


def ensure_mountpoint(node: Node, mount: Mapping[str, Any]) -> None:
    """Install Mountpoint for Amazon S3 where the image lacks it. Raises StepFailed."""
    if os.access(MOUNT_S3, os.X_OK):
        return
    try:
        repeatedly(node, "Mountpoint for Amazon S3", install_mountpoint)
    except StepFailed as failed:
        raise StepFailed(
            f"s3Mounts: s3://{mount['bucket']} cannot be mounted at {mount['mountPath']}: this "
            f"node's image has no {MOUNT_S3} (Mountpoint for Amazon S3), and it could not be "
            f"installed from {RELEASE}: {failed}; let the nodes reach that address, use an image "
            "that has it, or copy the data to the shared filesystem and remove s3Mounts"
        ) from None
    say(f"Mountpoint for Amazon S3 is installed from {RELEASE}")


def install_mountpoint() -> None:
    """As AWS's page has it for Debian's and Red Hat's kinds of packages. Raises StepFailed."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise StepFailed(f"AWS publishes none for the architecture {machine}")
    found = next((one for one in INSTALLERS if os.access(one[0], os.X_OK)), None)
    if found is None:
        raise StepFailed("this image has none of apt-get, dnf and yum")
    program, kind, words = found
    with tempfile.TemporaryDirectory() as directory:
        package = f"{directory}/mount-s3.{kind}"
        url = f"{RELEASE}/{ARCHITECTURES[machine]}/mount-s3.{kind}"
        command(["curl", "-fsSL", "--connect-timeout", "20", "-o", package, url], timeout=120)
        environment = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        command([program, *words, package], timeout=INSTALL_SECONDS, env=environment)
    if not os.access(MOUNT_S3, os.X_OK):
        raise StepFailed(f"the package was installed, but there is no {MOUNT_S3}")


def mount_unit(mount: Mapping[str, Any]) -> str:
    """A systemd unit for one bucket.

    The control plane has limited bucket, path and prefix to plain characters.
    """
    prefix = f" --prefix {mount['prefix'].rstrip('/')}/" if mount.get("prefix") else ""
    return (
        "[Unit]\nDescription=Bucket mounted for "
        "training\nAfter=network-online.target\nWants=network-online.target\n\n"
        "[Service]\nType=forking\n"
        f"ExecStart={MOUNT_S3} --read-only --allow-other{prefix} {mount['bucket']} "
        f"{mount['mountPath']}\n"
        f"ExecStop=/usr/bin/fusermount -u {mount['mountPath']}\nRestart=on-failure\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def remember(node: Node, line: str) -> None:
    """Add a line to fstab, in one rename: half an fstab and the machine does not boot."""
    have = node.path(FSTAB).read_text() if node.path(FSTAB).exists() else ""
    if line not in have.splitlines():
        node.write(FSTAB, have + ("" if have.endswith("\n") or not have else "\n") + line + "\n")
