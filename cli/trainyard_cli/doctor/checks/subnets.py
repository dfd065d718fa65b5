"""Do the subnets exist, in one VPC, with enough free addresses, and are they private?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account
from ..findings import Finding
from ..network import subnets_of
from ..scope import Scope

#: Large GPU types take this many addresses each (Developer Guide, HyperPod prerequisites: P5 takes
#: 32).
ADDRESSES = {
    "p5.": 32,
    "p5e.": 32,
    "p5en.": 32,
    "p6": 32,
    "trn1": 8,
    "trn2": 16,
    "p4": 4,
}


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    wanted, found = scope.subnets(account), subnets_of(account, scope)
    missing = sorted(set(wanted) - {subnet["SubnetId"] for subnet in found})
    for subnet_id in missing:
        yield _finding(
            subnet_id,
            f"there is no such subnet in {account.region}",
            "Correct the id, or take one of this region",
        )
    if scope.cluster is not None and not wanted:
        problem = "neither the spec nor the stack's parameters name a subnet"
        yield _finding(
            scope.field("network"),
            problem,
            "Give subnetIds and securityGroupIds; network.yaml makes them where there are none",
        )
    if len({subnet["VpcId"] for subnet in found}) > 1:
        yield _finding(
            ", ".join(wanted), "they lie in more than one VPC", "Take subnets of one VPC"
        )
    need = sum((group.count + group.spares) * _addresses(group.ec2_type) for group in scope.nodes)
    free = sum(int(subnet["AvailableIpAddressCount"]) for subnet in found)
    if found and free < need:
        yield _finding(
            ", ".join(wanted),
            f"the cluster needs {need} addresses, {free} are free",
            "Take a larger subnet, or free addresses",
        )


def _addresses(instance_type: str) -> int:
    return next(
        (count for prefix, count in ADDRESSES.items() if instance_type.startswith(prefix)), 1
    )


def _finding(subject: str, problem: str, remedy: str) -> Finding:
    return Finding("subnets", "failure", subject, problem, remedy)
