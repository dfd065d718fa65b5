"""Do the subnets lead to every service that the nodes call, by a NAT or by an endpoint for each?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, Json
from ..findings import Finding
from ..network import endpoints_of, route_table_of, subnets_of
from ..scope import Scope

#: What HyperPod's and Trainyard's programs on a node call. S3 has a gateway or an interface, the
#: others interfaces.
SERVICES = ("s3", "ssm", "ssmmessages", "events", "secretsmanager", "logs", "sagemaker.api")


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    for subnet in subnets_of(account, scope):
        table = route_table_of(account, subnet)
        way = _default_route(table) if table else None
        if way is not None and way.get("State") == "blackhole":
            yield _finding(
                subnet,
                f"its default route leads to {_target(way)}, which is gone",
                "Make the NAT gateway again, or mend the route",
            )
        elif way is not None and str(way.get("GatewayId") or "").startswith("igw-"):
            problem = (
                "it is public: HyperPod gives its nodes no public address, so an internet "
                "gateway is no way out for them"
            )
            yield _finding(
                subnet, problem, "Take a private subnet, whose default route leads to a NAT gateway"
            )
        elif way is None:
            yield from _without_nat(account, subnet, table)


def _without_nat(account: Account, subnet: Json, table: Json | None) -> Iterator[Finding]:
    there = endpoints_of(account, subnet["VpcId"])
    missing = [
        name
        for name in SERVICES
        if not any(_serves(one, name, account.region, table) for one in there)
    ]
    if missing:
        problem = f"it has no default route, and its VPC no endpoint for {', '.join(missing)}"
        yield _finding(
            subnet, problem, "Add a NAT gateway, or those endpoints; network.yaml makes either"
        )


def _serves(endpoint: Json, name: str, region: str, table: Json | None) -> bool:
    if endpoint["ServiceName"] != f"com.amazonaws.{region}.{name}":
        return False
    if endpoint["VpcEndpointType"] == "Gateway":
        return table is not None and table["RouteTableId"] in (endpoint.get("RouteTableIds") or [])
    return bool(endpoint.get("PrivateDnsEnabled"))


def _default_route(table: Json) -> Json | None:
    return next(
        (
            route
            for route in table.get("Routes") or []
            if route.get("DestinationCidrBlock") == "0.0.0.0/0"
        ),
        None,
    )


def _target(route: Json) -> str:
    names = (
        "NatGatewayId",
        "GatewayId",
        "TransitGatewayId",
        "NetworkInterfaceId",
        "InstanceId",
        "VpcPeeringConnectionId",
    )
    return next((str(route[name]) for name in names if route.get(name)), "nothing")


def _finding(subnet: Json, problem: str, remedy: str) -> Finding:
    return Finding("routes", "failure", f"subnet {subnet['SubnetId']}", problem, remedy)
