"""What Slack takes as blocks: https://docs.slack.dev/reference/block-kit/blocks.

The limits stand here apart from the code that keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

#: Blocks of a message, and of a modal or a home.
MOST_BLOCKS, MOST_OF_VIEW = 50, 100
MOST_TEXT = 40_000
MOST_METADATA = 3000
_SURFACES = ("modal", "home")


class InvalidBlocks(ValueError):
    """Slack takes none of it; the words say where and why."""


def check_message(message: Mapping[str, Any]) -> None:
    """Raises InvalidBlocks."""
    text, blocks = message.get("text", ""), message.get("blocks", [])
    if not text and not blocks:
        raise InvalidBlocks("no_text")
    _length("text", text, MOST_TEXT, least=0)
    check_blocks(blocks, MOST_BLOCKS)


def check_view(view: Mapping[str, Any]) -> None:
    """Raises InvalidBlocks."""
    kind = view.get("type")
    if kind not in _SURFACES:
        raise InvalidBlocks(f"view.type: {kind!r} is none of {_SURFACES}")
    if kind == "modal":
        _text("view.title", view.get("title"), 24, plain=True)
    for name in ("submit", "close"):
        if name in view:
            _text(f"view.{name}", view[name], 24, plain=True)
    _length("view.private_metadata", view.get("private_metadata", ""), MOST_METADATA, least=0)
    _length("view.callback_id", view.get("callback_id", ""), 255, least=0)
    blocks = view.get("blocks", [])
    check_blocks(blocks, MOST_OF_VIEW)
    if any(block["type"] == "input" for block in blocks) and "submit" not in view:
        raise InvalidBlocks("view.submit: a view with inputs needs it")


def check_blocks(blocks: Any, most: int) -> None:
    """Raises InvalidBlocks."""
    if not isinstance(blocks, list) or len(blocks) > most:
        raise InvalidBlocks(f"blocks: a list of at most {most}")
    for number, block in enumerate(blocks):
        where = f"blocks/{number}"
        kind = block.get("type") if isinstance(block, dict) else None
        check = _BLOCKS.get(str(kind))
        if check is None:
            raise InvalidBlocks(f"{where}: {json.dumps(block)[:80]} is no block")
        check(where, block)
    named = [block["block_id"] for block in blocks if "block_id" in block]
    if len(set(named)) < len(named):
        raise InvalidBlocks("blocks: two have one block_id")


def _length(where: str, text: Any, most: int, *, least: int = 1) -> None:
    if not isinstance(text, str) or not least <= len(text) <= most:
        raise InvalidBlocks(f"{where}: a text of {least} to {most} characters")


def _text(where: str, part: Any, most: int, *, plain: bool = False) -> None:
    kinds = ("plain_text",) if plain else ("plain_text", "mrkdwn")
    if not isinstance(part, dict) or part.get("type") not in kinds:
        raise InvalidBlocks(f"{where}: must be one of {kinds}")
    _length(f"{where}.text", part.get("text"), most)


def _header(where: str, block: Mapping[str, Any]) -> None:
    _text(f"{where}.text", block.get("text"), 150, plain=True)


def _section(where: str, block: Mapping[str, Any]) -> None:
    if "text" not in block and "fields" not in block:
        raise InvalidBlocks(f"{where}: text or fields")
    if "text" in block:
        _text(f"{where}.text", block["text"], 3000)
    fields = block.get("fields", [])
    if len(fields) > 10:
        raise InvalidBlocks(f"{where}.fields: at most 10")
    for one in fields:
        _text(f"{where}.fields", one, 2000)
    if "accessory" in block:
        _element(f"{where}.accessory", block["accessory"])


def _context(where: str, block: Mapping[str, Any]) -> None:
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 10:
        raise InvalidBlocks(f"{where}.elements: 1 to 10")
    for one in elements:
        _text(f"{where}.elements", one, 3000)


def _actions(where: str, block: Mapping[str, Any]) -> None:
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 25:
        raise InvalidBlocks(f"{where}.elements: 1 to 25")
    for one in elements:
        _element(f"{where}.elements", one)
    ids = [one["action_id"] for one in elements if "action_id" in one]
    if len(set(ids)) < len(ids):
        raise InvalidBlocks(f"{where}.elements: two have one action_id")


def _input(where: str, block: Mapping[str, Any]) -> None:
    _text(f"{where}.label", block.get("label"), 2000, plain=True)
    if "hint" in block:
        _text(f"{where}.hint", block["hint"], 2000, plain=True)
    _element(f"{where}.element", block.get("element"))


def _divider(where: str, block: Mapping[str, Any]) -> None:
    return


def _element(where: str, element: Any) -> None:
    kind = element.get("type") if isinstance(element, dict) else None
    check = _ELEMENTS.get(str(kind))
    if check is None:
        raise InvalidBlocks(f"{where}: {json.dumps(element)[:80]} is no element")
    _length(f"{where}.action_id", element.get("action_id", ""), 255, least=0)
    if "confirm" in element:
        _confirm(f"{where}.confirm", element["confirm"])
    check(where, element)


def _button(where: str, element: Mapping[str, Any]) -> None:
    _text(f"{where}.text", element.get("text"), 75, plain=True)
    _length(f"{where}.value", element.get("value", ""), 2000, least=0)
    _length(f"{where}.url", element.get("url", ""), 3000, least=0)
    if element.get("style", "primary") not in ("primary", "danger"):
        raise InvalidBlocks(f"{where}.style: primary or danger")


def _confirm(where: str, confirm: Any) -> None:
    for name, most in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
        _text(f"{where}.{name}", confirm.get(name), most, plain=name != "text")


def _plain_input(where: str, element: Mapping[str, Any]) -> None:
    _length(f"{where}.initial_value", element.get("initial_value", ""), 3000, least=0)
    if not 1 <= element.get("max_length", 3000) <= 3000:
        raise InvalidBlocks(f"{where}.max_length: 1 to 3000")
    if "placeholder" in element:
        _text(f"{where}.placeholder", element["placeholder"], 150, plain=True)


def _select(where: str, element: Mapping[str, Any]) -> None:
    options = element.get("options", [])
    if not 1 <= len(options) <= 100:
        raise InvalidBlocks(f"{where}.options: 1 to 100")
    for one in options:
        _text(f"{where}.options.text", one.get("text"), 75)
        _length(f"{where}.options.value", one.get("value"), 150)


_BLOCKS: Mapping[str, Callable[[str, Mapping[str, Any]], None]] = {
    "header": _header,
    "section": _section,
    "context": _context,
    "actions": _actions,
    "input": _input,
    "divider": _divider,
}
_ELEMENTS: Mapping[str, Callable[[str, Mapping[str, Any]], None]] = {
    "button": _button,
    "plain_text_input": _plain_input,
    "static_select": _select,
}
