"""Messages in Slack's Block Kit, within its limits; foreign text in them is only text.

https://docs.slack.dev/reference/block-kit/blocks and
https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

#: Blocks of a message; characters of a section's text, of a header, and of what notifies.
MOST_BLOCKS, MOST_SECTION, MOST_HEADER, MOST_TEXT = 50, 3000, 150, 3000
#: Characters of a button's text and value; of a confirm dialog's title, text and buttons.
MOST_LABEL, MOST_VALUE, MOST_TITLE, MOST_ASKED, MOST_CHOICE = 75, 2000, 100, 300, 30
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = "```"
#: Blocks of text that one message keeps free for what was left out.
_LAST = 1

Block = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """`text` is what a notification and a screen reader say; it is escaped already."""

    text: str
    blocks: Sequence[Block]

    def wire(self) -> dict[str, Any]:
        """What a response_url takes; only the person who asked sees it."""
        return {
            "response_type": "ephemeral",
            "text": self.text[:MOST_TEXT],
            "blocks": list(self.blocks),
        }

    def wire_of_channel(self) -> dict[str, Any]:
        """What chat.postMessage and chat.update take; the whole channel sees it."""
        return {"text": self.text[:MOST_TEXT], "blocks": list(self.blocks)}

    def wire_of_click(self, *, instead: bool) -> dict[str, Any]:
        """The same after a click: `instead` of the message with the button, or beside it."""
        if not instead:
            return {**self.wire(), "replace_original": False}
        return {
            "replace_original": True,
            "text": self.text[:MOST_TEXT],
            "blocks": list(self.blocks),
        }


def escaped(text: str, most: int = 300) -> str:
    """Foreign text in one line: no mention, no link, and so long at most after escaping."""
    return _clipped(" ".join(text.split()), most)


def quoted(text: str, most: int = 1000) -> str:
    """Foreign text of several lines as code, in which no character has a meaning."""
    return f"{_FENCE}{_clipped(text.replace('`', chr(39)), most)}{_FENCE}"


def _clipped(text: str, most: int) -> str:
    kept: list[str] = []
    length = 0
    for char in text:
        piece = _ESCAPED.get(char, char)
        if length + len(piece) > most - 3:
            return "".join(kept) + "..."
        kept.append(piece)
        length += len(piece)
    return "".join(kept)


def moment(at: datetime) -> str:
    """A time in the reader's own zone."""
    zulu = at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{zulu}>"


def header(text: str) -> Block:
    """Plain text: Slack reads no mrkdwn in it."""
    return {"type": "header", "text": {"type": "plain_text", "text": text[:MOST_HEADER]}}


def section(mrkdwn: str) -> Block:
    """Of text that is ours, with foreign parts that were `escaped` or `quoted`."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn}}


def context(mrkdwn: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


def plain(text: str, most: int) -> dict[str, str]:
    """Text in which Slack reads no mrkdwn."""
    return {"type": "plain_text", "text": text[:most]}


@dataclass(frozen=True)
class Asks:
    """What Slack's own dialog asks before a click counts."""

    title: str
    text: str
    yes: str


def button(
    action: str, label: str, value: str, asks: Asks | None = None, style: str = "danger"
) -> Block:
    """One that `asks` has a style: a dangerous one, if nothing else is said."""
    made: Block = {"type": "button", "action_id": action, "text": plain(label, MOST_LABEL)}
    if len(value) > MOST_VALUE:
        raise ValueError(f"a button carries at most {MOST_VALUE} characters, not {len(value)}")
    made["value"] = value
    if asks is not None:
        made["style"] = style
        made["confirm"] = {
            "title": plain(asks.title, MOST_TITLE),
            "text": plain(asks.text, MOST_ASKED),
            "confirm": plain(asks.yes, MOST_CHOICE),
            "deny": plain("Go back", MOST_CHOICE),
        }
    return made


def buttons(*elements: Block) -> Block:
    return {"type": "actions", "elements": list(elements)}


def message(title: str, lines: Sequence[str], *, end: str = "") -> Message:
    """A header, a section a line, and the end; of too many lines, how many are left out."""
    room = MOST_BLOCKS - 1 - _LAST - bool(end)
    blocks = [header(title), *(section(line) for line in lines[:room])]
    if len(lines) > room:
        blocks.append(context(f"{len(lines) - room} more are not shown."))
    if end:
        blocks.append(context(end))
    return Message(escaped(title), blocks)
