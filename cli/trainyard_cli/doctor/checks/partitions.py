"""Would the job land on nodes that it is not meant for?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account
from ..findings import Finding
from ..scope import Scope

#: HyperPod makes it over all nodes, login nodes included, and it is Slurm's default there.
EVERYTHING = "dev"


def check(_account: Account, scope: Scope) -> Iterator[Finding]:
    if scope.cluster is None:
        return
    workers = [group for group in scope.groups if group.role == "worker"]
    names = sorted(filter(None, {scope.cluster.partition_of(group) for group in workers}))
    if EVERYTHING in names:
        problem = f"'{EVERYTHING}' is HyperPod's own partition over all nodes, login nodes included"
        yield Finding(
            "partitions",
            "failure",
            scope.field("instanceGroups"),
            problem,
            "Give the group's partition another name",
        )
    if scope.job is not None and scope.job.partition is None and len(names) > 1:
        problem = f"the cluster has the partitions {', '.join(names)}, and the job names none"
        yield Finding(
            "partitions",
            "failure",
            "job.partition",
            problem,
            f"Name one of them, such as '{names[0]}'",
        )
