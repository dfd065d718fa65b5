"""What waits for people, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.http_events import Client, Signer, is_a_problem, spec
from tests.support.memory import World

from trainyard.app.runs.approvals import settle_approval
from trainyard.domain.approvals import ApprovalRules

BOB = Signer("arn:aws:iam::123456789012:user/bob", "AIDABOB")


@pytest.fixture
def waiting(client: Client, world: World) -> dict[str, Any]:
    """A run that waits, as the API answers its submission; its machine has looked at it once."""
    config = replace(world.ports.config, approvals=ApprovalRules(above_usd=1.0))
    world.ports = replace(world.ports, config=config)
    run: dict[str, Any] = client.post("/v1/runs", spec()).json
    settle_approval(world.ports, world.runs.stored[run["id"]])
    return run


def test_a_run_says_which_approval_it_waits_for(client: Client, waiting: dict[str, Any]) -> None:
    assert waiting["status"] == "Waiting"
    assert waiting["approvalMetAt"] is None
    found = client.get("/v1/approvals").json["approvals"]
    assert [one["id"] for one in found] == [waiting["approval"]["id"]]
    assert found[0]["because"] == waiting["approval"]["because"]
    assert (found[0]["state"], found[0]["runId"]) == ("pending", waiting["id"])
    assert client.get("/v1/approvals", query={"state": "used"}).json["approvals"] == []
    is_a_problem(client.get("/v1/approvals", query={"state": "open"}), 400, "invalid-request")


def test_another_person_approves_and_the_audit_list_says_who_and_why(
    client: Client, waiting: dict[str, Any]
) -> None:
    path = f"/v1/approvals/{waiting['approval']['id']}"
    refused = client.post(f"{path}:approve")
    is_a_problem(refused, 403, "not-allowed")
    assert "me (arn:aws:iam::123456789012:user/me) asked for this" in refused.json["detail"]
    by_bob = client.of(BOB)
    done = by_bob.post(f"{path}:approve", query={"reason": "fine"})
    assert (done.status, done.json["state"]) == (200, "approved")
    assert [(one["by"]["name"], one["reason"]) for one in done.json["approvers"]] == [
        ("bob", "fine")
    ]
    is_a_problem(by_bob.post(f"{path}:deny"), 409, "wrong-state")
    query = {"what": "approval", "since": "2026-01-01T00:00:00Z"}
    entries = client.get("/v1/audit", query=query).json["entries"]
    assert sorted((one["what"], one["outcome"], one["reason"]) for one in entries) == [
        ("approval.approve", "done", "fine"),
        ("approval.approve", "refused", ""),
        ("approval.deny", "failed", ""),
    ]


def test_one_that_is_over_by_the_time_is_shown_so(
    client: Client, world: World, waiting: dict[str, Any]
) -> None:
    path = f"/v1/approvals/{waiting['approval']['id']}"
    world.clock.tick(timedelta(days=1).total_seconds())
    assert client.get(path).json["state"] == "expired"


def test_what_is_no_approval_is_not_found(client: Client) -> None:
    is_a_problem(client.get("/v1/approvals/apr-1"), 404, "not-found")
    is_a_problem(client.post("/v1/approvals/nothing:approve"), 404, "not-found")
