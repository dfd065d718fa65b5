"""Who may ask the console for what: pure checks of one request, before anything is read or signed.

Any page of the browser and any program of the machine can reach a port of loopback. So a request
must name this very host (DNS rebinding), come from this very page (other origins, other ports) and
carry the cookie that the link in the terminal was exchanged for. A change is one of a short list,
and has a header that no form of another page can send.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

METHODS = ("GET", "POST", "DELETE")
#: A form cannot send a header of its own, and a script of another origin has to ask first: in vain.
OWN_HEADER = "x-trainyard-console"
#: What the page may change. Whatever else the person may do is for the command line.
_NAME = r"[A-Za-z0-9._-]{1,128}"
_CHANGES = (
    re.compile(r"POST /v1/runs"),
    re.compile(rf"POST /v1/runs/{_NAME}:(?:cancel|resume|export)"),
    re.compile(rf"POST /v1/clusters/{_NAME}/nodes/i-[0-9a-f]{{1,64}}:(?:replace|reboot)"),
    re.compile(rf"DELETE /v1/clusters/{_NAME}"),
    re.compile(rf"POST /v1/approvals/{_NAME}:(?:approve|deny)"),
)
_KEY = re.compile(r"[\x21-\x7e]{16,128}")
_HEADER = re.compile(r"[\x20-\x7e]{0,1024}")
#: What a browser says of a request that the page itself, or the person, has begun.
_OWN_SITES = frozenset({"same-origin", "none"})
#: Of a path: the API's own characters. Nothing in them can be read as another path.
_CALL = re.compile(r"/v1/[A-Za-z0-9._~:@+=,-]+(?:/[A-Za-z0-9._~:@+=,-]+)*")
_QUERY = re.compile(r"[A-Za-z0-9._~:@!$'()*+,;=/?%&-]*")
MOST_TARGET_BYTES = 8192
#: More than the largest spec has.
MOST_BODY_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that does not get through."""

    status: int
    title: str
    detail: str


@dataclass
class Pass:
    """The link's token, good for one use, and the cookie that it is exchanged for."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _used: bool = False
    _lock: Lock = field(default_factory=Lock)

    @property
    def cookie_name(self) -> str:
        """With the port: cookies of one host are shared among its ports."""
        return f"trainyard-console-{self.port}"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def exchanged(self, token: str) -> bool:
        """Whether it is the token, and this its first use."""
        with self._lock:
            right = secrets.compare_digest(token.encode(), self.token.encode())
            first = right and not self._used
            self._used = self._used or first
            return first

    def known(self, cookies: str) -> bool:
        """Whether the Cookie header has ours. Every pair of our name must be it."""
        pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
        mine = [value for name, _, value in pairs if name == self.cookie_name]
        return bool(mine) and all(
            secrets.compare_digest(value.encode(), self.cookie.encode()) for value in mine
        )


def wrong_place(ours: Pass, headers: Mapping[str, str], method: str) -> Refusal | None:
    """Of a request for another host, or from another place than our own page."""
    host = headers.get("host", "")
    if host != f"127.0.0.1:{ours.port}":
        return Refusal(421, "Not this host", f"host: is not 127.0.0.1:{ours.port}")
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if (site is not None and site not in _OWN_SITES) or (
        origin is not None and origin != ours.origin
    ):
        return Refusal(403, "Another page asked", f"origin: is not {ours.origin}")
    if method != "GET" and origin is None:
        return Refusal(403, "No page asked", f"origin: is missing; {ours.origin} is expected")
    return None


def wrong_sender(headers: Mapping[str, str]) -> Refusal | None:
    """Of what our own script did not send."""
    if headers.get(OWN_HEADER) == "1":
        return None
    return Refusal(403, "No page asked", f"{OWN_HEADER}: is not 1, which our page sends")


def wrong_change(method: str, target: str, headers: Mapping[str, str]) -> Refusal | None:
    """Of a change that the page has no button for, or that its page did not send."""
    if method == "GET":
        return None
    if wrong := wrong_sender(headers):
        return wrong
    path, _, query = target.partition("?")
    if not any(one.fullmatch(f"{method} {path}") for one in _CHANGES):
        detail = f"{method} {path}: is no change that the console makes"
        return Refusal(403, "Not from the console", f"{detail}. Use `trainyard` in a terminal")
    if not plans(query) and not _KEY.fullmatch(headers.get("idempotency-key", "")):
        detail = "idempotency-key: must have 16 to 128 visible characters"
        return Refusal(400, "No key", detail)
    return None


def plans(query: str) -> bool:
    """Whether nothing is changed: the API answers with its plan."""
    return query == "dryrun=true"


def wrong_header(headers: Mapping[str, str], passed_on: Sequence[str]) -> Refusal | None:
    """Of a header that goes on to the API and could not be signed as it came."""
    for name in passed_on:
        if not _HEADER.fullmatch(headers.get(name, "")):
            detail = f"{name}: must have visible characters of ASCII only"
            return Refusal(400, "No header of the API", detail)
    return None


def wrong_call(method: str, target: str) -> Refusal | None:
    """Of what is no call of the API: nothing but a path below /v1 is ever signed."""
    if method not in METHODS:
        return Refusal(405, "Not this method", f"method: is none of {', '.join(METHODS)}")
    if len(target) > MOST_TARGET_BYTES:
        return Refusal(414, "Too long", f"path: has more than {MOST_TARGET_BYTES} characters")
    path, _, query = target.partition("?")
    dots = any(part in (".", "..") for part in path.split("/"))
    if dots or not _CALL.fullmatch(path) or not _QUERY.fullmatch(query):
        return Refusal(400, "No path of the API", "path: must be one of docs/openapi.json")
    return None


def body_length(headers: Mapping[str, str]) -> int | Refusal:
    """Of the body, as the request says it."""
    if "transfer-encoding" in headers:
        return Refusal(411, "No length", "transfer-encoding: send content-length instead")
    given = headers.get("content-length", "0")
    if not re.fullmatch(r"[0-9]{1,15}", given):
        return Refusal(400, "No length", "content-length: is no number of bytes")
    if int(given) > MOST_BODY_BYTES:
        return Refusal(413, "Too large", f"body: has more than {MOST_BODY_BYTES} bytes")
    return int(given)
