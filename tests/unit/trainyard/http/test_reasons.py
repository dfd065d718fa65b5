"""Why a change is asked for: the header that every changing call takes."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World

from trainyard.http.reasons import HEADER, LONGEST

NAME = HEADER.lower()


def why(client: Client, what: str) -> str:
    query = {"since": "2026-01-01T00:00:00Z", "what": what}
    return str(client.get("/v1/audit", query=query).json["entries"][0]["reason"])


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("wrong data", "wrong data"),
        ("wrong%20data", "wrong data"),
        ("1+1 = 2", "1+1 = 2"),
        (quote("größer, 更大, 🙂, 100%"), "größer, 更大, 🙂, 100%"),
        (quote("🙂" * LONGEST), "🙂" * LONGEST),
        (quote("two\nlines"), "two\nlines"),
        (quote("👩‍🔬"), "👩‍🔬"),
        ("", ""),
        (" %20 ", ""),
    ],
)
def test_a_reason_is_kept_as_it_was_meant(client: Client, sent: str, kept: str) -> None:
    answer = client.post("/v1/runs", spec(), headers={HEADER: sent})
    assert answer.status == 202, answer.text
    assert why(client, "run.submit") == kept


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("größer", "percent-encode them as UTF-8"),
        ("100%", "has a % at character 4 without two hex digits; write %25"),
        ("%zz", "has a % at character 1"),
        ("%ff%fe", "is not UTF-8 once it is decoded"),
        ("%ed%a0%80", "is not UTF-8"),
        ("x" * (LONGEST + 1), "must have at most 500 characters, not 501"),
        ("a%00b", "holds control characters"),
        ("a%1b%5b31m", "holds control characters"),
    ],
)
def test_a_reason_that_is_no_text_is_refused_by_the_headers_name(
    client: Client, world: World, sent: str, said: str
) -> None:
    answer = client.post("/v1/runs", spec(), headers={HEADER: sent})
    is_a_problem(answer, 400, "invalid-request")
    assert said in answer.fields[NAME]
    assert world.runs.stored == {}


def test_what_the_call_itself_is_given_is_first(client: Client, world: World) -> None:
    run = client.post("/v1/runs", spec()).json["id"]
    client.post(f"/v1/runs/{run}:cancel", query={"reason": "mine"}, headers={HEADER: "another"})
    assert why(client, "run.cancel") == "mine"
    assert world.runs.messages(run)[-1].endswith("Reason: mine")


def test_the_timeline_says_it_too(client: Client, world: World) -> None:
    run = client.post("/v1/runs", spec()).json["id"]
    client.post(f"/v1/runs/{run}:cancel", headers={HEADER: "wrong%20data"})
    assert world.runs.messages(run)[-1] == "me asked to cancel the run. Reason: wrong data"


def test_who_reads_needs_none_and_is_not_refused_for_one(client: Client) -> None:
    assert client.get("/v1/runs", headers={HEADER: "100%"}).status == 200
