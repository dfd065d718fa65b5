"""POSIX users with the same uid on every node, and their SSH keys."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from typing import Any

from node import Node, StepFailed, command, say


def users(node: Node) -> None:
    for user in node.cluster.get("users") or []:
        ensure_account(node, user)
        write_keys(node, user)


def ensure_account(node: Node, user: Mapping[str, Any]) -> None:
    name, uid = user["name"], int(user["uid"])
    if node.local:
        say(f"skipped: useradd {name}: accounts cannot be made under a root prefix")
        return
    try:
        have = pwd.getpwnam(name)
    except KeyError:
        command(
            [
                "useradd",
                "--uid",
                str(uid),
                "--create-home",
                "--home-dir",
                f"/home/{name}",
                "--shell",
                "/bin/bash",
                "--",
                name,
            ]
        )
        say(f"user {name} ({uid}) made")
        return
    if have.pw_uid != uid:
        raise StepFailed(
            f"user {name} exists with uid {have.pw_uid}, users asks for {uid}; "
            "choose another name or that uid"
        )


def write_keys(node: Node, user: Mapping[str, Any]) -> None:
    keys = user.get("sshKeys") or []
    if not keys:
        return
    name = user["name"]
    directory = node.path(f"/home/{name}/.ssh")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    node.write(
        f"/home/{name}/.ssh/authorized_keys", "".join(key + "\n" for key in keys), mode=0o600
    )
    if not node.local:
        for path in (directory, directory / "authorized_keys"):
            os.chown(path, int(user["uid"]), pwd.getpwnam(name).pw_gid)
