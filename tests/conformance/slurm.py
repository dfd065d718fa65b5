"""What the stories do alike to clusters with Slurm, a shared filesystem and our agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.system import Json, System

from trainyard_contracts.places import CHECKPOINT_MANIFEST


def tear(run_dir: Path, checkpoint: Json) -> None:
    """Cut the largest file of the checkpoint in half."""
    place = run_dir / checkpoint["path"]
    files = [path for path in place.rglob("*") if path.is_file()]
    victim = max(
        (path for path in files if path.name != CHECKPOINT_MANIFEST),
        key=lambda path: path.stat().st_size,
    )
    with victim.open("r+b") as file:
        file.truncate(victim.stat().st_size // 2)


def checkpoints(run_dir: Path) -> list[str]:
    """Those that have a manifest, which is written last."""
    return sorted(path.parent.name for path in run_dir.glob(f"*/step-*/{CHECKPOINT_MANIFEST}"))


def files_and_processes(system: System, cluster: Json) -> list[str]:
    """What a cluster of nodes that are processes left on this machine."""
    short = str(cluster["arn"] or "").rsplit("/", 1)[-1]
    if not short:
        return []
    place = system.state_dir / "clusters" / short
    found = [process.command for process in system.processes(TRAINYARD_CLUSTER=short)]
    return [*found, *([str(place)] if place.exists() else [])]


@contextmanager
def nodes_may_not_export(system: System, run: Json) -> Iterator[None]:
    """Take the right to write the run's export from the roles of its nodes for a while."""
    iam, path = system.aws("iam"), f"/trainyard/trainyard/{run['clusterName']}/"
    names = [role["RoleName"] for role in iam.list_roles(PathPrefix=path)["Roles"]]
    assert names, f"no role lies below {path}"
    resource = f"arn:aws:s3:::{system.local['bucket']}/{system.export_prefix(run['id'])}*"
    statement = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": resource}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    for name in names:
        iam.put_role_policy(RoleName=name, PolicyName="no-export", PolicyDocument=document)
    try:
        yield
    finally:
        for name in names:
            iam.delete_role_policy(RoleName=name, PolicyName="no-export")
