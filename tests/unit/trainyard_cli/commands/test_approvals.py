"""What waits for people, as the command shows and decides it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, T

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
ID = "apr-01hq3v9k2m8x7w6e5r4t3y2z1a-1"


def person(name: str) -> dict[str, Any]:
    arn = f"arn:aws:iam::111122223333:user/{name}"
    return {"id": "", "arn": arn, "account": "111122223333", "name": name, "kind": "user"}


def approval(**fields: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "action": "run.submit",
        "subject": f"run/{RUN}",
        "runId": RUN,
        "runName": "[bold]mine",
        "because": "It may cost up to 756.00 USD.",
        "usd": 756.0,
        "requester": person("alice[bold]"),
        "needed": 2,
        "approvers": [{"by": person("bob"), "at": T, "reason": "the [weekend]"}],
        "denied": None,
        "state": "pending",
        "createdAt": T,
        "expiresAt": T,
        "decidedAt": None,
        **fields,
    }


def test_what_waits_is_listed_with_what_it_may_cost(api: FakeApi, trainyard: Command) -> None:
    unpriced = approval(usd=None, requester=None)
    found = {"approvals": [approval(), unpriced], "nextToken": None}
    api.answers["GET /v1/approvals"] = (200, found)
    code, out, _ = trainyard("approval", "ls", "--state", "pending")
    assert code == 0
    assert "alice[bold]" in out
    assert "[bold]mine" in out
    assert "756.00 USD" in out
    assert "not known" in out
    assert "1/2" in out
    listed = json.loads(trainyard("approval", "ls", "--json")[1])
    assert listed == {"approvals": found["approvals"]}
    api.answers["GET /v1/approvals"] = (200, {"approvals": [], "nextToken": None})
    assert "Nothing waits" in trainyard("approval", "ls")[1]


def test_one_is_shown_with_who_said_what(api: FakeApi, trainyard: Command) -> None:
    api.answers[f"GET /v1/approvals/{ID}"] = (200, approval())
    code, out, _ = trainyard("approval", "show", ID)
    assert code == 0
    assert "bob (the [weekend])" in out
    assert f"[bold]mine (run/{RUN})" in " ".join(out.split())
    assert "It may cost up to 756.00 USD." in out


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_a_word_is_sent_with_its_reason(api: FakeApi, trainyard: Command, verb: str) -> None:
    vote = {"by": person("carol"), "at": T, "reason": "no"}
    api.answers[f"POST /v1/approvals/{ID}:{verb}"] = (200, approval(state="denied", denied=vote))
    code, out, _ = trainyard("approval", verb, ID, "--reason", "no")
    assert code == 0
    assert "carol (no)" in out
