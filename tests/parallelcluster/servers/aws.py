"""Runs moto as the AWS of ParallelCluster's API on loopback: `python aws.py PORT`.

What moto 5.2.5 lacks has an inert stand-in here, so a stack that is complete proves the API, its
validators and its template, and nothing of the resources.
"""

from __future__ import annotations

import sys
import uuid
from typing import Any

import loopback

loopback.hold()

import moto.cloudformation.models as stacks  # noqa: E402
import moto.cloudformation.parsing as parsing  # noqa: E402
from moto.core.common_models import CloudFormationModel  # noqa: E402
from moto.ec2.models import ec2_backends  # noqa: E402
from moto.ec2.responses import EC2Response  # noqa: E402
from moto.ec2.responses.instances import InstanceResponse  # noqa: E402
from moto.fsx.models import FileSystem  # noqa: E402

_IDS = {"AWS::FSx::FileSystem": "fs-", "AWS::EC2::Instance": "i-"}
#: moto starts no instance from a launch template within a stack.
_ALWAYS = {"AWS::EC2::Instance"}


class StandIn(CloudFormationModel):
    """A resource of any kind: it is there, keeps its properties, and answers every attribute."""

    __module__ = "moto.standin.models"

    def __init__(self, name: str, properties: dict[str, Any], kind: str) -> None:
        self.name, self.properties, self.type = name, properties, kind
        prefix = _IDS.get(kind)
        self.physical_id = f"{prefix}{uuid.uuid4().hex[:17]}" if prefix else name

    @property
    def physical_resource_id(self) -> str:
        return self.physical_id

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::StandIn::Resource"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return f"{self.name}-{attribute_name}"

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **more: Any,
    ) -> StandIn:
        kind = more.get("ResourceType", "")
        made = cls(resource_name, cloudformation_json.get("Properties", {}), kind)
        if kind == "AWS::EC2::Instance":
            made.physical_id = _head_node(more["StackId"], account_id, region_name)
        return made

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: StandIn,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> StandIn:
        original_resource.properties = cloudformation_json.get("Properties", {})
        return original_resource

    @classmethod
    def delete_from_cloudformation_json(cls, *arguments: Any, **more: Any) -> None:
        return None


def _head_node(stack_id: str, account_id: str, region: str) -> str:
    """A real instance of moto's, with the tags by which ParallelCluster finds its head node."""
    backend = ec2_backends[account_id][region]
    tags = {
        "parallelcluster:cluster-name": stack_id.split("/")[1],
        "parallelcluster:node-type": "HeadNode",
        "Name": "HeadNode",
    }
    made = backend.run_instances(
        next(iter(backend.amis)),
        1,
        "",
        [],
        instance_type="c5.xlarge",
        is_instance_type_default=False,
        lifecycle=None,
        tags={"instance": tags},
    )
    return str(made.instances[0].id)


_class_of = parsing.resource_class_from_type


def _resource_class(kind: str) -> Any:
    if kind in parsing.NULL_MODELS:
        return None
    known = kind in parsing.get_model_map() and kind not in _ALWAYS
    return _class_of(kind) if known else StandIn


def _stack_attribute(self: Any, attribute: str) -> str:
    key = attribute.rpartition(".")[2]
    for output in self.output_map.values():
        if output.key == key:
            return str(output.value)
    return f"{self.name}-{key}"


def _reservations(self: Any) -> str:
    """DescribeCapacityReservations: those that the test made (`reservations.py` describes each)."""
    from reservations import RESERVATIONS

    asked = self._get_param("CapacityReservationIds", []) or list(RESERVATIONS)
    items = "".join(
        "<item>"
        + "".join(f"<{key}>{value}</{key}>" for key, value in RESERVATIONS[one].items())
        + "</item>"
        for one in asked
        if one in RESERVATIONS
    )
    return (
        '<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<capacityReservationSet>{items}</capacityReservationSet>"
        "</DescribeCapacityReservationsResponse>"
    )


_described = FileSystem.to_dict
_made = FileSystem.__init__


def _make_filesystem(self: Any, *arguments: Any, **more: Any) -> None:
    """With an id of today's length, and the name by which a filesystem is mounted."""
    _made(self, *arguments, **more)
    self.file_system_id = f"fs-{uuid.uuid4().hex[:17]}"
    self.lustre_configuration = {**(self.lustre_configuration or {}), "MountName": "abcdefgh"}


def _describe_filesystem(self: Any) -> dict[str, Any]:
    """VPC and interfaces are those that the test gave as tags; moto keeps neither."""
    told = _described(self)
    tags = {tag["Key"]: tag["Value"] for tag in told.get("Tags", [])}
    interfaces = [tags["test-interface"]] if "test-interface" in tags else []
    return {**told, "VpcId": tags.get("test-vpc"), "NetworkInterfaceIds": interfaces}


def _mapped(check: Any) -> Any:
    """moto wants a size in each mapping. EC2 needs none for a machine's own disk, and takes that of
    a root volume from the image.
    """

    def checked(mapping: dict[str, Any]) -> None:
        volume = mapping.get("Ebs", {})
        if not mapping.get("VirtualName") and ("VolumeSize" in volume or "SnapshotId" in volume):
            check(mapping)

    return staticmethod(checked)


_resources_of = stacks.CloudFormationBackend.describe_stack_resources


def _named_resources(self: Any, *arguments: Any) -> Any:
    """moto keeps no logical id of some kinds, and an update asks for all of a stack's by theirs."""
    stack, found = _resources_of(self, *arguments)
    return stack, [one for one in found if getattr(one, "logical_resource_id", None)]


stacks.CloudFormationBackend.describe_stack_resources = _named_resources
parsing.resource_class_from_type = _resource_class
stacks.Stack.get_cfn_attribute = _stack_attribute
EC2Response.describe_capacity_reservations = _reservations
FileSystem.__init__ = _make_filesystem
FileSystem.to_dict = _describe_filesystem
InstanceResponse._validate_block_device_mapping = _mapped(
    InstanceResponse._validate_block_device_mapping
)

if __name__ == "__main__":
    from moto.server import main

    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
