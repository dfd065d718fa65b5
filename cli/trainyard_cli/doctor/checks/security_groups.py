"""Do security groups let their members reach each other, as Slurm, the agents and EFA need it?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, Json
from ..findings import Finding
from ..network import allows_all, names_group, security_groups_of
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    found = security_groups_of(account, scope)
    for group_id in sorted(
        set(scope.security_groups(account)) - {group["GroupId"] for group in found}
    ):
        yield _finding(
            group_id, f"there is no such security group in {account.region}", "Correct the id"
        )
    if not found:
        return
    names = ", ".join(group["GroupId"] for group in found)
    if not any(_in(group) for group in found):
        yield _finding(
            names,
            "none allows all traffic from itself",
            "Add an inbound rule: all traffic, source the group itself",
        )
    if not any(_out(group) for group in found):
        yield _finding(
            names,
            "none allows all traffic to itself",
            "Add an outbound rule: all traffic, destination the group itself",
        )


def _in(group: Json) -> bool:
    return any(
        allows_all(rule) and names_group(rule, group["GroupId"])
        for rule in group.get("IpPermissions") or []
    )


def _out(group: Json) -> bool:
    """To itself, or to everywhere as in AWS's default rule.

    EFA's health check asks for the group itself; 0.0.0.0/0 does not count.
    """
    return any(
        allows_all(rule) and names_group(rule, group["GroupId"])
        for rule in group.get("IpPermissionsEgress") or []
    ) or any(
        allows_all(rule)
        and any(one.get("CidrIp") == "0.0.0.0/0" for one in rule.get("IpRanges") or [])
        for rule in group.get("IpPermissionsEgress") or []
    )


def _finding(subject: str, problem: str, remedy: str) -> Finding:
    return Finding("security_groups", "failure", f"security group {subject}", problem, remedy)
