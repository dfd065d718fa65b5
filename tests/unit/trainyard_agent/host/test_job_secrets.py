"""A job's secrets: read as they are, refused in one sentence, and named in no message."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from trainyard_agent.host import job_secrets
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.job_secrets import SecretRefused, Secrets, value_of

REGION = "eu-west-1"
CANARY = "canary-7f1c"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def secrets(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Secrets:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    client = boto3.client("secretsmanager", region_name=REGION, endpoint_url=endpoint)
    for name, value in {
        "jobs/plain": CANARY,
        "jobs/many": json.dumps({"token": CANARY, "number": 7}),
    }.items():
        with contextlib.suppress(client.exceptions.ResourceExistsException):
            client.create_secret(Name=name, SecretString=value)
    return Secrets(REGION)


@pytest.mark.real
def test_secrets_are_read_whole_or_by_their_key(secrets: Secrets) -> None:
    wanted = {"A": "jobs/plain", "B": "jobs/many:token", "C": "jobs/plain"}
    assert secrets.read(wanted) == {"A": CANARY, "B": CANARY, "C": CANARY}


@pytest.mark.real
def test_a_secret_that_is_not_there_is_named(secrets: Secrets) -> None:
    with pytest.raises(SecretRefused, match="there is no secret 'jobs/none' in Secrets Manager"):
        secrets.read({"A": "jobs/none"})


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (CANARY, "token", "holds no JSON object"),
        (f'["{CANARY}"]', "token", "holds no JSON object"),
        (f'{{"other": "{CANARY}"}}', "token", "has no text under the key 'token'"),
        (f'{{"token": {{"inner": "{CANARY}"}}}}', "token", "has no text under the key 'token'"),
        (f"{CANARY}\x00", "", "NUL"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said_without_any_part_of_it(
    text: str, key: str, words: str
) -> None:
    with pytest.raises(SecretRefused, match=words) as refused:
        value_of(text, "jobs/x", key)
    assert CANARY not in str(refused.value)


def test_a_secrets_manager_that_does_not_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_secrets, "PAUSES_SECONDS", (0.0, 0.0))
    asked = []

    def read(region: str, wanted: object) -> dict[str, str]:
        asked.append(region)
        if len(asked) < 3:
            raise Unreachable("no answer")
        return {"A": CANARY}

    request = json.dumps({"region": REGION, "secrets": {"A": "x"}})
    assert job_secrets.answer(io.StringIO(request), read) == {"values": {"A": CANARY}}
    assert asked == [REGION] * 3
