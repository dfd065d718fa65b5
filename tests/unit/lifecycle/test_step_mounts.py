"""Mounts on a node."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.lifecycle import a_node


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
