"""Requests that are signed, where credentials or answers fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import CredentialRetrievalError

from trainyard_agent.events.outbox import Sender
from trainyard_agent.host.signed_http import Answer, SignedHttp, Unreachable


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
