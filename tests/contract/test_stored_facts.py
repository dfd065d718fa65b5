"""An older version's facts are read from the table, and an unreadable fact decides nothing."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.store_records import at, heartbeat, new_cluster, numbered_run

from trainyard.app.runs.submit_run import body_hash
from trainyard.aws.clock import SystemClock
from trainyard.aws.clusters import TableClusters
from trainyard.aws.facts import read_facts
from trainyard.aws.items import document
from trainyard.aws.runs import TableRuns
from trainyard.aws.table import Table
from trainyard.aws.waits import TableWaits
from trainyard.domain import cluster_facts, facts, job_facts, kinds
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import ClusterLost
from trainyard.domain.errors import RecordUnreadable
from trainyard.domain.facts import Unreadable
from trainyard.domain.job_facts import UnsavedRun
from trainyard.domain.listing import Wanted
from trainyard.domain.node_evidence import gone_nodes
from trainyard.domain.order_facts import CancelRequested
from trainyard.domain.records import Checkpoint, TimelineEntry, Wait
from trainyard_contracts.events import (
    AttemptStarted,
    ClusterHeartbeat,
    Fact,
    NodeEvent,
    NodeLost,
    NodesChanged,
    parse_agent_event,
)
from trainyard_contracts.specs import RunSpec

AT = "2026-11-20T12:00:00Z"
AGENT = {
    "at": AT,
    "clusterName": "demo",
    "clusterArn": "arn:c/1",
    "node": "ip-1",
    "reportedAt": None,
}

SILENT = {
    "node": "ip-2",
    "instanceId": "i-2",
    "agent": "silent",
    "scheduler": "down",
    "detail": "",
}


def put(
    table: Table, pk: str, identity: str, type_: str, of_attempt: int | None, **data: Any
) -> None:
    """An item as the version before facts were classes wrote it."""
    document = {"id": identity, "type": type_, "at": AT, "attempt": of_attempt, "data": data}
    number = {} if of_attempt is None else {"attempt": {"N": str(of_attempt)}}
    table.put(
        {
            "pk": {"S": pk},
            "sk": {"S": f"fact#{identity}"},
            "doc": {"S": json.dumps(document)},
            **number,
        }
    )


def ulid(number: int) -> str:
    return f"{number:026d}"


def test_facts_of_a_run_that_an_older_version_recorded_are_read(table: Table) -> None:
    runs = TableRuns(table, SystemClock())
    made = runs.create(numbered_run(1), idempotency_key=None, body_hash="h")
    pk = f"run#{made.id}"
    put(table, pk, "cancel-1", "CancelRequested", None, life=1)
    put(
        table,
        pk,
        ulid(1),
        "AttemptStarted",
        1,
        **AGENT,
        id=ulid(1),
        runId=made.id,
        attempt=1,
        jobId="7",
        nodes=["ip-2"],
    )
    put(table, pk, "lost-1", "ClusterLost", None, reason="gone", generation=2)
    put(
        table,
        pk,
        ulid(2),
        "NodeLost",
        None,
        **AGENT,
        id=ulid(2),
        lost=SILENT,
        runId="run-other",
        attempt=9,
    )
    book = Book(runs.facts(made.id))
    assert [fact.life for fact in book.of(CancelRequested)] == [1]
    assert [
        (fact.job_id, fact.nodes, fact.waits_for) for fact in book.of(AttemptStarted, attempt=1)
    ] == [("7", ["ip-2"], [])]
    assert [(fact.reason, fact.generation) for fact in book.of(ClusterLost)] == [("gone", 2)]
    assert [fact.about.node for fact in book.of(NodeLost)] == ["ip-2"]
    assert book.of(NodeLost, attempt=9) == [], "the attempt that it met was another run's"


@pytest.mark.parametrize(
    ("kind", "told", "instance"),
    [
        ("NodeLost", {"lost": SILENT}, "i-2"),
        ("AgentSilent", {"silent": SILENT}, "i-2"),
        ("NodeReturned", {"returned": "ip-2", "instanceId": "i-3"}, "i-3"),
        ("AgentBack", {"back": "ip-2"}, ""),
    ],
)
def test_an_older_agent_names_the_node_in_a_field_of_each_event(
    kind: str, told: dict[str, Any], instance: str
) -> None:
    event = parse_agent_event(kind, {**AGENT, "id": ulid(1), **told})
    assert isinstance(event, NodeEvent)
    assert (event.about.node, event.about.instance_id, event.node) == ("ip-2", instance, "ip-1")
    assert parse_agent_event(kind, event.model_dump(mode="json", by_alias=True)) == event


@pytest.mark.parametrize(
    "told",
    [{}, {"lost": "everything"}, {"returned": "ip-2"}, {"silent": SILENT}, {"about": "ip-2"}],
)
def test_a_node_event_that_names_no_node_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="about"):
        parse_agent_event("NodeLost", {**AGENT, "id": ulid(1), **told})


def test_a_run_whose_spec_has_what_a_newer_version_added_is_read(table: Table) -> None:
    runs = TableRuns(table, SystemClock())
    made = runs.create(numbered_run(1), idempotency_key=None, body_hash="h")
    item = table.get(f"run#{made.id}", "run")
    assert item is not None
    newer = json.loads(document(item))
    newer["spec"]["color"] = newer["spec"]["job"]["color"] = newer["color"] = "blue"
    table.put({**item, "doc": {"S": json.dumps(newer)}})
    assert runs.get(made.id).spec == made.spec
    assert "blue" not in runs.get(made.id).model_dump_json()


NEWER: list[dict[str, Any]] = [
    {"status": "Paused"},
    {"spec": {"job": {"recipe": "of-a-newer-version"}}},
    {"spec": None},
]


def rewritten(table: Table, pk: str, sk: str, change: dict[str, Any]) -> None:
    item = table.get(pk, sk)
    assert item is not None
    changed = {**json.loads(document(item)), **change}
    table.put({**item, "doc": {"S": json.dumps(changed)}})


@pytest.mark.parametrize("change", NEWER)
def test_a_run_that_cannot_be_read_leaves_all_lists_readable(
    table: Table, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
) -> None:
    runs = TableRuns(table, SystemClock())
    for number in range(5):
        runs.create(numbered_run(number, cluster_name="demo"), idempotency_key=None, body_hash="h")
    for number in (1, 3):
        rewritten(table, f"run#{numbered_run(number).id}", "run", change)
    readable = [numbered_run(number).id for number in (4, 2, 0)]
    first = runs.list(limit=2, token=None)
    rest = runs.list(limit=2, token=first.next_token)
    assert [found.id for page in (first, rest) for found in page.items] == readable
    assert rest.next_token is None
    pending = Wanted(statuses=frozenset({"Pending"}))
    listed = runs.list(limit=9, token=None, wanted=pending).items
    assert [found.id for found in listed] == readable
    assert {found.id for found in runs.active()} == set(readable)
    assert {found.id for found in runs.on_cluster("demo")} == set(readable)
    assert f"run#{numbered_run(3).id}" in caplog.text
    assert set(runs.unreadable_on("demo")) == {numbered_run(1).id, numbered_run(3).id}
    assert runs.unreadable_on("another") == []
    with pytest.raises(RecordUnreadable, match=numbered_run(1).id):
        runs.get(numbered_run(1).id)


@pytest.mark.parametrize("doc", [{"S": "{"}, {"S": "[]"}, {"S": '{"clusterName": 7}'}, {"B": b"?"}])
def test_a_run_of_which_not_even_the_cluster_can_be_read_may_use_any(
    table: Table, doc: dict[str, Any]
) -> None:
    runs = TableRuns(table, SystemClock())
    made = runs.create(numbered_run(1), idempotency_key=None, body_hash="h")
    item = table.get(f"run#{made.id}", "run")
    assert item is not None
    table.put({**item, "doc": doc})
    assert (runs.active(), runs.unreadable_on("demo")) == ([], [made.id])


def test_a_cluster_that_cannot_be_read_leaves_the_lists_readable(table: Table) -> None:
    clusters = TableClusters(table, SystemClock())
    for name in ("a", "b"):
        clusters.create(new_cluster(name))
    rewritten(table, "cluster#a", "cluster", {"spec": {"backend": "of-a-newer-version"}})
    assert [found.name for found in clusters.active()] == ["b"]
    assert [found.name for found in clusters.list(limit=9, token=None).items] == ["b"]
    with pytest.raises(RecordUnreadable, match="cluster#a"):
        clusters.get("a")


def test_what_belongs_to_one_run_or_cluster_and_cannot_be_read_is_told_of_it_alone(
    table: Table,
) -> None:
    runs, clusters = TableRuns(table, SystemClock()), TableClusters(table, SystemClock())
    line = TimelineEntry(id="a", at=at(0), kind="status", type="T", message="m")
    whole = Checkpoint(step=1, attempt=1, path="p", bytes=0, files=0, committed_at=at(0))
    runs.note("run-1", line)
    runs.put_checkpoint("run-1", whole)
    runs.put_checkpoint("run-2", whole)
    clusters.put_heartbeat(heartbeat(1, 0))
    sorted_keys = {
        item["pk"]["S"]: item["sk"]["S"]
        for pk, prefix in (("run#run-1", "line#"), ("beat#demo", "2"), ("run#run-2", "ckpt#"))
        for item in table.query(pk, prefix)
    }
    rewritten(table, "run#run-1", sorted_keys["run#run-1"], {"kind": "of-a-newer-version"})
    rewritten(table, "beat#demo", sorted_keys["beat#demo"], {"nodes": None})
    newer = table.get("run#run-2", sorted_keys["run#run-2"])
    assert newer is not None
    table.put({**newer, "verdict": {"S": "of-a-newer-version"}})
    with pytest.raises(RecordUnreadable, match="kind"):
        runs.timeline("run-1", limit=9, token=None)
    with pytest.raises(RecordUnreadable, match="verdict"):
        runs.checkpoints("run-2", limit=9, token=None)
    with pytest.raises(RecordUnreadable, match="nodes"):
        clusters.heartbeats("demo", since=at(-9), limit=9)
    assert runs.checkpoints("run-1", limit=9, token=None).items == [whole]


def test_a_wait_that_cannot_be_read_leaves_the_others_readable(table: Table) -> None:
    waits = TableWaits(table)
    for owner in ("run:1", "run:2"):
        waits.store(Wait(owner=owner, kind="outcome", token=owner, since=at(0)))
    item = table.get("wait#run:1", "wait")
    assert item is not None
    table.put({**item, "waitKind": {"S": "of-a-newer-version"}})
    assert [wait.owner for wait in waits.all()] == ["run:2"]


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (("spec", "cluster"), "name", "another"),
        (("spec", "job"), "environment", {"SLURM_CONF": "/mine"}),
        (("spec", "job"), "files", {"../train.py": ""}),
        (("spec", "checkpoint"), "directory", "/checkpoints"),
    ],
)
def test_a_run_that_older_rules_accepted_is_read_though_todays_refuse_it(
    table: Table, place: tuple[str, ...], name: str, value: Any
) -> None:
    runs = TableRuns(table, SystemClock())
    made = runs.create(numbered_run(1), idempotency_key=None, body_hash="h")
    item = table.get(f"run#{made.id}", "run")
    assert item is not None
    older = json.loads(document(item))
    part = older
    for key in place:
        part = part[key]
    part[name] = value
    table.put({**item, "doc": {"S": json.dumps(older)}})
    with pytest.raises(ValidationError, match="Value error"):
        RunSpec.model_validate(older["spec"])
    assert json.loads(runs.get(made.id).model_dump_json(by_alias=True)) == older
    assert runs.put(runs.get(made.id)).version == made.version + 1


def test_what_a_default_says_does_not_change_which_request_it_is() -> None:
    spec = numbered_run(1).spec
    said = RunSpec.model_validate(spec.model_dump(mode="json", by_alias=True))
    assert body_hash(said) == body_hash(spec)
    fewer = spec.changed(recovery=spec.recovery.changed(max_attempts=3))
    assert body_hash(fewer) != body_hash(spec)


def test_of_a_long_list_that_was_not_kept_it_is_known_how_it_changed(table: Table) -> None:
    shown = {
        "nodesCount": 300,
        "nodesShown": ["ip-2"],
        "added": ["ip-9"],
        "removed": ["ip-3"],
        "partitions": {"main": 300},
    }
    put(table, "cluster#demo", ulid(1), "NodesChanged", None, **AGENT, id=ulid(1), **shown)
    [changed] = Book(TableClusters(table, SystemClock()).facts("demo")).of(NodesChanged)
    assert (changed.nodes, changed.partitions) == ([], {"main": 300})
    assert gone_nodes(changed, ["ip-2", "ip-3"]) == {"ip-3"}


def test_a_fact_that_cannot_be_read_decides_nothing_and_is_told(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    put(table, "cluster#demo", "a", "OfANewerVersion", None, words="?")
    put(table, "cluster#demo", "b", "UnsavedRun", None, generation=1)
    put(table, "cluster#demo", "c", "UnsavedRun", None, runId="run-1", generation=1)
    with caplog.at_level(logging.ERROR):
        found = TableClusters(table, SystemClock()).facts("demo")
    assert [type(fact) for fact in found] == [Unreadable, Unreadable, UnsavedRun]
    assert [record.getMessage().split(" cannot")[0] for record in caplog.records] == [
        "fact a of type OfANewerVersion", "fact b of type UnsavedRun",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"data": None},
        {"data": {"life": "one"}},
        {"at": None},
        {"at": "2026-11-20T12:00:00"},
        {"at": "soon"},
        {"attempt": "one"},
        {"type": None},
        {"type": ["CancelRequested"]},
    ],
)
def test_a_document_of_any_other_shape_leaves_the_runs_other_facts_readable(
    table: Table, change: dict[str, Any]
) -> None:
    whole = {"id": "x", "type": "CancelRequested", "at": AT, "attempt": None, "data": {"life": 1}}
    assert_unreadable(table, {"S": json.dumps({**whole, **change})})


@pytest.mark.parametrize(
    "doc", [{"S": "{"}, {"S": "[]"}, {"S": ""}, {"B": b"not compressed"}, None]
)
def test_a_document_that_is_none_leaves_the_runs_other_facts_readable(
    table: Table, doc: dict[str, Any] | None
) -> None:
    assert_unreadable(table, doc)


def assert_unreadable(table: Table, doc: dict[str, Any] | None) -> None:
    put(table, "run#1", "a", "CancelRequested", None, life=1)
    table.put(
        {"pk": {"S": "run#1"}, "sk": {"S": "fact#x"}, **({} if doc is None else {"doc": doc})}
    )
    found = read_facts(table, "run#1")
    assert {(type(fact), fact.id) for fact in found} == {(CancelRequested, "a"), (Unreadable, "x")}


def test_names_of_nodes_that_cannot_be_read_leave_the_other_facts_readable(table: Table) -> None:
    put(table, "run#1", "a", "CancelRequested", None, life=1)
    put(table, "run#1", ulid(1), "NodesChanged", None, **AGENT, nodesCount=300, nodesShown=[])
    table.put({"pk": {"S": "run#1"}, "sk": {"S": f"nodes#{ulid(1)}"}, "doc": {"S": "[]"}})
    assert [type(fact) for fact in read_facts(table, "run#1")] == [Unreadable, CancelRequested]


def test_whatever_is_told_has_words_of_its_own() -> None:
    quiet = {
        job_facts.UnsavedRun,
        job_facts.SavedRun,
        cluster_facts.IdleAndSilent,
        ClusterHeartbeat,
    }
    told: set[type[Fact]] = set(facts.CLASSES.values()) - quiet
    assert set(kinds.KINDS) == told
