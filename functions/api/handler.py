"""The API's Lambda function: it gets an event of API Gateway and returns the answer."""

from __future__ import annotations

from typing import Any

from trainyard.http.api import Api
from trainyard.wiring import ports

_api = Api(ports)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    return _api.handle(event, context)
