"""What the stories do alike to clusters with Slurm, a shared filesystem and our agent."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.adapter import Adapter
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
def nodes_may_not_export(system: System, run: Json, path: str) -> Iterator[None]:
    """Take the right to write the run's export from the roles below an IAM path for a while."""
    iam = system.aws("iam")
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


class OnSlurm(Adapter):
    """A backend whose clusters have Slurm, a shared filesystem and our agent."""

    @abstractmethod
    def roles(self, run: Json) -> str:
        """Below which IAM path the roles of the run's nodes lie."""

    def kill_worker(self, system: System, run: Json) -> None:
        system.fault("kill-process", run["clusterName"], run=run["id"])

    def lose_node(self, system: System, run: Json) -> None:
        lost = system.node(run["clusterName"], run["attempts"][-1]["nodes"][-1])
        system.fault("kill-node", run["clusterName"], node=lost["instanceId"])

    def tear(self, system: System, run: Json, checkpoint: Json) -> None:
        tear(system.run_dir(run["id"]), checkpoint)

    @contextmanager
    def spoiled_export(self, system: System, run: Json) -> Iterator[None]:
        with nodes_may_not_export(system, run, self.roles(run)):
            yield

    def left(self, system: System, cluster: Json) -> list[str]:
        return files_and_processes(system, cluster)

    def keeps(self, system: System, run: Json) -> list[str]:
        return checkpoints(system.run_dir(run["id"]))
