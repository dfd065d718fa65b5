"""Where subnets are, as EC2 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.outside.networks import Place


class Subnets:
    """The port `Networks` on EC2."""

    def __init__(self, ec2: Any) -> None:
        self._ec2 = ec2

    def places(self, subnet_ids: Sequence[str]) -> Mapping[str, Place]:
        # A filter leaves out what there is not; naming the ids would refuse them all.
        filters = [{"Name": "subnet-id", "Values": list(subnet_ids)}]
        with translated("look at subnets"):
            answer = self._ec2.describe_subnets(Filters=filters)
        return {
            str(one["SubnetId"]): Place(str(one["VpcId"]), str(one["AvailabilityZone"]))
            for one in answer["Subnets"]
        }
