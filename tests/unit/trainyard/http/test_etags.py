"""ETags over HTTP: what is known already is not sent, and a change is meant for one state."""

from __future__ import annotations

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World

from trainyard_contracts.events import ClusterHeartbeat, RunSample


def submit(client: Client) -> str:
    return str(client.post("/v1/runs", {**spec(), "labels": {"exp": "3"}}).json["id"])


def test_what_the_caller_has_is_not_sent_again(client: Client, world: World) -> None:
    run = submit(client)
    first = client.get(f"/v1/runs/{run}")
    etag = first.headers["ETag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = client.get(f"/v1/runs/{run}", headers={"If-None-Match": known})
        assert (again.status, again.text or "", again.headers["ETag"]) == (304, "", etag)
    world.runs.put(world.runs.get(run))
    changed = client.get(f"/v1/runs/{run}", headers={"If-None-Match": etag})
    assert changed.status == 200
    assert changed.headers["ETag"] != etag


def test_a_new_sample_is_news_and_no_reason_to_refuse_a_change(
    client: Client, world: World
) -> None:
    run = submit(client)
    before = client.get(f"/v1/runs/{run}").headers["ETag"]
    record = world.runs.get(run)
    world.clusters.put_heartbeat(
        ClusterHeartbeat(
            id="0" * 26,
            at=world.clock.now(),
            cluster_name=record.cluster_name,
            cluster_arn="arn",
            nodes=[],
            runs=[RunSample(run_id=run, attempt=1, step=7)],
        )
    )
    after = client.get(f"/v1/runs/{run}", headers={"If-None-Match": before})
    assert after.status == 200
    assert after.json["latest"]["step"] == 7
    answer = client.post(f"/v1/runs/{run}:cancel", headers={"If-Match": before})
    assert answer.status == 202


@pytest.mark.parametrize("call", ["cancel", "resume", "export", "label"])
def test_a_change_that_is_meant_for_yesterdays_state_is_refused(
    client: Client, world: World, call: str
) -> None:
    run = submit(client)
    yesterday = {"If-Match": client.get(f"/v1/runs/{run}").headers["ETag"]}
    world.clock.tick(86400)
    world.runs.put(world.runs.get(run).model_copy(update={"status": "Running"}))
    if call == "label":
        path, body = f"/v1/runs/{run}", {"labels": {"exp": "4"}}
        answer = client.send("PATCH", path, body=body, headers=yesterday)
    else:
        answer = client.post(f"/v1/runs/{run}:{call}", headers=yesterday)
    is_a_problem(answer, 412, "precondition-failed")
    assert "Running" in answer.json["detail"]
    assert "Read it again" in answer.json["nextStep"]
    assert world.runs.get(run).labels == {"exp": "3"}


def test_a_change_of_a_cluster_that_is_meant_for_yesterdays_state_is_refused(
    client: Client, world: World
) -> None:
    body = spec()["cluster"]["spec"]
    client.post("/v1/clusters", body)
    first = client.get("/v1/clusters/demo")
    etag = first.headers["ETag"]
    assert client.get("/v1/clusters/demo", headers={"If-None-Match": etag}).status == 304
    world.clusters.put(world.clusters.get("demo").model_copy(update={"status": "Ready"}))
    old = {"If-Match": etag}
    for answer in (
        client.send("DELETE", "/v1/clusters/demo", headers=old),
        client.send("PUT", "/v1/clusters/demo", body=body, headers=old),
        client.post("/v1/clusters/demo:stop", headers=old),
        client.post("/v1/clusters/demo:start", headers=old),
        client.send("PATCH", "/v1/clusters/demo", body={"labels": {}}, headers=old),
    ):
        is_a_problem(answer, 412, "precondition-failed")
    now = {"If-Match": client.get("/v1/clusters/demo").headers["ETag"]}
    assert client.send("DELETE", "/v1/clusters/demo", headers=now).status == 202


@pytest.mark.parametrize("sent", ["7", '"7"', 'W/"7-0123456789abcdef"', '"a", "b"', '"', ""])
def test_what_is_no_etag_of_ours_is_refused_with_what_one_looks_like(
    client: Client, sent: str
) -> None:
    run = submit(client)
    answer = client.post(f"/v1/runs/{run}:cancel", headers={"If-Match": sent})
    is_a_problem(answer, 400, "invalid-request")
    assert "quotation marks" in answer.fields["if-match"]


def test_any_state_will_do_for_a_star(client: Client) -> None:
    run = submit(client)
    assert client.post(f"/v1/runs/{run}:cancel", headers={"If-Match": "*"}).status == 202
