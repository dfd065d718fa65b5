"""Where the API is and with which keys, or what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import (
    FakeApi,
)

from trainyard_sdk.client import Client
from trainyard_sdk.connection import Connection, usable_credentials
from trainyard_sdk.problems import InvalidInput, Refused


@pytest.mark.real
@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("foo", "does not begin with https://"),
        ("ftp://host/x", "does not begin with https://"),
        ("localhost:4780", "does not begin with https://"),
        ("https://", "names no host"),
        ("https://host:port", "is not a URL"),
        ("https://host/\x01", "is not a URL"),
        ("https://user:secret@host", "more than scheme, host and path"),
        ("https://host/?stage=a", "more than scheme, host and path"),
    ],
)
def test_an_endpoint_that_is_no_url_is_told_before_anything_else(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
    words: str,
) -> None:
    code, _, err = trainyard("run", "ls", "--endpoint", endpoint)
    assert (code, words in err, "Next: Give the stack's ApiUrl" in err) == (6, True, True), err
    monkeypatch.setenv("TRAINYARD_API_URL", endpoint)
    assert trainyard("cluster", "ls")[0] == 6
    assert api.requests == []


@pytest.mark.real
@pytest.mark.parametrize(
    "answer", [(404, {"message": "Not Found"}), (200, ["a page of something else"]), (302, {})]
)
def test_an_address_that_is_not_the_apis_is_told_apart_from_what_is_not_found(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], answer: Any
) -> None:
    api.answers["GET /v1/runs"] = answer
    code, _, err = trainyard("run", "ls")
    assert (code, "This is not Trainyard's API" in err, f"HTTP status {answer[0]}" in err) == (
        5,
        True,
        True,
    ), err


def test_missing_and_unusable_credentials_are_a_refusal_with_what_to_do(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "none",
        "AWS_SHARED_CREDENTIALS_FILE": "none",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / value) if value == "none" else value)
    elsewhere = (
        "run",
        "ls",
        "--state-dir",
        str(tmp_path),
        "--endpoint",
        "https://abc.execute-api.eu-west-1.amazonaws.com",
    )
    code, _, err = trainyard(*elsewhere)
    assert (code, "No AWS credentials" in err, "aws configure sso" in err) == (7, True, True), err
    code, _, err = trainyard("first-light", "--network-stack", "net", *elsewhere[2:])
    assert (code, "No AWS credentials" in err, "aws configure sso" in err) == (7, True, True), err
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    code, _, err = trainyard(*elsewhere)
    assert (code, "nobody" in err, "Check AWS_PROFILE" in err) == (7, True, True), err


@pytest.mark.parametrize("content", ["[]", "{}", "not json", '{"apiUrl": null}'])
def test_a_damaged_file_of_the_local_cloud_is_told_with_the_way_out(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, content: str
) -> None:
    (tmp_path / "local.json").write_text(content)
    for command in (("run", "ls"), ("fault", "kill-node", "c")):
        code, _, err = trainyard(*command, "--state-dir", str(tmp_path))
        assert (code, "trainyard local down" in err) == (5, True), err


@pytest.mark.real
def test_the_local_cloud_is_reached_without_the_proxy_of_the_environment(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": []})
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert Client.connect().runs() == []


@pytest.mark.real
def test_the_local_keys_never_go_to_another_host(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDMINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    elsewhere = Connection.find("https://abc.execute-api.eu-west-1.amazonaws.com/")
    assert (elsewhere.local, elsewhere.region, elsewhere.credentials.access_key) == (
        None,
        "eu-west-1",
        "AKIDMINE",
    )
    with pytest.raises(InvalidInput, match="local cloud only"):
        Client(elsewhere).fault("kill-node", "c")


def test_a_login_that_has_expired_is_said_as_that() -> None:
    from botocore.exceptions import UnauthorizedSSOTokenError

    with pytest.raises(Refused) as caught, usable_credentials():
        raise UnauthorizedSSOTokenError
    assert caught.value.title == "The AWS credentials have expired"
    assert "aws sso login" in caught.value.next_step
