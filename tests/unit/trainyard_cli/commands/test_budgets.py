"""Budgets that runs share, as the command sets, lists, shows and removes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import FakeApi, T

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
PATH = "/v1/budgets/vision"


def budget(**fields: Any) -> dict[str, Any]:
    arn = "arn:aws:iam::111122223333:user/alice"
    return {
        "name": "vision",
        "label": "team=[vision]",
        "cluster": None,
        "maxUsd": 400.0,
        "per": "month",
        "warnAt": [0.5],
        "tailSeconds": 600,
        "status": "active",
        "period": "2026-11",
        "endsAt": T,
        "at": T,
        "spentUsd": 12.345,
        "heldBackUsd": 2.0,
        "hourlyUsd": 6.0,
        "stopsAt": T,
        "forecastUsd": 300.0,
        "unpriced": 0,
        "createdAt": T,
        "createdBy": {"id": "", "arn": arn, "account": "1", "name": "alice", "kind": "user"},
        "updatedAt": T,
        **fields,
    }


def test_a_budget_is_shown_with_what_is_left(api: FakeApi, trainyard: Command) -> None:
    api.answers[f"GET {PATH}"] = (200, budget())
    code, out, _ = trainyard("budget", "show", "vision")
    assert code == 0
    for words in ("team=[vision]", "12.35 of 400 USD", "300.00 USD", "6 USD now", "2026-11 (UTC)"):
        assert words in out


def test_a_new_budget_is_sent_as_it_was_typed(api: FakeApi, trainyard: Command) -> None:
    api.answers |= {
        "GET /v1/budgets": (200, {"budgets": [], "nextToken": None}),
        f"PUT {PATH}": (200, budget()),
    }
    code, _, _ = trainyard(
        "budget", "set", "vision", "--label", "team=vision", "--max-usd", "400",
        "--warn-at", "0.5", "--warn-at", "0.9", "--per", "total",
    )  # fmt: skip
    assert code == 0
    (call,) = api.calls(f"PUT {PATH}")
    assert json.loads(call["body"]) == {
        "label": "team=vision", "maxUsd": 400.0, "warnAt": [0.5, 0.9], "per": "total",
    }  # fmt: skip


def test_a_raised_budget_keeps_what_was_not_named(api: FakeApi, trainyard: Command) -> None:
    api.answers |= {
        "GET /v1/budgets": (200, {"budgets": [budget(label="team=vision")], "nextToken": None}),
        f"PUT {PATH}": (200, budget(maxUsd=800.0)),
    }
    assert trainyard("budget", "set", "vision", "--max-usd", "800")[0] == 0
    (call,) = api.calls(f"PUT {PATH}")
    assert json.loads(call["body"]) == {
        "label": "team=vision", "maxUsd": 800.0, "per": "month", "warnAt": [0.5],
        "tailSeconds": 600,
    }  # fmt: skip


def test_budgets_are_listed_and_removed(api: FakeApi, trainyard: Command) -> None:
    api.answers |= {
        "GET /v1/budgets": (200, {"budgets": [budget(status="used-up")], "nextToken": None}),
        f"DELETE {PATH}": (200, budget(status="deleted")),
    }
    out = trainyard("budget", "ls")[1]
    assert "used-up" in out
    assert "12.35 of 400" in out
    code, out, _ = trainyard("budget", "rm", "vision", "--reason", "over")
    assert (code, out) == (0, "Budget vision is removed.\n")
    assert api.calls(f"DELETE {PATH}")[0]["query"] == {"reason": "over"}
