"""Mounts on a node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lifecycle import a_node, on_aws


def test_on_aws_mounts_and_users_are_made_with_the_real_programs(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    target = tmp_path / "fsx"
    filesystem = {
        "dnsName": "fs-1.fsx.eu-west-1.amazonaws.com",
        "mountName": "abc",
        "mountPath": str(target),
    }
    local = a_node(scripts, tmp_path / "root", bundle, sharedFilesystem=filesystem)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    monkeypatch.setattr(scripts.step_mounts, "FSTAB", str(tmp_path / "fstab"))
    for module in (scripts.step_mounts, scripts.step_accounts):
        monkeypatch.setattr(module, "command", lambda argv, **options: ran.append(list(argv)))
    for _ in range(2):
        scripts.step_mounts.shared_filesystem(node)
    scripts.step_accounts.ensure_account(node, {"name": "no-such-user-here", "uid": 5000})
    source = "fs-1.fsx.eu-west-1.amazonaws.com@tcp:/abc"
    assert ran[:2] == [["modprobe", "lnet"], ["modprobe", "lustre"]]
    assert ran[2] == ["mount", "-t", "lustre", "-o", "noatime,flock", source, str(target)]
    assert (
        tmp_path / "fstab"
    ).read_text() == f"{source} {target} lustre defaults,noatime,flock,_netdev,nofail 0 0\n"
    assert ran[-1][:3] == ["useradd", "--uid", "5000"]


def lustre(scripts: SimpleNamespace, tmp_path: Path, bundle: Path, patch: Any) -> Any:
    """A node as on AWS, whose shared filesystem comes to a directory of the test."""
    filesystem = {
        "dnsName": "fs-1.fsx.eu-west-1.amazonaws.com",
        "mountName": "abc",
        "mountPath": str(tmp_path / "fsx"),
    }
    patch.setattr(scripts.step_mounts, "FSTAB", str(tmp_path / "fstab"))
    return on_aws(scripts, tmp_path, bundle, sharedFilesystem=filesystem)


@pytest.mark.parametrize("fails", [0, 1, 4])
def test_a_mount_that_fails_at_first_is_tried_five_times(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: int,
) -> None:
    """The node's network may come a moment after the scripts; a controller fails its cluster."""
    node = lustre(scripts, tmp_path, bundle, monkeypatch)
    mounts, slept = list[str](), list[float]()

    def command(argv: list[str], **options: Any) -> str:
        if argv[0] == "mount":
            mounts.append(argv[-2])
            if len(mounts) <= fails:
                raise scripts.node.StepFailed("mount.lustre: Input/output error")
        return ""

    monkeypatch.setattr(scripts.step_mounts, "command", command)
    monkeypatch.setattr(scripts.node.time, "sleep", slept.append)
    scripts.step_mounts.shared_filesystem(node)
    assert mounts == ["fs-1.fsx.eu-west-1.amazonaws.com@tcp:/abc"] * (fails + 1)
    assert slept == [5.0] * fails


def test_a_mount_that_never_succeeds_fails_the_node_after_five_tries(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lustre(scripts, tmp_path, bundle, monkeypatch)
    mounts = list[list[str]]()

    def command(argv: list[str], **options: Any) -> str:
        if argv[0] == "mount":
            mounts.append(argv)
            raise scripts.node.StepFailed("mount.lustre: Input/output error")
        return ""

    monkeypatch.setattr(scripts.step_mounts, "command", command)
    monkeypatch.setattr(scripts.node.time, "sleep", lambda seconds: None)
    with pytest.raises(scripts.node.StepFailed, match=r"mount\.lustre: Input/output error"):
        scripts.step_mounts.shared_filesystem(node)
    assert len(mounts) == 5


MOUNT = {"bucket": "corpus", "mountPath": "/data"}
RELEASE = "https://s3.amazonaws.com/mountpoint-s3-release/latest"


class Image:
    """A node whose image has some installers; `fails` of the programs' first calls fail."""

    def __init__(
        self, scripts: SimpleNamespace, patch: Callable[..., None], installer: str, machine: str
    ) -> None:
        self.steps, self.ran, self.fails = scripts.step_mounts, list[list[str]](), 0
        self.has = {installer}
        self.failed = scripts.node.StepFailed
        patch(self.steps.os, "access", lambda path, mode: path in self.has)
        patch(self.steps.os, "uname", lambda: SimpleNamespace(machine=machine))
        patch(self.steps, "command", self.command)
        patch(scripts.node.time, "sleep", lambda seconds: None)

    def command(self, argv: list[str], **options: Any) -> str:
        self.ran.append(argv)
        if len(self.ran) <= self.fails:
            raise self.failed("curl: (28) Connection timed out")
        if argv[0] in self.has:
            assert os.path.basename(argv[-1]).startswith("mount-s3.")
            self.has.add(self.steps.MOUNT_S3)
        return ""


@pytest.mark.parametrize(
    ("installer", "machine", "url"),
    [
        ("/usr/bin/apt-get", "x86_64", f"{RELEASE}/x86_64/mount-s3.deb"),
        ("/usr/bin/apt-get", "aarch64", f"{RELEASE}/arm64/mount-s3.deb"),
        ("/usr/bin/dnf", "aarch64", f"{RELEASE}/arm64/mount-s3.rpm"),
        ("/usr/bin/yum", "x86_64", f"{RELEASE}/x86_64/mount-s3.rpm"),
    ],
)
def test_mountpoint_is_installed_as_aws_publishes_it_for_the_image(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch,
    installer: str, machine: str, url: str,
) -> None:  # fmt: skip
    local = a_node(scripts, tmp_path / "root", bundle)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    image = Image(scripts, monkeypatch.setattr, installer, machine)
    image.fails = 2
    scripts.step_mounts.ensure_mountpoint(node, MOUNT)
    assert [argv[-1] for argv in image.ran[:3]] == [url] * 3, "it is tried again"
    assert image.ran[3][0] == installer
    assert "install" in image.ran[3]
    scripts.step_mounts.ensure_mountpoint(node, MOUNT)
    assert len(image.ran) == 4, "what is there is left alone"


@pytest.mark.parametrize(
    ("installer", "machine", "fails", "words"),
    [
        ("/usr/bin/dnf", "x86_64", 99, "Connection timed out; let the nodes reach that address"),
        ("/usr/bin/dnf", "riscv64", 0, "none for the architecture riscv64"),
        ("/usr/bin/zypper", "x86_64", 0, "none of apt-get, dnf and yum"),
    ],
)
def test_where_mountpoint_cannot_be_had_the_node_says_for_which_bucket_and_what_to_do(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch,
    installer: str, machine: str, fails: int, words: str,
) -> None:  # fmt: skip
    local = a_node(scripts, tmp_path / "root", bundle)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    image = Image(scripts, monkeypatch.setattr, installer, machine)
    image.fails = fails
    with pytest.raises(scripts.node.StepFailed) as failed:
        scripts.step_mounts.ensure_mountpoint(node, MOUNT)
    assert "s3://corpus cannot be mounted at /data" in str(failed.value)
    assert words in str(failed.value)
    assert "remove s3Mounts" in str(failed.value)
