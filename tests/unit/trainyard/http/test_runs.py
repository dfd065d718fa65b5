"""Runs over HTTP: submit once however often it is sent, look, page, cancel, resume, export."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.support.http_events import Client, changed, is_a_problem, spec
from tests.support.memory import World

from trainyard.domain.records import Attempt, Checkpoint, Cluster, Problem, Run
from trainyard.outside.commands import CommandResult
from trainyard_agent.host.identifiers import ulid
from trainyard_contracts.events import ClusterHeartbeat, RunSample

UNKNOWN = "run-01h00000000000000000000000"


def submitted(client: Client, **rest: Any) -> dict[str, Any]:
    answer = client.post("/v1/runs", spec(), **rest)
    assert answer.status == 202, answer.text
    return answer.json


def stored(world: World, run_id: str, **change: Any) -> Run:
    return world.runs.put(world.runs.get(run_id).model_copy(update=change))


def test_a_submitted_run_is_accepted_with_its_location_and_its_machine_started(
    client: Client, world: World
) -> None:
    answer = client.post("/v1/runs", spec())
    assert answer.status == 202
    run = answer.json
    assert answer.headers["Location"] == f"/v1/runs/{run['id']}"
    assert run["status"] == "Pending"
    assert run["clusterName"].startswith("demo-")
    assert "version" not in run
    assert client.get(answer.headers["Location"]).json["id"] == run["id"]
    assert world.executions.status("run", f"{run['id']}-1") == "RUNNING"


def test_the_same_key_and_body_is_the_same_run(client: Client) -> None:
    first = submitted(client, headers={"Idempotency-Key": "key 1, of many"})
    again = submitted(client, headers={"idempotency-key": "key 1, of many"})
    assert again["id"] == first["id"]
    assert len(client.get("/v1/runs").json["runs"]) == 1


def test_numbers_of_arguments_and_variables_are_shown_as_the_texts_that_they_become(
    client: Client,
) -> None:
    body = changed("job", {**spec()["job"], "arguments": ["--n", 3], "environment": {"LR": 0.5}})
    run = client.get(client.post("/v1/runs", body).headers["Location"]).json
    assert run["spec"]["job"]["arguments"] == ["--n", "3"]
    assert run["spec"]["job"]["environment"] == {"LR": "0.5"}


def test_a_boolean_variable_is_refused_by_its_name(client: Client) -> None:
    body = changed("job", {**spec()["job"], "environment": {"A": True}})
    answer = client.post("/v1/runs", body)
    is_a_problem(answer, 400, "invalid-request")
    assert "job.environment.A" in answer.text
    assert "in quotes: 'true'" in answer.text


def test_the_same_key_with_another_body_is_a_conflict(client: Client) -> None:
    submitted(client, headers={"Idempotency-Key": "k"})
    is_a_problem(
        client.post("/v1/runs", changed("name", "other"), headers={"Idempotency-Key": "k"}),
        409,
        "idempotency-conflict",
    )


@pytest.mark.parametrize("status", ["Failed", "Deleting", "Deleted", None])
def test_a_repeated_request_is_answered_as_the_first_though_its_cluster_is_gone(
    client: Client, world: World, status: str | None
) -> None:
    client.post("/v1/clusters", spec()["cluster"]["spec"])
    body, headers = changed("cluster", {"name": "demo"}), {"Idempotency-Key": "k"}
    first = client.post("/v1/runs", body, headers=headers)
    cluster = world.clusters.stored.pop("demo")
    if status:
        world.clusters.stored["demo"] = cluster.model_copy(update={"status": status})
    again = client.post("/v1/runs", body, headers=headers)
    assert (again.status, again.headers["Location"], again.json["id"]) == (
        202,
        first.headers["Location"],
        first.json["id"],
    )
    assert client.post("/v1/runs", body).status in (404, 409)
    is_a_problem(
        client.post("/v1/runs", body | {"name": "other"}, headers=headers),
        409,
        "idempotency-conflict",
    )


def test_without_a_key_every_request_is_a_run_of_its_own(client: Client) -> None:
    assert submitted(client)["id"] != submitted(client)["id"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({f"h{number}": 1 for number in range(101)}, "job.hyperparameters"),
        ({"x": "a" * 2499}, "job.hyperparameters.x"),
        ({"n" * 257: 1}, "job.hyperparameters.nnn"),
    ],
)
def test_hyperparameters_beyond_awss_limits_are_refused_with_their_field(
    client: Client, given: dict[str, Any], field: str
) -> None:
    body = spec()
    body["job"]["hyperparameters"] = given
    answer = client.post("/v1/runs", body)
    is_a_problem(answer, 400, "invalid-request")
    assert [name for name in answer.fields if name.startswith(field)], answer.fields
    assert client.get("/v1/runs").json["runs"] == []


def test_a_dry_run_answers_the_plan_and_does_nothing(client: Client) -> None:
    answer = client.post("/v1/runs", spec(), query={"dryrun": "true"})
    assert answer.status == 200
    plan = answer.json
    assert plan.keys() == {
        "operation",
        "request",
        "files",
        "batchScript",
        "hourlyUsd",
        "warnings",
        "ways",
        "backend",
        "zones",
        "cannot",
        "expectedUsd",
        "mostUsd",
        "environment",
        "listPrice",
    }
    assert plan["listPrice"] is None, "the price list says what it costs"
    assert plan["operation"]
    assert "srun" in plan["batchScript"]
    assert client.get("/v1/runs").json["runs"] == []


def test_a_dry_run_shows_the_variables_and_no_secret(client: Client, world: World) -> None:
    canary = "canary-4711"
    world.secrets.write("team/token", canary)
    body = spec()
    body["cluster"]["spec"]["jobSecrets"] = ["team/token"]
    body["job"] |= {
        "environment": {"LR": "0.1", "EMPTY": "", "OMP_NUM_THREADS": "4"},
        "secrets": {"HF_TOKEN": "team/token:read"},
    }
    answer = client.post("/v1/runs", body, query={"dryrun": "true"})
    assert answer.status == 200, answer.json
    shown = {one["name"]: one for one in answer.json["environment"]}
    assert len(shown) == len(answer.json["environment"]), "each name once"
    assert shown["LR"] == {"name": "LR", "value": "0.1", "source": "job", "note": ""}
    assert shown["EMPTY"]["value"] == ""
    assert shown["OMP_NUM_THREADS"]["value"] == "4", "the job's own is stronger"
    assert (shown["HF_TOKEN"]["value"], shown["HF_TOKEN"]["source"]) == (None, "secret")
    assert "'team/token:read'" in shown["HF_TOKEN"]["note"]
    assert (shown["WORLD_SIZE"]["value"], shown["MASTER_ADDR"]["value"]) == ("2", None)
    assert shown["TRAINYARD_ATTEMPT"]["value"] == "1"
    assert canary not in json.dumps(answer.json)


def test_a_dry_run_compares_the_ways_of_a_spec_by_request_price_and_zone(client: Client) -> None:
    body = spec() | {"limits": {"expectedSeconds": 7200, "maxDurationSeconds": 36000}}
    ways = [{"instanceType": "ml.p5.48xlarge"}, {"market": "spot"}]
    body["cluster"]["spec"]["capacity"] = ways
    plan = client.post("/v1/runs", body, query={"dryrun": "true"}).json
    first, second = plan["ways"]
    assert (first["way"], first["backend"]) == ("ml.p5.48xlarge, on demand", "hyperpod")
    assert first["expectedUsd"] == 2 * first["hourlyUsd"] == plan["expectedUsd"]
    assert first["mostUsd"] == 10 * first["hourlyUsd"] == plan["mostUsd"]
    assert (second["way"], second["operation"]) == ("ml.c5.xlarge, spot", "CreateCluster")
    assert any("training plan" in words for words in first["cannot"])
    assert first["request"]
    assert [one["files"] for one in plan["ways"]] == [plan["files"]] * 2
    assert plan["files"]


def test_a_run_on_a_cluster_that_is_not_there_names_the_field(client: Client) -> None:
    answer = client.post("/v1/runs", changed("cluster", {"name": "nowhere"}))
    is_a_problem(answer, 404, "cluster-not-found")
    assert "cluster.name" in answer.fields


def test_a_page_holds_what_was_asked_and_leads_to_the_next(client: Client) -> None:
    ids = {submitted(client)["id"] for _ in range(5)}
    first = client.get("/v1/runs", query={"limit": 2}).json
    assert len(first["runs"]) == 2
    second = client.get("/v1/runs", query={"limit": 2, "nextToken": first["nextToken"]}).json
    third = client.get("/v1/runs", query={"limit": 2, "nextToken": second["nextToken"]}).json
    assert {run["id"] for page in (first, second, third) for run in page["runs"]} == ids
    assert third["nextToken"] is None


@pytest.mark.parametrize("token", ["nonsense", "e30", "AAAA====", "\u2603"])
def test_a_made_up_page_token_is_refused(client: Client, token: str) -> None:
    submitted(client)
    is_a_problem(client.get("/v1/runs", query={"nextToken": token}), 400, "invalid-page-token")


def test_a_page_token_of_another_query_is_refused(client: Client) -> None:
    first, second = submitted(client), submitted(client)
    token = client.get("/v1/runs", query={"limit": 1}).json["nextToken"]
    assert token
    is_a_problem(
        client.get("/v1/runs", query={"limit": 1, "nextToken": token, "status": "Failed"}),
        400,
        "invalid-page-token",
    )
    is_a_problem(
        client.get(f"/v1/runs/{first['id']}/events", query={"nextToken": token}),
        400,
        "invalid-page-token",
    )
    is_a_problem(
        client.get(f"/v1/runs/{second['id']}/checkpoints", query={"nextToken": token}),
        400,
        "invalid-page-token",
    )


@pytest.mark.parametrize("part", ["", "/events", "/checkpoints", "/logs", "/metrics"])
def test_an_unknown_run_has_nothing_to_show(client: Client, part: str) -> None:
    is_a_problem(client.get(f"/v1/runs/{UNKNOWN}{part}"), 404, "run-not-found")


@pytest.mark.parametrize("verb", ["cancel", "resume", "export"])
def test_an_unknown_run_takes_no_action(client: Client, verb: str) -> None:
    is_a_problem(client.post(f"/v1/runs/{UNKNOWN}:{verb}"), 404, "run-not-found")


def test_cancel_is_recorded_once_however_often_it_is_asked(client: Client) -> None:
    run = submitted(client)
    for _ in range(2):
        answer = client.post(f"/v1/runs/{run['id']}:cancel")
        assert answer.status == 202
        assert answer.headers["Location"] == f"/v1/runs/{run['id']}"
    events = client.get(f"/v1/runs/{run['id']}/events").json["events"]
    assert [event["type"] for event in events].count("CancelRequested") == 1


def test_cancel_of_a_cancelled_run_is_accepted_and_of_a_succeeded_one_refused(
    client: Client, world: World
) -> None:
    run = submitted(client)
    stored(world, run["id"], status="Cancelled", outcome="cancelled")
    assert client.post(f"/v1/runs/{run['id']}:cancel").status == 202
    stored(world, run["id"], status="Succeeded", outcome="succeeded")
    is_a_problem(client.post(f"/v1/runs/{run['id']}:cancel"), 409, "run-finished")


def test_resume_of_a_succeeded_run_and_of_an_active_one_are_refused(
    client: Client, world: World
) -> None:
    run = submitted(client)
    is_a_problem(client.post(f"/v1/runs/{run['id']}:resume"), 409, "run-active")
    stored(world, run["id"], status="Succeeded", outcome="succeeded")
    is_a_problem(client.post(f"/v1/runs/{run['id']}:resume"), 409, "run-finished")


def test_resume_of_a_failed_run_starts_a_new_life(client: Client, world: World) -> None:
    run = submitted(client)
    problem = Problem(code="cluster-failed", title="t", detail="d", next_step="n")
    stored(world, run["id"], status="Failed", outcome="failed", problem=problem)
    answer = client.post(f"/v1/runs/{run['id']}:resume")
    assert answer.status == 202, answer.text
    assert answer.json["status"] not in ("Failed", "Succeeded")


def test_what_to_do_next_names_the_run_where_it_is_shown_and_where_it_is_listed(
    client: Client, world: World
) -> None:
    run = submitted(client)["id"]
    problem = Problem(code="internal", title="t", detail="d", next_step="trainyard run resume RUN.")
    stored(world, run, status="Failed", outcome="failed", problem=problem)
    [listed] = client.get("/v1/runs").json["runs"]
    for found in (listed, client.get(f"/v1/runs/{run}").json):
        assert found["problem"]["nextStep"] == f"trainyard run resume {run}."


def test_export_of_an_ended_run_whose_cluster_is_gone_is_a_conflict(
    client: Client, world: World
) -> None:
    run = submitted(client)
    stored(world, run["id"], status="Failed", outcome="failed")
    answer = client.post(f"/v1/runs/{run['id']}:export")
    is_a_problem(answer, 409, "wrong-state")
    assert "its program never started" in answer.json["detail"]
    stored(world, run["id"], attempts=[Attempt(number=1, submitted_at=world.clock.now())])
    answer = client.post(f"/v1/runs/{run['id']}:export")
    is_a_problem(answer, 409, "wrong-state")
    assert "holds nothing of it any more" in answer.json["detail"]


def test_checkpoints_are_listed_newest_first_in_camel_case(client: Client, world: World) -> None:
    run = submitted(client)
    for step in (10, 20):
        world.runs.put_checkpoint(
            run["id"],
            Checkpoint(
                step=step,
                attempt=1,
                path=f"checkpoints/{step}",
                bytes=5,
                files=1,
                committed_at=world.clock.now(),
            ),
        )
    found = client.get(f"/v1/runs/{run['id']}/checkpoints").json["checkpoints"]
    assert [checkpoint["step"] for checkpoint in found] == [20, 10]
    assert "committedAt" in found[0]


def test_a_run_without_an_attempt_has_an_empty_log_and_empty_series(client: Client) -> None:
    run = submitted(client)
    log = client.get(f"/v1/runs/{run['id']}/logs").json
    assert log == {"kind": "job", "attempt": None, "source": "none", "text": ""}
    assert client.get(f"/v1/runs/{run['id']}/metrics").json == {
        "nodes": {},
        "run": [],
        "thinned": False,
        "nodeCount": 0,
        "name": "loss",
        "points": [],
        "names": [],
        "namesLeftOut": 0,
    }


@pytest.mark.parametrize("kind", ["job", "lifecycle"])
def test_the_log_of_an_unknown_attempt_is_not_found_and_the_known_ones_are_named(
    client: Client, world: World, kind: str
) -> None:
    run = submitted(client)
    path, query = f"/v1/runs/{run['id']}/logs", {"attempt": 3, "kind": kind}
    answer = client.get(path, query=query)
    is_a_problem(answer, 404, "not-found")
    assert "has none yet" in answer.fields["attempt"]
    stored(world, run["id"], attempts=[Attempt(number=1), Attempt(number=2)])
    answer = client.get(path, query=query)
    is_a_problem(answer, 404, "not-found")
    assert (
        "there is no attempt 3; the run has attempts 1, 2; leave it out for the newest"
        in answer.fields["attempt"]
    )
    assert client.get(path, query={**query, "attempt": 2}).status == 200


def test_times_are_rfc_3339_and_attempts_show(client: Client, world: World) -> None:
    run = submitted(client)
    now = world.clock.now()
    stored(
        world,
        run["id"],
        attempts=[Attempt(number=1, submitted_at=now, first_step_at=now + timedelta(seconds=2))],
    )
    shown = client.get(f"/v1/runs/{run['id']}").json
    assert shown["attempts"][0]["submittedAt"].endswith("Z")
    assert shown["latest"] is None


def test_a_log_is_searched_in_s3_once_its_attempt_has_ended_and_on_the_node_before(
    client: Client, world: World
) -> None:
    run = submitted(client)
    run_id = run["id"]
    stored(world, run_id, attempts=[Attempt(number=1)])
    path, query = f"/v1/runs/{run_id}/logs", {"contains": "loss é"}
    record = world.runs.get(run_id)
    world.clusters.create(
        Cluster(
            name=record.cluster_name,
            spec=record.spec.cluster.spec,
            status="Ready",
            created_at=world.clock.now(),
            updated_at=world.clock.now(),
        )
    )
    asked: list[list[str]] = []

    def answer(_: Cluster, argv: list[str]) -> CommandResult:
        asked.append(argv)
        return CommandResult(0, json.dumps({"text": "loss é 1"}), "")

    world.commands.answer = answer
    assert client.get(path, query=query).json["text"] == "loss é 1"
    assert f"--contains={'loss é'.encode().hex()}" in asked[0], "no word of a user's in a shell"
    words = "--contains is not an option of 'logs'"
    world.commands.answer = lambda *_: CommandResult(1, json.dumps({"message": words}), "")
    is_a_problem(client.get(path, query=query), 502, "internal")
    world.blobs.put(f"{record.prefix}/logs/attempt-1.log", "loss é 9\nx\nloss é 1\n".encode())
    found = client.get(path, query=query).json
    assert (found["source"], found["text"]) == ("s3", "loss é 9\nloss é 1")
    last = client.get(path, query={**query, "lines": 1}).json
    assert last["text"] == "loss é 1"


def test_a_log_is_shown_since_a_time_on_the_node_and_in_s3(client: Client, world: World) -> None:
    run_id = submitted(client)["id"]
    record = stored(world, run_id, attempts=[Attempt(number=1)])
    path, query = f"/v1/runs/{run_id}/logs", {"sinceSeconds": 60}
    cluster = Cluster(
        name=record.cluster_name,
        spec=record.spec.cluster.spec,
        status="Ready",
        created_at=world.clock.now(),
        updated_at=world.clock.now(),
    )
    world.clusters.create(cluster)
    asked: list[list[str]] = []

    def answer(_: Cluster, argv: list[str]) -> CommandResult:
        asked.append(argv)
        return CommandResult(0, json.dumps({"text": "new"}), "")

    world.commands.answer = answer
    assert client.get(path, query=query).json["text"] == "new"
    assert "--since=60" in asked[0]
    words = "--since is not an option of 'logs'"
    world.commands.answer = lambda *_: CommandResult(1, json.dumps({"message": words}), "")
    is_a_problem(client.get(path, query=query), 502, "internal")
    kept = f"{record.prefix}/logs/attempt-1"
    world.blobs.put(f"{kept}.log", b"cut line\nold\nnew\nlast\n")
    assert "noted no times" in client.get(path, query=query).json["detail"]
    marks = [{"at": at, "left": left} for at, left in ((900, 500), (1000, 9), (1030, 5), (1060, 0))]
    world.blobs.put(f"{kept}.times.json", json.dumps({"marks": marks}).encode())
    for seconds, text in ((10, "last"), (60, "new\nlast"), (100, "cut line\nold\nnew\nlast")):
        found = client.get(path, query={"sinceSeconds": seconds}).json
        assert (found["source"], found["text"]) == ("s3", text)
    wrong = client.get(path, query={**query, "kind": "lifecycle"})
    is_a_problem(wrong, 400, "invalid-request")
    assert wrong.json["errors"][0]["field"] == "sinceSeconds"


def ready(world: World, record: Run) -> None:
    now = world.clock.now()
    cluster = Cluster(
        name=record.cluster_name,
        spec=record.spec.cluster.spec,
        status="Ready",
        created_at=now,
        updated_at=now,
    )
    world.clusters.create(cluster)


def test_a_ranks_log_is_read_on_the_node_and_then_in_s3(client: Client, world: World) -> None:
    run_id = submitted(client)["id"]
    record = stored(world, run_id, attempts=[Attempt(number=1, nodes=["ip-1", "ip-2"])])
    ready(world, record)
    path, asked = f"/v1/runs/{run_id}/logs", list[list[str]]()

    def answer(_: Cluster, argv: list[str]) -> CommandResult:
        asked.append(argv)
        return CommandResult(0, json.dumps({"text": "of rank 1"}), "")

    world.commands.answer = answer
    found = client.get(path, query={"rank": 1, "sinceSeconds": 60}).json
    assert (found["source"], found["text"]) == ("node", "of rank 1")
    assert {"--rank=1", "--since=60"} <= {*asked[0]}
    assert client.get(path, query={"node": "ip-2"}).json["text"] == "of rank 1"
    assert "--node=ip-2" in asked[1]
    kept = f"{record.prefix}/logs/attempt-1"
    logs = [{"node": "ip-1", "rank": 1, "bytes": 5, "kept": 5}]
    world.blobs.put(f"{kept}/rank-logs.json", json.dumps({"logs": logs}).encode())
    world.blobs.put(f"{kept}/rank-1.log", b"kept\n")
    found = client.get(path, query={"rank": 1}).json
    assert (found["source"], found["text"]) == ("s3", "kept")


def test_ranks_and_nodes_that_the_attempt_cannot_have_are_refused_with_those_it_has(
    client: Client, world: World
) -> None:
    run_id = submitted(client)["id"]
    record = stored(world, run_id, attempts=[Attempt(number=1, nodes=["ip-1", "ip-2"])])
    path, job = f"/v1/runs/{run_id}/logs", record.spec.job
    world_size = job.nodes * job.processes_per_node

    def refused(field: str, **query: Any) -> str:
        answer = client.get(path, query=query)
        is_a_problem(answer, 400, "invalid-request")
        return str(answer.fields[field])

    assert f"ranks 0 to {world_size - 1}" in refused("rank", rank=world_size)
    assert "whole number" in refused("rank", rank="one")
    assert "attempt 1 was on ip-1, ip-2" in refused("node", node="ip-9")
    assert "name of a Slurm node" in refused("node", node="$(x)")
    assert "goes not with rank" in refused("node", node="ip-1", rank=0)
    assert "kind=job" in refused("rank", rank=0, kind="lifecycle")
    plain = job.model_copy(update={"recipe": "command"})
    stored(world, run_id, spec=record.spec.model_copy(update={"job": plain}))
    assert "ask for a node: its nodes are ip-1, ip-2" in refused("rank", rank=0)


def test_an_attempt_without_logs_of_single_ranks_is_refused_in_words(
    client: Client, world: World
) -> None:
    run_id = submitted(client)["id"]
    now = world.clock.now()
    record = stored(world, run_id, attempts=[Attempt(number=1)])
    path, query = f"/v1/runs/{run_id}/logs", {"rank": 0}
    ready(world, record)
    lacks = json.dumps({"text": "", "lacks": True})
    world.commands.answer = lambda *_: CommandResult(0, lacks, "")
    assert client.get(path, query=query).json["source"] == "none", "it may come yet"
    stored(world, run_id, attempts=[Attempt(number=1, ended_at=now)])
    assert "has no logs of single ranks" in client.get(path, query=query).json["detail"]
    words = "--rank is not an option of 'logs'"
    world.commands.answer = lambda *_: CommandResult(1, json.dumps({"message": words}), "")
    answer = client.get(path, query=query)
    is_a_problem(answer, 502, "internal")
    assert "ranks have no logs of their own" in answer.json["detail"]
    world.commands.answer = lambda *_: CommandResult(0, json.dumps({"text": ""}), "")
    world.blobs.put(f"{record.prefix}/logs/attempt-1.log", b"all\n")
    assert "no logs of single ranks were kept" in client.get(path, query=query).json["detail"]


def test_an_ended_run_shows_its_last_samples_however_long_ago_it_ended(
    client: Client, world: World
) -> None:
    run = submitted(client)
    record = world.runs.get(run["id"])
    sample = RunSample(run_id=record.id, attempt=1, step=40, loss=0.5)
    for seconds in (10, 9000):  # the second one is of the cluster's next run
        at = record.created_at + timedelta(seconds=seconds)
        world.clusters.put_heartbeat(
            ClusterHeartbeat(
                id=ulid(),
                at=at,
                cluster_name=record.cluster_name,
                cluster_arn="a",
                nodes=[],
                runs=[sample],
            )
        )
    finished = record.created_at + timedelta(seconds=60)
    stored(world, record.id, status="Succeeded", finished_at=finished)
    world.clock.tick(86400)
    found = client.get(f"/v1/runs/{record.id}/metrics", query={"sinceSeconds": 120}).json["run"]
    assert [(point["step"], point["loss"]) for point in found] == [(40, 0.5)]
