"""Takes what Slack sends: verified, queued for the worker and acknowledged within seconds."""

from __future__ import annotations

import os
from typing import Any

from trainyard.chat.front.receive import Front

_front = Front.from_env(os.environ)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    return _front.handle(event)
