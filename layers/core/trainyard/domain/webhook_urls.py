"""Where a webhook may lead."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from trainyard.domain.addresses import address_of, why_not_public

_HOST = re.compile(r"[0-9a-z._-]+|[0-9a-f:.]+")  # a name, or an address
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a resolver takes such a name for an address
_LOCAL_NAMES = (".local", ".localhost", ".internal", ".home.arpa")


def refusal_of(url: str, *, loopback: bool) -> str:
    """Why nothing is sent to this URL, whatever its name means; '' if it may be.

    `loopback`: receivers on this machine are allowed, without TLS, too.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is no URL; give one such as https://example.com/trainyard"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that no URL has; write them as %XX"
    host = parts.hostname or ""
    if not _HOST.fullmatch(host) or port == 0:
        return "names no host; give one such as https://example.com/trainyard"
    if parts.username is not None or parts.password is not None:
        return "has a user or a password; a receiver knows us by the signature"
    if parts.fragment:
        return "has a part after #, which is never sent; leave it out"
    if loopback and is_loopback(host):
        return "" if parts.scheme in ("http", "https") else _NOT_HTTPS
    return _refusal_of_public(parts, host)


_NOT_HTTPS = "does not begin with https://; events are sent encrypted only"


def _refusal_of_public(parts: SplitResult, host: str) -> str:
    if parts.scheme != "https":
        return _NOT_HTTPS
    address = address_of(host)
    if address is not None:
        why = why_not_public(address)
        return f"has an address that is {why}; give one of the internet" if why else ""
    name = host.rstrip(".")
    numbered = _NUMBER.fullmatch(name.rpartition(".")[2])
    if "." not in name or name.endswith(_LOCAL_NAMES) or numbered:
        return "has a name that is not of the internet; give one such as example.com"
    return ""


def is_loopback(host: str) -> bool:
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)
