"""Two people and three roles over HTTP: who may what, whose it is, and the list of who did it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.filesystem_parts import filesystem_document
from tests.support.http_events import Client, Signer, is_a_problem, spec
from tests.support.memory import World

from trainyard.domain.people import RolesOfPeople
from trainyard.http.api import Api

ALICE = Signer("arn:aws:iam::123456789012:user/alice", "AIDAALICE")
BOB = Signer("arn:aws:sts::123456789012:assumed-role/Research/bob", "AROARESEARCH:bob")
ADMIN = Signer("arn:aws:sts::123456789012:assumed-role/Lead/carol", "AROALEAD:carol")
VIEWER = Signer("arn:aws:iam::123456789012:user/dave", "AIDADAVE")
STRANGER = Signer("arn:aws:iam::123456789012:user/eve", "AIDAEVE")
ROLES = RolesOfPeople(
    admins=["arn:aws:iam::123456789012:role/Lead"],
    members=[ALICE.arn, "arn:aws:sts::123456789012:assumed-role/Research/*"],
    viewers=["arn:aws:iam::123456789012:user/d*"],
)


@pytest.fixture
def held(world: World) -> Client:
    """The API of a stack that names its admins, members and viewers; Alice calls."""
    ports = replace(world.ports, config=replace(world.ports.config, roles=ROLES))
    return Client(Api(lambda: ports), ALICE)


def submitted(client: Client) -> str:
    answer = client.post("/v1/runs", spec())
    assert answer.status == 202, answer.text
    return str(answer.json["id"])


def entries(client: Client, **query: str) -> list[dict[str, Any]]:
    query = {"since": "2026-01-01T00:00:00Z", **query}
    answer = client.of(ADMIN).get("/v1/audit", query=query)
    assert answer.status == 200, answer.text
    return list(answer.json["entries"])


def test_the_same_key_of_two_people_is_two_keys(held: Client) -> None:
    key = {"Idempotency-Key": "nightly"}
    swept: dict[str, Any] = {"run": spec(), "parameters": [{"lr": "0.1"}]}
    swept["run"]["job"]["arguments"] = ["--lr", "{lr}"]
    for path, body in (("/v1/runs", spec()), ("/v1/arrays", swept)):
        first, again = (held.post(path, body, headers=key) for _ in range(2))
        other = held.of(BOB).post(path, body, headers=key)
        assert [first.status, again.status, other.status] == [202] * 3, other.text
        assert first.json["id"] == again.json["id"] != other.json["id"]
        assert other.json["createdBy"]["name"] == "bob"
    changed = held.of(BOB).post("/v1/runs", {**spec(), "name": "other"}, headers=key)
    is_a_problem(changed, 409, "idempotency-conflict")
    assert held.of(ADMIN).post("/v1/runs", {**spec(), "name": "x"}, headers=key).status == 202


def test_a_run_says_who_submitted_it_and_who_cancelled_it(held: Client, world: World) -> None:
    run = submitted(held)
    shown = held.get(f"/v1/runs/{run}").json
    assert shown["createdBy"] == {
        "id": "AIDAALICE",
        "arn": ALICE.arn,
        "account": "123456789012",
        "name": "alice",
        "kind": "user",
    }
    held.post(f"/v1/runs/{run}:cancel", query={"reason": "wrong data"})
    assert world.runs.messages(run)[-1] == "alice asked to cancel the run. Reason: wrong data"
    assert held.get("/v1/runs").json["runs"][0]["createdBy"]["name"] == "alice"


@pytest.mark.parametrize("verb", ["cancel", "resume", "export"])
def test_another_member_changes_no_run_of_hers_and_learns_whose_it_is(
    held: Client, world: World, verb: str
) -> None:
    run = submitted(held)
    before = world.runs.get(run)
    answer = held.of(BOB).post(f"/v1/runs/{run}:{verb}")
    is_a_problem(answer, 403, "not-allowed")
    assert f"Run '{run}' belongs to alice ({ALICE.arn})" in answer.json["detail"]
    assert f"trainyard run share {run} --with ARN" in answer.json["nextStep"]
    assert world.runs.get(run) == before
    assert world.runs.facts(run) == []


def test_an_admin_cancels_anybodys_run(held: Client, world: World) -> None:
    run = submitted(held)
    assert held.of(ADMIN).post(f"/v1/runs/{run}:cancel").status == 202
    assert world.runs.messages(run)[-1] == "carol asked to cancel the run."


def test_a_viewer_reads_everything_and_changes_nothing(held: Client) -> None:
    run, viewer = submitted(held), held.of(VIEWER)
    assert viewer.get(f"/v1/runs/{run}").status == 200
    assert viewer.post("/v1/runs", spec(), query={"dryrun": "true"}).status == 200
    for path, body in (
        ("/v1/runs", spec()),
        (f"/v1/runs/{run}:cancel", None),
        ("/v1/clusters", {**spec()["cluster"]["spec"], "name": "c"}),
        ("/v1/filesystems", filesystem_document()),
        (f"/v1/runs/{run}:share", {"sharedWith": [VIEWER.arn]}),
    ):
        answer = viewer.post(path, body)
        is_a_problem(answer, 403, "not-allowed")
        assert "viewers only read" in answer.json["detail"]
    assert [one["outcome"] for one in entries(held, who="dave")] == ["refused"] * 5


def test_one_without_a_role_reads_nothing_but_who_they_are(held: Client) -> None:
    run, stranger = submitted(held), held.of(STRANGER)
    for path in ("/v1/runs", f"/v1/runs/{run}", "/v1/clusters", "/v1/audit", "/v1/filesystems"):
        is_a_problem(stranger.get(path), 403, "not-allowed")
    found = stranger.get("/v1/whoami")
    assert (found.status, found.json["role"], found.json["person"]["name"]) == (200, None, "eve")


def test_whoami_names_the_role(held: Client, client: Client) -> None:
    roles = [held.of(one).get("/v1/whoami").json["role"] for one in (ADMIN, BOB, VIEWER)]
    assert roles == ["admin", "member", "viewer"]
    assert held.get("/v1/whoami").json["everybodyIsAdmin"] is False
    assert client.get("/v1/whoami").json["everybodyIsAdmin"] is True


def test_a_stack_that_names_nobody_works_as_before(client: Client) -> None:
    run = submitted(client.of(ALICE))
    assert client.of(BOB).post(f"/v1/runs/{run}:cancel").status == 202


def test_owners_in_headers_and_bodies_are_nobodys_word(held: Client) -> None:
    run = submitted(held)
    forged = {
        "x-amzn-iam-user-arn": ALICE.arn,
        "x-trainyard-user": ALICE.arn,
        "x-amz-caller": ALICE.id,
    }
    answer = held.of(BOB).post(f"/v1/runs/{run}:cancel", headers=forged)
    is_a_problem(answer, 403, "not-allowed")
    body = {**spec(), "createdBy": {"arn": ALICE.arn, "id": ALICE.id}}
    is_a_problem(held.of(BOB).post("/v1/runs", body), 400, "invalid-request")
    is_a_problem(
        held.of(BOB).post("/v1/runs", spec(), query={"createdBy": ALICE.arn}),
        400,
        "invalid-request",
    )


def test_a_session_named_like_a_user_is_not_that_user(held: Client) -> None:
    run = submitted(held)
    other = Signer("arn:aws:sts::123456789012:assumed-role/Research/alice", "AROARESEARCH:alice")
    is_a_problem(held.of(other).post(f"/v1/runs/{run}:cancel"), 403, "not-allowed")
    again = Signer(ALICE.arn, "AIDALATER")  # the user was deleted, and another got the name
    is_a_problem(held.of(again).post(f"/v1/runs/{run}:cancel"), 403, "not-allowed")


def test_a_request_that_the_gateway_did_not_authorize_is_refused(world: World) -> None:
    nobody = Client(Api(lambda: world.ports), Signer("", ""))
    answer = nobody.get("/v1/runs")
    is_a_problem(answer, 403, "not-allowed")
    assert "AWS_IAM" in answer.json["nextStep"]


def test_a_run_that_is_shared_is_changed_by_the_others_and_given_away_by_its_owner_only(
    held: Client,
) -> None:
    run = submitted(held)
    with_bob = {"sharedWith": ["arn:aws:sts::123456789012:assumed-role/Research/b*"]}
    is_a_problem(held.of(BOB).post(f"/v1/runs/{run}:share", with_bob), 403, "not-allowed")
    assert held.post(f"/v1/runs/{run}:share", with_bob).json["sharedWith"] == with_bob["sharedWith"]
    assert held.of(BOB).post(f"/v1/runs/{run}:export").status == 202
    for verb, body in (("share", {"sharedWith": []}), ("transfer", {"to": BOB.arn})):
        is_a_problem(held.of(BOB).post(f"/v1/runs/{run}:{verb}", body), 403, "not-allowed")
    held.post(f"/v1/runs/{run}:share", {"sharedWith": []})
    is_a_problem(held.of(BOB).post(f"/v1/runs/{run}:cancel"), 403, "not-allowed")


def test_the_run_of_an_owner_who_left_is_taken_over_by_an_admin(held: Client, world: World) -> None:
    run = submitted(held)
    is_a_problem(held.of(BOB).post(f"/v1/runs/{run}:transfer", {}), 403, "not-allowed")
    given = held.of(ADMIN).post(
        f"/v1/runs/{run}:transfer", {"to": BOB.arn}, query={"reason": "Alice left"}
    )
    assert given.json["createdBy"]["name"] == "bob"
    assert "carol gave the run to bob" in world.runs.messages(run)[-1]
    assert held.of(BOB).post(f"/v1/runs/{run}:cancel").status == 202
    is_a_problem(held.post(f"/v1/runs/{run}:cancel"), 403, "not-allowed")
    newest = entries(held, what="run.transfer")[0]
    assert (newest["who"]["name"], newest["reason"]) == ("carol", "Alice left")
    taken = held.of(ADMIN).post(f"/v1/runs/{run}:transfer", {})
    assert taken.json["createdBy"]["name"] == "carol"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("transfer", {"to": "alice"}, "to"),
        ("transfer", {"to": "arn:aws:s3:::bucket"}, "to"),
        ("share", {"sharedWith": ["*"]}, "sharedWith.0"),
        ("share", {"sharedWith": [ALICE.arn, "bob"]}, "sharedWith.1"),
    ],
)
def test_one_who_can_be_nobody_is_refused_by_the_field(
    held: Client, path: str, body: dict[str, Any], field: str
) -> None:
    answer = held.post(f"/v1/runs/{submitted(held)}:{path}", body)
    is_a_problem(answer, 400, "invalid-request")
    assert field in answer.fields
    assert "arn:aws:" in answer.fields[field]


def test_clusters_and_filesystems_have_owners_too(held: Client) -> None:
    body = {**spec()["cluster"]["spec"], "name": "shared"}
    assert held.post("/v1/clusters", body).json["createdBy"]["name"] == "alice"
    assert held.post("/v1/filesystems", filesystem_document()).json["createdBy"]["name"] == "alice"
    bob = held.of(BOB)
    for answer in (
        bob.send("DELETE", "/v1/clusters/shared"),
        bob.send("PUT", "/v1/clusters/shared", body=body),
        bob.post("/v1/clusters/shared:stop"),
        bob.post("/v1/clusters/shared/nodes/i-0123456789abcdef0:reboot"),
        bob.post("/v1/clusters/shared/nodes/i-0123456789abcdef0:replace"),
        bob.send("DELETE", "/v1/filesystems/lab"),
        bob.post("/v1/filesystems/lab:export"),
    ):
        is_a_problem(answer, 403, "not-allowed")
        assert "belongs to alice" in answer.json["detail"]
    for path in ("/v1/clusters/shared", "/v1/filesystems/lab"):
        shared = held.post(f"{path}:share", {"sharedWith": [BOB.arn]})
        assert shared.json["sharedWith"] == [BOB.arn]
        assert held.post(f"{path}:transfer", {"to": BOB.arn}).json["createdBy"]["name"] == "bob"
    assert bob.send("DELETE", "/v1/clusters/shared").json["deletedBy"]["name"] == "bob"


def test_mine_lists_the_signers_runs_only(held: Client) -> None:
    mine, others = submitted(held), submitted(held.of(BOB))
    assert {run["id"] for run in held.get("/v1/runs").json["runs"]} == {mine, others}
    page = held.get("/v1/runs", query={"mine": "true"}).json
    assert [run["id"] for run in page["runs"]] == [mine]


def test_each_change_is_in_the_list_with_who_what_from_where_and_why(held: Client) -> None:
    run = submitted(held)
    held.of(BOB).post(f"/v1/runs/{run}:cancel")
    held.post(f"/v1/runs/{run}:cancel", query={"reason": "wrong data"})
    held.post(f"/v1/runs/{run}:resume")
    by = [(one["who"]["name"], one["what"], one["outcome"]) for one in reversed(entries(held))]
    assert sorted(by) == [
        ("alice", "run.cancel", "done"),
        ("alice", "run.resume", "failed"),
        ("alice", "run.submit", "done"),
        ("bob", "run.cancel", "refused"),
    ]
    assert {one["subject"] for one in entries(held)} == {f"run/{run}"}
    (cancelled,) = entries(held, what="run.cancel", who="alice")
    assert cancelled["reason"] == "wrong data"
    assert (cancelled["sourceIp"], cancelled["userAgent"]) == ("127.0.0.1", "test")
    (failed,) = entries(held, what="run.resume")
    assert "resumes by itself" in failed["detail"]
    assert len(entries(held, what="run")) == 4
    assert len(entries(held, who=BOB.arn)) == 1
    assert entries(held, subject="run/other") == []


def test_from_where_others_asked_only_admins_see(held: Client) -> None:
    submitted(held)
    submitted(held.of(BOB))
    page = held.get("/v1/audit", query={"since": "2026-01-01T00:00:00Z"}).json["entries"]
    seen = {one["who"]["name"]: one["sourceIp"] for one in page}
    assert seen == {"alice": "127.0.0.1", "bob": None}
    assert all(one["sourceIp"] for one in entries(held))


def test_reads_and_dry_runs_are_not_in_the_list(held: Client) -> None:
    held.get("/v1/runs")
    held.post("/v1/runs", spec(), query={"dryrun": "true"})
    assert entries(held) == []


@pytest.mark.parametrize("since", ["yesterday", "2026-11-24", "2026-11-24T08:00:00"])
def test_a_time_without_its_zone_is_refused(held: Client, since: str) -> None:
    answer = held.get("/v1/audit", query={"since": since})
    is_a_problem(answer, 400, "invalid-request")
    assert "with its zone" in answer.fields["since"]


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_utc_has_not_is_refused(held: Client, since: str) -> None:
    answer = held.get("/v1/audit", query={"since": since})
    is_a_problem(answer, 400, "invalid-request")
    assert "years 1 to 9999" in answer.fields["since"]


@pytest.mark.parametrize(
    "path", ["/v1/audit", "/v1/runs", "/v1/clusters", "/v1/filesystems", "/v1/arrays",
             "/v1/schedules"],
)  # fmt: skip
@pytest.mark.parametrize("token", ["x", "e30", "WzEsMl0", "\u0000", "1"])
def test_a_page_token_that_is_none_is_named_in_each_list(
    held: Client, path: str, token: str
) -> None:
    answer = held.get(path, query={"nextToken": token})
    is_a_problem(answer, 400, "invalid-page-token")
    assert "start again without it" in answer.fields["nextToken"]


def test_no_change_is_made_that_the_list_cannot_take(held: Client, world: World) -> None:
    run = submitted(held)

    def full(entry: object) -> bool:
        raise OSError("the table is gone")

    world.audit.add = full  # type: ignore[method-assign,assignment]
    assert held.post(f"/v1/runs/{run}:cancel").status == 500
    assert world.runs.facts(run) == []


def test_members_put_their_runs_behind_others_and_admins_before_them(held: Client) -> None:
    is_a_problem(held.post("/v1/runs", {**spec(), "priority": 1}), 403, "not-allowed")
    run = held.post("/v1/runs", {**spec(), "priority": -1}).json["id"]
    path = f"/v1/runs/{run}"
    refused = held.send("PATCH", path, body={"priority": 5})
    is_a_problem(refused, 403, "not-allowed")
    assert "above 0 is for admins" in refused.json["detail"]
    assert held.send("PATCH", path, body={"priority": 0}).json["priority"] == 0
    assert held.of(ADMIN).send("PATCH", path, body={"priority": 5}).json["priority"] == 5
    assert held.send("PATCH", path, body={"labels": {"a": "b"}}).json["priority"] == 5
    outcomes = [one["outcome"] for one in entries(held, what="run.priority")]
    assert sorted(outcomes) == ["done", "done", "refused"]
