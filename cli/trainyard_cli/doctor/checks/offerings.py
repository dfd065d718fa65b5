"""Are the instance types offered in the zones of the subnets?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account
from ..findings import Finding
from ..network import subnets_of
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    if scope.unknown_backend is not None:
        yield _unknown(scope, scope.unknown_backend)
    zones = {subnet["AvailabilityZone"] for subnet in subnets_of(account, scope)}
    types = scope.ec2_types
    if not types:
        return
    offered = list(
        account.all(
            "ec2",
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": types}],
        )
    )
    for kind in types:
        where = sorted({one["Location"] for one in offered if one["InstanceType"] == kind})
        if not where:
            yield _finding(
                kind,
                f"{account.region} does not offer it at all",
                "Take another type or another region",
            )
        elif zones and not zones & set(where):
            yield _finding(
                kind,
                (
                    f"the subnets lie in {', '.join(sorted(zones))}, and only {', '.join(where)} "
                    "offer it"
                ),
                "Take a subnet in one of those zones",
            )


def _unknown(scope: Scope, backend: str) -> Finding:
    return Finding(
        "offerings",
        "unknown",
        scope.field("backend"),
        f"doctor does not know the instances of '{backend}': none of their types, quotas, "
        "addresses, partitions and training plans was checked",
        "Check them by hand",
    )


def _finding(kind: str, problem: str, remedy: str) -> Finding:
    return Finding("offerings", "failure", f"instance type {kind}", problem, remedy)
