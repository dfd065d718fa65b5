"""The capacity reservations of the stand-in for EC2, as DescribeCapacityReservations tells them."""

from __future__ import annotations

BLOCK = "cr-0000000000000b10c"
TRAINIUM = "cr-00000000000000a1b"
ELSEWHERE = "cr-00000000000000e1e"


def _reservation(name: str, instance_type: str, kind: str, zone: str, count: int) -> dict[str, str]:
    return {
        "capacityReservationId": name,
        "ownerId": "123456789012",
        "instanceType": instance_type,
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": zone,
        "totalInstanceCount": str(count),
        "availableInstanceCount": str(count),
        "state": "active",
        "reservationType": kind,
        "instanceMatchCriteria": "targeted",
    }


RESERVATIONS = {
    BLOCK: _reservation(BLOCK, "p5.48xlarge", "capacity-block", "us-east-1a", 4),
    TRAINIUM: _reservation(TRAINIUM, "trn1.32xlarge", "default", "us-east-1a", 4),
    ELSEWHERE: _reservation(ELSEWHERE, "trn1.32xlarge", "default", "us-east-1b", 4),
}
