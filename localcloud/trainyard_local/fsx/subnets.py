"""EC2's DescribeSubnets: the local cloud has no networks, so a subnet's id says where it is.

Every id exists that has EC2's form. It lies in the network VPC and in zone a, in zone b if it
begins with `subnet-b`, and in another network if it begins with `subnet-f`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from sam_on_moto.inside.place import ACCOUNT_ID, REGION
from trainyard_local.fsx.errors import InvalidNetworkSettings

VPC, OTHER_VPC = "vpc-0a000000000000001", "vpc-0f000000000000001"
_ID = re.compile(r"subnet-[0-9a-f]{8}([0-9a-f]{9})?")


def require(subnet: str) -> str:
    """The network of a subnet. Raises InvalidNetworkSettings for one that there is not."""
    if not _ID.fullmatch(subnet):
        raise InvalidNetworkSettings(f"The subnet ID '{subnet}' does not exist")
    return network_of(subnet)


def network_of(subnet: str) -> str:
    return OTHER_VPC if subnet.startswith("subnet-f") else VPC


def zone_of(subnet: str) -> str:
    return f"{REGION}{'b' if subnet.startswith('subnet-b') else 'a'}"


def wanted(body: bytes) -> list[str] | None:
    """The ids that a request asks for by id or by filter; None = it asks otherwise."""
    fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
    named = [value for name, value in sorted(fields.items()) if name.startswith("SubnetId.")]
    filters = [value for name, value in fields.items() if re.fullmatch(r"Filter\.\d+\.Name", name)]
    if fields.get("Action") != "DescribeSubnets" or any(one != "subnet-id" for one in filters):
        return None
    values = [
        value
        for name, value in sorted(fields.items())
        if re.fullmatch(r"Filter\.\d+\.Value\.\d+", name)
    ]
    return named + values or None


def document(ids: list[str]) -> str:
    """EC2's answer in its own form."""
    items = "".join(_item(one) for one in dict.fromkeys(ids) if _ID.fullmatch(one))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>local</requestId><subnetSet>{items}</subnetSet></DescribeSubnetsResponse>"
    )


def _item(subnet: str) -> str:
    facts: Mapping[str, str] = {
        "subnetId": subnet,
        "vpcId": network_of(subnet),
        "availabilityZone": zone_of(subnet),
        "state": "available",
        "ownerId": ACCOUNT_ID,
    }
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in facts.items())
    return f"<item>{inner}</item>"
