"""What our own functions logged while a first light went on."""

from __future__ import annotations

import json
from typing import Any

from .world import Json, World


def logged(world: World, logical_id: str) -> list[Json]:
    """What one of our functions logged since the cluster was asked for.

    It is the JSON lines of its log group, which is given by its name in the template.
    """
    group = world.account.resource(logical_id)
    if group is None or "create" not in world.began:
        return []
    request: Json = {
        "logGroupName": group,
        "startTime": int(world.began["create"].timestamp() * 1000),
    }
    found: list[Json] = []
    while True:
        page = world.asked("logs", "FilterLogEvents", **request)
        if page is None:
            return found
        found += [
            line for event in page["events"] if (line := _object(event["message"])) is not None
        ]
        if not page.get("nextToken"):
            return found
        request["nextToken"] = page["nextToken"]


def _object(text: str) -> Json | None:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
