"""Trainyard's own admin calls: break a part of the local cloud, or make AWS behave otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from sam_on_moto.cloud import Handler
from sam_on_moto.gateway.admin import Call, json_object
from sam_on_moto.wire.messages import Request, Response, json_response

if TYPE_CHECKING:
    from trainyard_local.local_cloud import LocalCloud


def calls(cloud: LocalCloud) -> Mapping[Call, Handler]:
    """By method and name, what answers."""
    return {("POST", "fault"): partial(_fault, cloud), ("POST", "quirk"): partial(_quirk, cloud)}


def _fault(cloud: LocalCloud, request: Request) -> Response:
    from trainyard_local import faults

    body = json_object(request)
    if body is None:
        words = (
            "the body must be a JSON object with kind, cluster and, depending on the kind, "
            "node or run"
        )
        return json_response(400, {"message": words})
    try:
        return json_response(200, faults.apply(cloud, body))
    except faults.FaultError as error:
        return json_response(error.status, {"message": str(error), "code": error.code})
    except (ValueError, LookupError) as error:
        return json_response(400, {"message": str(error)})


def _quirk(cloud: LocalCloud, request: Request) -> Response:
    """Let AWS differ from what is taken for true of it, or end that: quirks.py."""
    try:
        return json_response(200, {"quirks": cloud.quirks.set(json_object(request) or {})})
    except ValueError as error:
        return json_response(400, {"message": str(error), "code": "invalid-request"})
