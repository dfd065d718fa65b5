"""A controller asks AWS for what it will need, and names the statements that are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainyard_agent.host import rights
from trainyard_agent.host.http_errors import Refused, Unreachable

GIVEN = ("eu-west-1", "bus", "sagemaker-x", "clusters/theirs/runs")


class Asked:
    """What was asked, and what AWS answers."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: dict[str, Exception] = {}

    def events(self, region: str, bus: str) -> None:
        self._ask("events", region, bus)

    def logs(self, region: str, bucket: str, runs: str) -> None:
        self._ask("s3", region, bucket, runs)

    def _ask(self, service: str, *given: str) -> None:
        self.requests.append((service, *given))
        if error := self.answers.get(service):
            raise error


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(rights, "put_events", made.events)
    monkeypatch.setattr(rights, "put_logs", made.logs)
    return made


def test_what_is_allowed_is_asked_for_once_and_nothing_is_said(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rights.main(*GIVEN) == 0
    assert asked.requests == [
        ("events", "eu-west-1", "bus"),
        ("s3", "eu-west-1", "sagemaker-x", "clusters/theirs/runs"),
    ]
    assert capsys.readouterr().out == ""


def test_every_statement_that_is_missing_is_named_with_awss_word(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.answers = {
        "events": Refused(400, "AccessDeniedException: not authorized to perform events:PutEvents"),
        "s3": Refused(403, "AccessDenied: Access Denied"),
    }
    assert rights.main(*GIVEN) == 1
    said = capsys.readouterr().out
    assert "ReportFacts" in said
    assert "events:PutEvents" in said
    assert "WriteLogsAndExports" in said
    assert "--dryrun" in said


def test_a_refusal_for_another_reason_is_no_missing_right(asked: Asked) -> None:
    asked.answers["events"] = Refused(400, "MalformedDetail")
    assert rights.main(*GIVEN) == 0


def test_a_service_that_does_not_answer_is_told_too(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.answers["s3"] = Unreachable("s3 does not answer")
    assert rights.main(*GIVEN) == 1
    assert "no answer: s3 does not answer" in capsys.readouterr().out


def test_the_event_is_no_event_and_the_object_lies_where_logs_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[str, Any]] = []

    class Http:
        def __init__(self, service: str, region: str) -> None:
            self.service = service

        def request(self, method: str, path: str, **given: Any) -> None:
            sent.append((self.service, given["body"]))

    class Bucket:
        def __init__(self, region: str) -> None: ...

        def put_bytes(self, at: Any, body: bytes) -> None:
            sent.append((at.key, body))

    monkeypatch.setattr(rights, "SignedHttp", Http)
    monkeypatch.setattr(rights, "S3", Bucket)
    ask: Callable[..., int] = rights.main
    assert ask(*GIVEN) == 0
    assert b'"Detail": "none"' in sent[0][1]
    assert sent[1] == ("clusters/theirs/runs/adoption/logs/asked", b"")
