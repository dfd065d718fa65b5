"""Is the FSx for Lustre filesystem available, by its mount name, near the nodes and reachable?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network

from trainyard_contracts.cluster_parts import SharedFilesystem
from trainyard_contracts.places import FILESYSTEM_TAG, STAGE_TAG

from ..account import Account, Json
from ..findings import Finding
from ..network import subnets_of
from ..scope import Scope

#: FSx for Lustre, "File System Access Control with Amazon VPC".
PORTS = ((988, 988), (1018, 1023))


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    wanted = scope.filesystem
    if wanted is None:
        return
    found = account.all("fsx", "DescribeFileSystems", "FileSystems")
    there = next((one for one in found if _is_it(account, wanted, one)), None)
    if there is None:
        yield _missing(account, scope, wanted)
        return
    lustre = there.get("LustreConfiguration") or {}
    if there.get("FileSystemType") != "LUSTRE":
        yield _finding(
            scope,
            "dnsName",
            f"it is of type {there.get('FileSystemType')}",
            "Take an FSx for Lustre filesystem",
        )
    elif wanted.filesystem is None and lustre.get("MountName") != wanted.mount_name:
        yield _finding(
            scope,
            "mountName",
            f"its mount name is '{lustre.get('MountName')}', the spec says '{wanted.mount_name}'",
            "Correct mountName",
        )
    if there.get("Lifecycle") not in ("AVAILABLE", "UPDATING"):
        yield _finding(
            scope,
            "dnsName",
            f"its state is {there.get('Lifecycle')}",
            "Wait until it is AVAILABLE, or mend it",
        )
    yield from _place(account, scope, there)
    yield from _ports(account, scope, there)


def _is_it(account: Account, wanted: SharedFilesystem, one: Json) -> bool:
    """By DNS name, or by the tags of a filesystem that this stack made."""
    if wanted.filesystem is None:
        return one.get("DNSName") == wanted.dns_name
    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags") or []}
    ours = tags.get(STAGE_TAG) == account.stack_name and one.get("Lifecycle") != "DELETING"
    return ours and tags.get(FILESYSTEM_TAG) == wanted.filesystem


def _missing(account: Account, scope: Scope, wanted: SharedFilesystem) -> Finding:
    if wanted.filesystem is None:
        problem = (
            f"no filesystem of this account in {account.region} has the name {wanted.dns_name}"
        )
        return _finding(
            scope, "dnsName", problem, "Correct dnsName (aws fsx describe-file-systems)"
        )
    problem = f"stack '{account.stack_name}' has no filesystem '{wanted.filesystem}'"
    remedy = "Create it (trainyard filesystem create FILE), or correct the name"
    return _finding(scope, "filesystem", problem, remedy)


def _place(account: Account, scope: Scope, there: Json) -> Iterator[Finding]:
    nodes = subnets_of(account, scope)
    own = list(
        account.all(
            "ec2",
            "DescribeSubnets",
            "Subnets",
            Filters=[{"Name": "subnet-id", "Values": there.get("SubnetIds") or []}],
        )
    )
    if nodes and there.get("VpcId") not in {subnet["VpcId"] for subnet in nodes}:
        yield _finding(
            scope,
            "dnsName",
            f"it lies in {there.get('VpcId')}, the nodes do not",
            "Take a filesystem of the nodes' VPC",
        )
        return
    zones, zone = (
        {subnet["AvailabilityZone"] for subnet in nodes},
        {subnet["AvailabilityZone"] for subnet in own},
    )
    if zones and zone and not zones <= zone:
        problem = (
            f"it lies in {', '.join(sorted(zone))}, nodes in {', '.join(sorted(zones))}: "
            "traffic between zones is slow and billed"
        )
        remedy = "Take subnets of the filesystem's zone"
        yield Finding(
            "filesystem", "warning", scope.field("sharedFilesystem.dnsName"), problem, remedy
        )


def _ports(account: Account, scope: Scope, there: Json) -> Iterator[Finding]:
    """Its interfaces' security groups must let the nodes' groups in."""
    interfaces = there.get("NetworkInterfaceIds") or []
    clients = set(scope.security_groups(account))
    if not interfaces or not clients:
        return
    described = account.call(
        "ec2",
        "DescribeNetworkInterfaces",
        Filters=[{"Name": "network-interface-id", "Values": interfaces}],
    )
    ids = sorted(
        {group["GroupId"] for one in described["NetworkInterfaces"] for group in one["Groups"]}
    )
    groups = list(
        account.all(
            "ec2",
            "DescribeSecurityGroups",
            "SecurityGroups",
            Filters=[{"Name": "group-id", "Values": ids}],
        )
    )
    places = [IPv4Network(subnet["CidrBlock"]) for subnet in subnets_of(account, scope)]
    for first, last in PORTS:
        rules = [
            rule
            for group in groups
            for rule in group.get("IpPermissions") or []
            if _opens(rule, first, last)
        ]
        if groups and not _lets_in(rules, clients, places):
            ports = str(first) if first == last else f"{first} to {last}"
            problem = (
                f"none of its security groups ({', '.join(ids)}) lets the nodes in on TCP {ports}"
            )
            remedy = (
                f"Allow TCP {ports} from {', '.join(sorted(clients))}, or give it the nodes' "
                "security group"
            )
            yield _finding(scope, "dnsName", problem, remedy)


def _opens(rule: Json, first: int, last: int) -> bool:
    protocol = str(rule.get("IpProtocol"))
    return protocol == "-1" or (
        protocol == "tcp" and rule.get("FromPort", 0) <= first and last <= rule.get("ToPort", 65535)
    )


def _lets_in(rules: list[Json], clients: set[str], places: Sequence[IPv4Network]) -> bool:
    """By the nodes' groups, by the addresses of all their subnets, or a prefix list (not read)."""
    if any(
        rule.get("PrefixListIds")
        or any(pair.get("GroupId") in clients for pair in rule.get("UserIdGroupPairs") or [])
        for rule in rules
    ):
        return True
    ranges = [IPv4Network(one["CidrIp"]) for rule in rules for one in rule.get("IpRanges") or []]
    return bool(ranges) and all(any(place.subnet_of(one) for one in ranges) for place in places)


def _finding(scope: Scope, field: str, problem: str, remedy: str) -> Finding:
    return Finding(
        "filesystem", "failure", scope.field(f"sharedFilesystem.{field}"), problem, remedy
    )
