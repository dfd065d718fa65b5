"""Subnets, route tables, endpoints and security groups of a scope, read once for all checks."""

from __future__ import annotations

from .account import Account, Json
from .scope import Scope


def subnets_of(account: Account, scope: Scope) -> list[Json]:
    """The scope's subnets that exist.

    EC2 refuses a whole call for one wrong id, so the ids are given as a filter.
    """
    wanted = scope.subnets(account)
    if not wanted:
        return []
    return list(
        account.all(
            "ec2", "DescribeSubnets", "Subnets", Filters=[{"Name": "subnet-id", "Values": wanted}]
        )
    )


def security_groups_of(account: Account, scope: Scope) -> list[Json]:
    wanted = scope.security_groups(account)
    if not wanted:
        return []
    return list(
        account.all(
            "ec2",
            "DescribeSecurityGroups",
            "SecurityGroups",
            Filters=[{"Name": "group-id", "Values": wanted}],
        )
    )


def route_table_of(account: Account, subnet: Json) -> Json | None:
    """The subnet's own, else its VPC's main one."""
    vpc = [{"Name": "vpc-id", "Values": [subnet["VpcId"]]}]
    tables = list(account.all("ec2", "DescribeRouteTables", "RouteTables", Filters=vpc))
    own = [
        table
        for table in tables
        if any(one.get("SubnetId") == subnet["SubnetId"] for one in table.get("Associations") or [])
    ]
    main = [
        table for table in tables if any(one.get("Main") for one in table.get("Associations") or [])
    ]
    return next(iter([*own, *main]), None)


def endpoints_of(account: Account, vpc_id: str) -> list[Json]:
    """The VPC's endpoints that work now."""
    found = account.all(
        "ec2",
        "DescribeVpcEndpoints",
        "VpcEndpoints",
        Filters=[{"Name": "vpc-id", "Values": [vpc_id]}],
    )
    return [endpoint for endpoint in found if str(endpoint["State"]).lower() == "available"]


def allows_all(permission: Json) -> bool:
    return str(permission.get("IpProtocol")) == "-1"


def names_group(permission: Json, group_id: str) -> bool:
    return any(pair.get("GroupId") == group_id for pair in permission.get("UserIdGroupPairs") or [])
