"""The calls under /_trainyard/ by which the CLI looks at a local cloud, breaks it on purpose, and ends it."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainyard_local.http_messages import Request, Response, json_response
from trainyard_local.local_cloud import LocalCloud

PREFIX = "/_trainyard/"
#: Carries the token that local.json holds, which its owner alone may read.
HEADER = "x-trainyard-token"


class Admin:
    """Answers the admin calls. `end` is called after the answer to shutdown is made; `update` runs a template's code."""

    def __init__(
        self, cloud: LocalCloud, end: Callable[[], None], update: Callable[[Path], None]
    ) -> None:
        self._cloud = cloud
        self._end, self._update_stack = end, update
        self.ready = False
        self.token = secrets.token_hex(16)

    def handle(self, request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get(HEADER, "").encode(), self.token.encode()):
            message = f"send the header {HEADER} with the adminToken of local.json, which lies in the state directory"
            return json_response(403, {"message": message, "code": "forbidden"})
        routes: dict[tuple[str, str], Callable[[Request], Response]] = {
            ("GET", "status"): self._status,
            ("POST", "fault"): self._fault,
            ("POST", "fire"): self._fire,
            ("POST", "quirk"): self._quirk,
            ("POST", "update"): self._update,
            ("POST", "shutdown"): self._shutdown,
        }
        route = routes.get((request.method, request.raw_path.removeprefix(PREFIX)))
        if route is None:
            return json_response(
                404,
                {
                    "message": f"no such call: {request.method} {request.raw_path}; there are {[f'{m} {PREFIX}{p}' for m, p in routes]}"
                },
            )
        return route(request)

    def _status(self, request: Request) -> Response:
        parts = {name: report() for name, report in self._cloud.reporters.items()}
        return json_response(
            200,
            {
                "ready": self.ready,
                "endpoint": self._cloud.endpoint,
                "stateDir": str(self._cloud.state_dir),
                **parts,
            },
        )

    def _fault(self, request: Request) -> Response:
        from trainyard_local import faults

        body = _object(request)
        if body is None:
            return json_response(
                400,
                {
                    "message": "the body must be a JSON object with kind, cluster and, depending on the kind, node or run"
                },
            )
        try:
            return json_response(200, faults.apply(self._cloud, body))
        except faults.FaultError as error:
            return json_response(error.status, {"message": str(error), "code": error.code})
        except (ValueError, LookupError) as error:
            return json_response(400, {"message": str(error)})

    def _quirk(self, request: Request) -> Response:
        """Let AWS differ from what is taken for true of it, or end that: trainyard_local/quirks.py."""
        body = _object(request)
        try:
            return json_response(200, {"quirks": self._cloud.quirks.set(body or {})})
        except ValueError as error:
            return json_response(400, {"message": str(error), "code": "invalid-request"})

    def _update(self, request: Request) -> Response:
        """Run the code of the template that the body names: {"template": absolute path}."""
        from trainyard_local.intrinsics import TemplateError

        template = Path(str((_object(request) or {}).get("template", "")))
        if not self.ready or not template.is_absolute():
            words = 'send {"template": absolute path} to a local cloud that is up'
            return json_response(400, {"message": words, "code": "invalid-request"})
        try:
            self._update_stack(template)
        except TemplateError as error:
            return json_response(400, {"message": str(error), "code": "template"})
        return json_response(200, {"template": str(template)})

    def _fire(self, request: Request) -> Response:
        """Fire a schedule out of turn, as tests of the sweep need."""
        name = (_object(request) or {}).get("schedule", "")
        if not self._cloud.schedules.fire(str(name)):
            known = [s["name"] for s in self._cloud.schedules.report()]
            return json_response(
                404,
                {
                    "message": f'no schedule {name!r}; there are {known}. Send one as {{"schedule": name}}.'
                },
            )
        return json_response(202, {"fired": name})

    def _shutdown(self, request: Request) -> Response:
        self._end()
        return json_response(202, {"ending": True})


def _object(request: Request) -> dict[str, Any] | None:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
