"""Requests that are signed, where credentials or answers fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import CredentialRetrievalError

from trainyard_agent.events.outbox import Sender
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.http_streams import Answer
from trainyard_agent.host.signed_http import SignedHttp


class NoMetadataService:
    """Credentials of an instance whose metadata service does not answer just now."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def get_frozen_credentials(self) -> None:
        raise self._error


@pytest.mark.real
@pytest.mark.parametrize(
    "error",
    [
        CredentialRetrievalError(provider="iam-role", error_msg="timeout"),
        RuntimeError("still expired"),
    ],
)
def test_credentials_that_cannot_be_renewed_now_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    http = SignedHttp("events", "us-east-1")
    http._credentials = NoMetadataService(error)
    with pytest.raises(Unreachable, match="cannot be renewed now"):
        http.request("POST", "/", headers={}, payload_sha256="0" * 64)


@pytest.mark.parametrize("body", [b"<html>proxy</html>", b"{}", b"[]", b'{"Entries": null}'])
def test_an_answer_of_the_bus_that_is_none_is_tried_again(tmp_path: Path, body: bytes) -> None:
    class Proxy:
        def request(self, *_: Any, **__: Any) -> Answer:
            return Answer(200, {}, body)

    sender = Sender(tmp_path / "o", "bus", "us-east-1", b"key")
    sender._http = Proxy()  # type: ignore[assignment]
    with pytest.raises(Unreachable):
        sender._put_events([{}])


@pytest.mark.real
def test_a_refusal_has_awss_code_and_message_and_no_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    body = b"<?xml?>\n<Error><Code>AccessDenied</Code><Message>Not &lt;you&gt;</Message><RequestId>"
    with pytest.raises(Refused, match=r"^HTTP 403: AccessDenied: Not <you>$"):
        SignedHttp("s3", "us-east-1")._judge(Answer(403, {}, body))
    with pytest.raises(Refused, match=r'^HTTP 400: {"__type"'):
        SignedHttp("s3", "us-east-1")._judge(Answer(400, {}, b'{"__type": "x"}'))


class Coming:
    """An HTTP answer whose body comes in these blocks; an error among them is raised."""

    status = 200

    def __init__(self, *blocks: bytes | OSError) -> None:
        self._blocks = list(blocks)

    def read(self, *_: int) -> bytes:
        block = self._blocks.pop(0) if self._blocks else b""
        if isinstance(block, OSError):
            raise block
        return block

    def getheaders(self) -> list[tuple[str, str]]:
        return []


def fetch(
    monkeypatch: pytest.MonkeyPatch, into: Any, *answers: Coming, kept: bool = True
) -> Answer:
    """A GET whose answers are these; the first comes over a connection that was kept."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    http = SignedHttp("s3", "us-east-1")
    left = list(answers)

    class Connection:
        def request(self, *_: Any, **__: Any) -> None: ...

        def getresponse(self) -> Coming:
            return left.pop(0)

        def close(self) -> None: ...

    fresh = iter([not kept, True])
    monkeypatch.setattr(http, "_connection", lambda scheme, netloc: (Connection(), next(fresh)))
    monkeypatch.setattr(http, "_sign", lambda method, url, headers: headers)
    return http.request("GET", "/b/k", headers={}, payload_sha256="0" * 64, into=into)


def test_a_body_is_written_into_a_file_in_blocks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "x").open("w+b") as into:
        answer = fetch(monkeypatch, into, Coming(b"some ", b"bytes"))
    assert answer.body == b""
    assert (tmp_path / "x").read_bytes() == b"some bytes"


def test_a_body_that_broke_off_begins_anew_over_another_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "x").open("w+b") as into:
        broken = Coming(b"a longer half", OSError("reset"))
        fetch(monkeypatch, into, broken, Coming(b"whole"))
    assert (tmp_path / "x").read_bytes() == b"whole"
    with (tmp_path / "y").open("w+b") as into, pytest.raises(Unreachable, match="broke off"):
        fetch(monkeypatch, into, Coming(b"half", OSError("reset")), kept=False)


def test_a_file_that_cannot_be_written_is_no_fault_of_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open("/dev/full", "w+b", buffering=0) as into, pytest.raises(OSError, match="No space"):
        fetch(monkeypatch, _Untruncated(into), Coming(b"some bytes"))


class _Untruncated:
    """A device cannot be truncated."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def seek(self, _: int) -> None: ...

    def truncate(self) -> None: ...

    def write(self, block: bytes) -> int:
        return int(self._stream.write(block))

    def flush(self) -> None: ...
