"""Whose arrays and schedules are: who changes them, and how they come to be others'."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.unit.trainyard.http.test_people import ADMIN, ALICE, BOB, entries, held

__all__ = ["held"]


def swept() -> dict[str, Any]:
    run = spec()
    run["job"]["arguments"] = ["--lr", "{lr}"]
    return {"run": run, "parameters": [{"lr": "0.1"}, {"lr": "0.2"}], "maxParallel": 1}


def made(client: Client, kind: str) -> str:
    """The path of what she made."""
    if kind == "array":
        answer = client.post("/v1/arrays", swept())
        assert answer.status == 202, answer.text
        return f"/v1/arrays/{answer.json['id']}"
    answer = client.post("/v1/schedules", {"name": "nightly", "rate": "1 day", "run": spec()})
    assert answer.status == 201, answer.text
    return "/v1/schedules/nightly"


BOTH = pytest.mark.parametrize("kind", ["array", "schedule"])


@pytest.mark.parametrize(
    ("kind", "method", "verb"),
    [
        ("array", "POST", ":cancel"),
        ("schedule", "POST", ":pause"),
        ("schedule", "POST", ":resume"),
        ("schedule", "DELETE", ""),
    ],
)
def test_another_member_changes_none_of_hers_and_learns_how_it_could_be_theirs(
    held: Client, kind: str, method: str, verb: str
) -> None:
    path = made(held, kind)
    before = held.get(path).json
    answer = held.of(BOB).send(method, path + verb)
    is_a_problem(answer, 403, "not-allowed")
    assert f"belongs to alice ({ALICE.arn})" in answer.json["detail"]
    name = path.rpartition("/")[2]
    assert f"trainyard {kind} share {name} --with ARN" in answer.json["nextStep"]
    assert f"trainyard {kind} transfer {name} --to ARN" in answer.json["nextStep"]
    assert held.get(path).json == before
    assert entries(held, who="bob")[0]["outcome"] == "refused"


@BOTH
def test_who_it_is_shared_with_changes_it_and_gives_it_to_nobody(held: Client, kind: str) -> None:
    path = made(held, kind)
    bob = held.of(BOB)
    with_bob = {"sharedWith": ["arn:aws:sts::123456789012:assumed-role/Research/b*"]}
    is_a_problem(bob.post(f"{path}:share", with_bob), 403, "not-allowed")
    assert held.post(f"{path}:share", with_bob).json["sharedWith"] == with_bob["sharedWith"]
    assert held.get(path).json["sharedWith"] == with_bob["sharedWith"]
    for verb, body in (("share", {"sharedWith": []}), ("transfer", {"to": BOB.arn})):
        is_a_problem(bob.post(f"{path}:{verb}", body), 403, "not-allowed")
    ends = {"array": ("POST", f"{path}:cancel"), "schedule": ("DELETE", path)}
    assert bob.send(*ends[kind]).status < 300


@BOTH
def test_what_one_who_left_had_an_admin_gives_to_another(held: Client, kind: str) -> None:
    path = made(held, kind)
    is_a_problem(held.of(BOB).post(f"{path}:transfer", {}), 403, "not-allowed")
    given = held.of(ADMIN).post(f"{path}:transfer", {"to": BOB.arn}, query={"reason": "Alice left"})
    assert given.json["createdBy"]["name"] == "bob"
    (entry,) = entries(held, what=f"{kind}.transfer", who="carol")
    assert (entry["reason"], entry["outcome"]) == ("Alice left", "done")
    is_a_problem(held.post(f"{path}:transfer", {}), 403, "not-allowed")
    assert held.of(BOB).post(f"{path}:transfer", {"to": ALICE.arn}).status == 200


@BOTH
@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("transfer", {"to": "bob"}, "to"),
        ("share", {"sharedWith": [ALICE.arn, "*"]}, "sharedWith.1"),
        ("share", {"with": []}, "with"),
    ],
)
def test_one_who_can_be_nobody_is_refused_by_the_field(
    held: Client, kind: str, verb: str, body: dict[str, Any], field: str
) -> None:
    answer = held.post(f"{made(held, kind)}:{verb}", body)
    is_a_problem(answer, 400, "invalid-request")
    assert field in answer.fields


@pytest.mark.parametrize("verb", ["share", "transfer"])
def test_a_schedule_that_is_deleted_is_nobodys(held: Client, verb: str) -> None:
    path = made(held, "schedule")
    held.send("DELETE", path)
    body: dict[str, Any] = {"sharedWith": []} if verb == "share" else {}
    is_a_problem(held.post(f"{path}:{verb}", body), 404, "not-found")


@BOTH
def test_lists_say_with_whom_each_is_shared(held: Client, kind: str) -> None:
    path = made(held, kind)
    held.post(f"{path}:share", {"sharedWith": [BOB.arn]})
    listed = held.get(f"/v1/{kind}s").json[f"{kind}s"]
    assert [one["sharedWith"] for one in listed] == [[BOB.arn]]
