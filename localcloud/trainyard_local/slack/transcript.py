"""What a channel shows, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from trainyard_local.slack.workspace import Workspace

_DATE = re.compile(r"<!date\^(\d+)\^[^|>]*\|[^>]*>")
_FENCE = "```"
_UNESCAPED = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}


def transcript(workspace: Workspace, channel: str) -> str:
    """Every message with its thread, without what only one person sees."""
    seen = [one for one in workspace.of_channel(channel) if "only" not in one]
    lines = [f"#{workspace.channels[channel].name}"]
    for parent in seen:
        if "thread_ts" in parent:
            continue
        lines += ["", *message_lines(parent)]
        for reply in seen:
            if reply.get("thread_ts") == parent["ts"]:
                lines += ["", *(f"    {line}".rstrip() for line in message_lines(reply))]
    return "\n".join(lines)


def message_lines(message: dict[str, Any]) -> Iterator[str]:
    for block in message.get("blocks") or [{"type": "section", "text": {"text": message["text"]}}]:
        if block["type"] == "actions":
            yield "  ".join(f"[{one['text']['text']}]" for one in block["elements"])
            continue
        if block["type"] == "header":
            yield f"== {block['text']['text']}"
            continue
        parts = [block["text"]] if "text" in block else block.get("elements", [])
        for part in parts:
            yield from plain(part["text"]).splitlines()


def plain(mrkdwn: str) -> str:
    """As a person reads it."""
    dated = _DATE.sub(lambda found: _at(int(found[1])), mrkdwn).replace(_FENCE, "")
    for escaped, char in _UNESCAPED.items():
        dated = dated.replace(escaped, char)
    return dated


def _at(stamp: int) -> str:
    return datetime.fromtimestamp(stamp, timezone.utc).strftime("%H:%M:%S")
