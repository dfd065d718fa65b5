"""The SDK's client: signed, repeated safely, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import (
    RUN,
    FakeApi,
    a_run,
)

from trainyard_sdk.client import Client
from trainyard_sdk.problems import ApiProblem, InvalidInput

pytestmark = pytest.mark.real


def test_a_call_is_signed_and_the_signature_covers_query_and_verb(api: FakeApi) -> None:
    api.answers |= {
        "GET /v1/runs": (200, {"runs": [a_run()]}),
        f"POST /v1/runs/{RUN}:cancel": (202, a_run("Cancelled")),
    }
    client = Client.connect()
    assert client.runs(status="Running", at_most=5)[0]["id"] == RUN
    assert client.cancel_run(RUN)["status"] == "Cancelled"


def test_an_unsigned_or_wrongly_signed_call_is_refused_with_the_next_step(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    local = json.loads((tmp_path / "local.json").read_text())
    (tmp_path / "local.json").write_text(json.dumps({**local, "secretAccessKey": "other"}))
    code, _, err = trainyard("run", "ls")
    assert code == 7
    assert "Forbidden" in err
    assert "Next: Check the AWS credentials" in err


def test_a_throttled_submit_is_repeated_with_the_same_key_and_makes_one_run(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    api.answers["POST /v1/runs"] = [(503, {}), (429, {}), (202, a_run("Pending"))]
    code, out, err = trainyard("run", "submit", spec)
    assert (code, out.strip()) == (0, RUN)
    assert f"trainyard run watch {RUN}" in err
    keys = {request["headers"]["idempotency-key"] for request in api.calls("POST /v1/runs")}
    assert (len(api.calls("POST /v1/runs")), len(keys)) == (3, 1)


def test_a_node_is_not_replaced_twice_because_an_answer_was_lost(api: FakeApi) -> None:
    api.answers["POST /v1/clusters/c/nodes/i-1:replace"] = (500, {"title": "Internal"})
    with pytest.raises(ApiProblem):
        Client.connect().replace_node("c", "i-1")
    assert len(api.calls("POST /v1/clusters/c/nodes/i-1:replace")) == 1


@pytest.mark.parametrize("key", ["", " k", "k\n", "ключ", "x" * 129])
def test_a_key_that_no_header_carries_is_refused_before_anything_is_sent(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str, key: str
) -> None:
    code, _, err = trainyard("run", "submit", spec, "--idempotency-key", key)
    assert (code, "1 to 128 printable ASCII" in err, api.requests) == (6, True, [])


@pytest.mark.parametrize("key", ["", "ключ"])
@pytest.mark.parametrize("name", ["submit_array", "create_filesystem", "add_webhook"])
def test_each_call_that_takes_a_key_refuses_such_a_one(api: FakeApi, name: str, key: str) -> None:
    """An empty one is no wish for a new one: who gave it believes that a repetition is safe."""
    with pytest.raises(InvalidInput, match="1 to 128 printable ASCII"):
        getattr(Client.connect(), name)({}, idempotency_key=key)
    assert api.requests == []


def test_every_page_is_read_and_no_more_than_asked(api: FakeApi) -> None:
    api.answers["GET /v1/runs"] = lambda query: (
        (200, {"runs": [a_run()] * 2, "nextToken": "t2"})
        if "nextToken" not in query
        else (200, {"runs": [a_run()] * 2})
    )
    assert len(Client.connect().runs()) == 4
    assert len(Client.connect().runs(at_most=2)) == 2


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_would_lead_to_another_path_is_refused_before_it_is_sent(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], name: str
) -> None:
    """'/v1/runs/.' is the list of runs to whoever reads the path."""
    with pytest.raises(InvalidInput, match="is no name"):
        Client.connect().run(name)
    code, _, err = trainyard("cluster", "show", name)
    assert (code, "is no name" in err, api.requests) == (6, True, [])


def test_what_is_too_long_for_an_address_is_refused_in_words(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, err = trainyard("run", "logs", RUN, "--grep", "x" * 100_000)
    assert (code, "longer than an address may be" in err, api.requests) == (6, True, [])


@pytest.mark.parametrize(
    "given",
    [
        ("run", "show", "a\udcff"),
        ("run", "logs", RUN, "--grep", "a\udcff"),
        ("run", "cancel", RUN, "--reason", "a\udcff"),
    ],
)
def test_a_text_that_is_none_is_refused_in_words(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], given: tuple[str, ...]
) -> None:
    """So a terminal's bytes that are no UTF-8 come to a program."""
    code, _, err = trainyard(*given)
    assert (code, r"'a\udcff' is no text" in err, api.requests) == (6, True, [])


def test_an_id_stays_one_path_segment(api: FakeApi) -> None:
    with pytest.raises(ApiProblem):
        Client.connect().run("../clusters?x#y")
    assert api.requests[-1]["path"] == "/stage/v1/runs/..%2Fclusters%3Fx%23y"
