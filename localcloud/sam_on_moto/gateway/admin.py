"""The admin calls, by which a local cloud's owner looks at it, changes it and ends it."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sam_on_moto.bus.schedules import Schedules
from sam_on_moto.cloud import Cloud, Handler, Refused
from sam_on_moto.wire.messages import Request, Response, json_response

Call = tuple[str, str]
"""An HTTP method and the call's name, which is the path below the prefix."""


class Admin:
    """Answers the admin calls, `calls` beside its own.

    `end` is called after the answer to shutdown is made; `update` runs a template's code, or
    raises Refused.
    """

    def __init__(
        self,
        cloud: Cloud,
        end: Callable[[], None],
        update: Callable[[Path], None],
        calls: Mapping[Call, Handler] | None = None,
    ) -> None:
        self._cloud = cloud
        self._end, self._update_stack = end, update
        self._prefix, self._header = cloud.naming.admin_prefix, cloud.naming.admin_header
        self._ready = False
        self.token = secrets.token_hex(16)
        """What a caller sends in the admin header; local.json holds it for the owner alone."""
        self._calls: dict[Call, Handler] = {
            ("GET", "status"): self._status,
            ("POST", "update"): self._update,
            ("POST", "shutdown"): self._shutdown,
            **(calls or {}),
        }

    def deployed(self) -> None:
        """The template is: its code may be changed, and callers need not wait any more."""
        self._ready = True

    def handle(self, request: Request) -> Response:
        """Answer a request below the admin prefix."""
        given = request.headers.get(self._header, "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            message = (
                f"send the header {self._header} with the adminToken of local.json, "
                "which lies in the state directory"
            )
            return json_response(403, {"message": message, "code": "forbidden"})
        call = self._calls.get((request.method, request.raw_path.removeprefix(self._prefix)))
        if call is None:
            known = [f"{method} {self._prefix}{name}" for method, name in self._calls]
            message = f"no such call: {request.method} {request.raw_path}; there are {known}"
            return json_response(404, {"message": message})
        return call(request)

    def _status(self, request: Request) -> Response:
        parts = {name: report() for name, report in self._cloud.reporters.items()}
        return json_response(
            200,
            {
                "ready": self._ready,
                "endpoint": self._cloud.endpoint,
                "stateDir": str(self._cloud.state_dir),
                **parts,
            },
        )

    def _update(self, request: Request) -> Response:
        """Run the code of the template that the body names: {"template": absolute path}."""
        template = Path(str((json_object(request) or {}).get("template", "")))
        if not self._ready or not template.is_absolute():
            words = 'send {"template": absolute path} to a local cloud that is up'
            return json_response(400, {"message": words, "code": "invalid-request"})
        try:
            self._update_stack(template)
        except Refused as error:
            return json_response(400, {"message": str(error), "code": "template"})
        return json_response(200, {"template": str(template)})

    def _shutdown(self, request: Request) -> Response:
        self._end()
        return json_response(202, {"ending": True})


def json_object(request: Request) -> dict[str, Any] | None:
    """The body, where it is a JSON object; an empty body is an empty one."""
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def fire(schedules: Schedules, request: Request) -> Response:
    """Fire a schedule out of turn: nobody wants to wait for it."""
    name = (json_object(request) or {}).get("schedule", "")
    if not schedules.fire(str(name)):
        known = [schedule["name"] for schedule in schedules.report()]
        message = f'no schedule {name!r}; there are {known}. Send one as {{"schedule": name}}.'
        return json_response(404, {"message": message})
    return json_response(202, {"fired": name})


def move_clock(schedules: Schedules, request: Request) -> Response:
    """Set the clock of the API's schedules forward: nobody wants to wait for the night."""
    text = str((json_object(request) or {}).get("to", ""))
    try:
        to = datetime.fromisoformat(text.replace("Z", "+00:00"))
        schedules.of_api.move(to if to.tzinfo else to.replace(tzinfo=timezone.utc))
    except ValueError as error:
        message = f'{error}; send {{"to": a time to come, such as 2027-01-31T02:00:00Z}}'
        return json_response(400, {"message": message, "code": "invalid-request"})
    return json_response(202, {"now": schedules.of_api.now().isoformat()})
