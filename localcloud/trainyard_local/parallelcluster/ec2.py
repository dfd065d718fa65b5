"""The two calls of EC2 that clusters of ParallelCluster's need: end an instance, and read tags."""

from __future__ import annotations

from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ec2.responses.instances import InstanceResponse
from moto.ec2.responses.tags import TagResponse

from sam_on_moto.moto_patches.pinned import replace
from trainyard_local.parallelcluster.clusters import Clusters

_RUNNING = {"Code": 16, "Name": "running"}
_ENDING = {"Code": 32, "Name": "shutting-down"}


class Ec2Error(ServiceException):  # type: ignore[misc]
    """An EC2 error by its code."""


def install(clusters: Clusters) -> None:
    """Put them in the place of moto's, whose instances are no nodes of ours."""
    replace(InstanceResponse, "terminate_instances", lambda self: _terminate(clusters, self))
    replace(TagResponse, "describe_tags", lambda self: _tags(clusters, self))


def _terminate(clusters: Clusters, request: Any) -> ActionResult:
    ids = list(request._get_param("InstanceIds", []))
    found = {one: clusters.instance(one) for one in ids}
    if missing := [one for one in ids if found[one] is None]:
        words = f"The instance ID '{missing[0]}' does not exist"
        raise Ec2Error("InvalidInstanceID.NotFound", words)
    for known in found.values():
        assert known is not None
        known[0].power_cut(known[1])
    told = [{"InstanceId": one, "CurrentState": _ENDING, "PreviousState": _RUNNING} for one in ids]
    return ActionResult({"TerminatingInstances": told})


def _tags(clusters: Clusters, request: Any) -> ActionResult:
    filters = request._filters_from_querystring()
    told = []
    for one in filters.get("resource-id", []):
        known = clusters.instance(one)
        for key, value in known[0].tags.items() if known else ():
            if key in filters.get("key", [key]):
                told.append(
                    {"ResourceId": one, "ResourceType": "instance", "Key": key, "Value": value}
                )
    return ActionResult({"Tags": told})
