"""S3's pages of a listing."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from trainyard_agent.host.http_errors import Refused


@dataclass(frozen=True)
class Listed:
    """An object of a listing; `etag` without its quotes."""

    key: str
    bytes: int
    etag: str


def page_of(body: bytes) -> tuple[list[Listed], str]:
    """Raises Refused for what is no listing."""
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - S3's own, and expat bounds entities
    except ElementTree.ParseError as error:
        raise Refused(200, f"the listing cannot be read: {error}") from error
    space = root.tag.rpartition("}")[0] + "}" if "}" in root.tag else ""

    def text(element: ElementTree.Element, name: str) -> str:
        return element.findtext(f"{space}{name}") or ""

    found = [
        Listed(unquote_plus(text(one, "Key")), int(text(one, "Size")), text(one, "ETag").strip('"'))
        for one in root.iter(f"{space}Contents")
    ]
    return found, text(root, "NextContinuationToken")
