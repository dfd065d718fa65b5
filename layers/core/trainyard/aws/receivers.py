"""Sends to addresses that people gave: over TLS, to public addresses, and never for long.

The address that was judged is the one that is connected to. Nothing is asked of the answer but its
status and when to come again, and no redirect is followed.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from trainyard.domain.addresses import Address, address_of, why_not_public
from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_urls import is_loopback, refusal_of

#: For all of a request: its name, the connection, and the answer's head.
TIMEOUT_SECONDS = 15.0
#: Of an answer's head; more is no answer. Its body is not read.
MOST_BYTES = 16 * 1024
Resolver = Callable[[str, int], Sequence[Address]]


class _Refused(Exception):
    """Nothing was sent, or no answer came; the text says why."""


def resolved(host: str, port: int) -> list[Address]:
    """The addresses of a name, in the order in which they are to be tried."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [address_of(str(each[4][0])) for each in found]
    return list(dict.fromkeys(one for one in addresses if one is not None))


class HttpsReceivers:
    """The port `Receivers`. `loopback`: those on this machine may be reached, without TLS, too."""

    def __init__(
        self,
        *,
        loopback: bool = False,
        resolve: Resolver = resolved,
        allowed: Callable[[Address], bool] = lambda address: not why_not_public(address),
        tls: ssl.SSLContext | None = None,
        seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._loopback, self._resolve, self._allowed = loopback, resolve, allowed
        self._tls, self._seconds = tls, seconds

    @property
    def loopback(self) -> bool:
        return self._loopback

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Never raises for what a receiver or its name does."""
        if refused := refusal_of(url, loopback=self._loopback):
            return Answer(None, f"nothing was sent: the URL {refused}")
        try:
            return self._posted(url, headers, body, time.monotonic() + self._seconds)
        except _Refused as refusal:
            return Answer(None, str(refusal))
        except TimeoutError:
            return Answer(None, f"the receiver did not answer within {self._seconds:g} s")
        except ssl.SSLCertVerificationError as error:
            return Answer(None, f"its certificate is not valid: {error.verify_message}")
        except (OSError, http.client.HTTPException) as error:
            return Answer(None, f"the connection failed: {type(error).__name__}")

    def _posted(self, url: str, headers: Mapping[str, str], body: bytes, end: float) -> Answer:
        parts = urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        with self._connected(self._addresses(host, port, end), port, end) as plain:
            if not secure:
                return _exchanged(plain, _request(url, headers, body), end)
            plain.settimeout(_left(end))
            context = self._tls or ssl.create_default_context()
            with context.wrap_socket(plain, server_hostname=host) as encrypted:
                return _exchanged(encrypted, _request(url, headers, body), end)

    def _addresses(self, host: str, port: int, end: float) -> Sequence[Address]:
        """All of a name's addresses must be ones that may be reached."""
        found = _in_time(lambda: self._resolve(host, port), _left(end))
        if not found:
            raise _Refused("nothing was sent: the URL's name has no address")
        for address in found:
            here = self._loopback and is_loopback(host) and address.is_loopback
            if not here and not self._allowed(address):
                why = why_not_public(address) or "not allowed"
                raise _Refused(f"nothing was sent: the URL's name has an address that is {why}")
        return found

    def _connected(self, addresses: Sequence[Address], port: int, end: float) -> socket.socket:
        """One that takes nothing leaves the others their part of the time."""
        last: OSError = OSError("no address")
        for number, address in enumerate(addresses):
            part = _left(end) / (len(addresses) - number)
            try:
                return socket.create_connection((str(address), port), timeout=part)
            except OSError as error:
                last = error
        raise last


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _in_time(call: Callable[[], Sequence[Address]], seconds: float) -> Sequence[Address]:
    """The system's resolver knows no time limit. A thread that it holds ends with it."""
    found: list[Sequence[Address]] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except (OSError, UnicodeError) as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise _Refused("nothing was sent: the URL's name is not known")
    if not found:
        raise TimeoutError
    return found[0]


def _request(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = [f"POST {target} HTTP/1.1", f"host: {parts.netloc}", "connection: close"]
    head += [f"content-length: {len(body)}", *(f"{name}: {said}" for name, said in headers.items())]
    return "\r\n".join([*head, "", ""]).encode() + body


def _exchanged(connection: socket.socket, request: bytes, end: float) -> Answer:
    connection.settimeout(_left(end))
    connection.sendall(request)
    read = b""
    while True:
        head, found, rest = read.partition(b"\r\n\r\n")
        if found:
            answer = _answer(head)
            if answer.status is None or answer.status >= 200:
                return answer
            read = rest  # 1xx: the answer comes after it
            continue
        if len(read) > MOST_BYTES:
            raise _Refused(f"the head of the answer has more than {MOST_BYTES} bytes")
        connection.settimeout(_left(end))
        more = connection.recv(4096)
        if not more:
            raise _Refused("the receiver closed the connection without an answer")
        read += more


def _answer(head: bytes) -> Answer:
    first, _, fields = head.partition(b"\r\n")
    version, _, rest = first.decode("latin-1").partition(" ")
    code = rest.partition(" ")[0]
    known = len(code) == 3 and code.isdecimal() and 100 <= int(code) < 600
    if not version.startswith("HTTP/1.") or not known:
        raise _Refused("what came is no answer of HTTP/1.1")
    said = http.client.parse_headers(io.BytesIO(fields + b"\r\n\r\n"))
    return Answer(int(code), retry_after=str(said.get("retry-after", ""))[:100])
