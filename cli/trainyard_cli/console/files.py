"""The page's files, read once: a request can name one of them and nothing else of the disk."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".yaml": "text/plain; charset=utf-8",
}
#: Addresses of pages; each is answered by index.html, whose script shows it.
_PAGE = re.compile(
    r"/(?:(?:runs|clusters)(?:/[A-Za-z0-9._-]{1,128})?/?|(?:approvals|cost|audit|submit|compare)/?)?"
)
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class File:
    content: bytes
    kind: str
    etag: str


@dataclass(frozen=True)
class Files:
    """All of them by their path, and the policy that the page runs under."""

    by_path: Mapping[str, File]
    policy: str

    def get(self, path: str) -> File | None:
        return self.by_path.get("/static/index.html" if _PAGE.fullmatch(path) else path)


def read(folder: Path = STATIC) -> Files:
    found = {
        f"/static/{path.relative_to(folder).as_posix()}": _file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _KINDS
    }
    return Files(found, _policy(found["/static/index.html"].content))


def _file(path: Path) -> File:
    content = path.read_bytes()
    return File(content, _KINDS[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:20]}"')


def _policy(index: bytes) -> str:
    """Scripts are ours alone; the one inside the page is named by its hash."""
    (names,) = _IMPORT_MAP.findall(index)
    sha256 = base64.b64encode(hashlib.sha256(names).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{sha256}'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
