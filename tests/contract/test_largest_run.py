"""The largest cluster and the longest run are decided, stored within AWS's limits and answered."""

from __future__ import annotations

import itertools
import json
import random
import string
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.facts import answering, fact
from tests.support.memory import World
from tests.support.spec_parts import ON_FSX

from trainyard.app.clusters.list_nodes import list_nodes
from trainyard.app.runs import read_metrics as metrics_module
from trainyard.app.runs.read_metrics import read_metrics
from trainyard.aws.clock import SystemClock
from trainyard.aws.clusters import TableClusters
from trainyard.aws.items import document
from trainyard.aws.runs import TableRuns
from trainyard.aws.table import Table
from trainyard.domain.book import Book
from trainyard.domain.decisions import MOST_NAMES, Decision, bounded
from trainyard.domain.records import Attempt, Cluster, Incident, Run
from trainyard.domain.recovery import decide
from trainyard.http.metrics_views import MetricsView
from trainyard.http.node_views import NodeList
from trainyard.http.run_summaries import RunPage, RunSummary
from trainyard.http.run_views import RunView
from trainyard.http.timeline_views import EventPage, TimelineEntry
from trainyard_agent.events.heartbeats import portions
from trainyard_contracts import events
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.events import AgentEvent, Fact
from trainyard_contracts.specs import RunSpec

NODES, DEVICES, ATTEMPTS = 6758, 16, 1000
T0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
RUN = "run-01m80cx9pc3rdaygh3ynbc0b2e"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"
#: DynamoDB's item, EventBridge's request, a Lambda function's answer.
MOST_ITEM, MOST_EVENT, MOST_ANSWER = 400 * 1024, 256 * 1024, 6 * 1024 * 1024
random_ = random.Random(8)


def addresses(count: int) -> list[str]:
    """Names as scattered as addresses can be, so that nothing compresses well by luck."""
    numbers = random_.sample(range(256 * 256 * 64), count)
    return sorted(f"ip-10-{128 + n // 65536}-{n // 256 % 256}-{n % 256}" for n in numbers)


NAMES = addresses(NODES)


def spec() -> RunSpec:
    """A run whose files fill the largest request and do not compress."""
    files = {
        f"f{n}.py": "".join(random_.choices(string.ascii_letters + string.digits, k=60_000))
        for n in range(4)
    }
    document = {
        "name": "largest", "cluster": {"name": "large"}, "recovery": {"maxAttempts": ATTEMPTS},
        "job": {"nodes": NODES, "module": "trainyard_trainers.ddp", "files": files},
        "limits": {"maxDurationSeconds": 60 * 86400},
    }  # fmt: skip
    return RunSpec.model_validate(document)


def cluster() -> Cluster:
    groups = [
        {"name": "c", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {
            "name": "w",
            "role": "worker",
            "instanceType": "ml.trn1.32xlarge",
            "count": NODES - 1,
            "spares": 10,
        },
    ]
    made = read_cluster_spec({"name": "large", "instanceGroups": groups, **ON_FSX})
    return Cluster(
        name="large", spec=made, status="Ready", created_at=T0, updated_at=T0, arn=ARN, ready_at=T0
    )


def attempt_facts(number: int, nodes: list[str], at: datetime) -> list[AgentEvent]:
    """What one attempt leaves: it starts, steps, loses a node in its own way, and ends."""
    lost = nodes[number % len(nodes)]
    made = {"at": at, "cluster_name": "large", "cluster_arn": ARN, "node": "ip-10-0-0-1"}
    run = {"run_id": RUN, "attempt": number}
    evidence = [
        events.NodeEvidence(node=node, instance_id=f"i-{7:017x}", agent="silent", scheduler="up")
        for node in nodes[:200]
    ]
    told: list[events.AgentEvent] = [
        events.AttemptStarted(id=f"A{number:025d}", **made, **run, job_id=str(number), nodes=nodes),
        events.AttemptStepped(id=f"B{number:025d}", **made, **run, step=number * 10,
                              resumed_from=number * 10 - 1, stepped_at=at),
        events.AttemptEnded(
            id=f"C{number:025d}", **{**made, "at": at + timedelta(seconds=1)}, **run,
            job_id=str(number), outcome="failed", exit_code=1,
            error=f"ValueError: {random_.random()}", error_kind="python-error", failed_node=lost,
            last_step=number * 10, nodes=evidence, log_tail="x y\n" * 2048,
        ),
    ]  # fmt: skip
    for event in told:
        assert len(event.model_dump_json(by_alias=True)) < MOST_EVENT
    return told


def long_run() -> Run:
    """A run on its last attempt but one; each attempt before lost a node, which left its mark."""
    attempts, incidents = [], []
    for number in range(1, ATTEMPTS):
        node = NAMES[number]
        why = (
            f"Node {node} is lost: no beat for {random_.random():.3f} s; slurmd port: refused. "
            f"Resuming on other nodes from {number * 977}."
        )
        nodes = NAMES[:number] + NAMES[number + 1 :] if number in (1, ATTEMPTS - 1) else []
        at = T0 + timedelta(hours=number)
        attempts.append(
            Attempt(
                number=number, job_id=str(number), nodes=nodes, exclude=[node], down=[node],
                submitted_at=at, started_at=at, first_step_at=at,
                ended_at=None if number == ATTEMPTS - 1 else at, outcome=None, reason=why,
                resumed_from=number * 10,
            )
        )  # fmt: skip
        incidents.append(
            Incident(
                cause="node-lost",
                attempt=number,
                fact_id=f"C{number:025d}",
                started_at=at,
                actions=["replace"],
                reason=why,
                node=node,
            )
        )
    return Run(
        id=RUN, name="largest", spec=spec(), status="Running", created_at=T0, updated_at=T0,
        opened_at=T0, cluster_name="large", attempts=attempts, incidents=incidents,
        excluded_nodes=NAMES[:ATTEMPTS],
        handled_facts=[f"D{number:025d}-{NAMES[number % NODES]}" for number in range(20_000)],
    )  # fmt: skip


def largest_item(table: Table) -> int:
    """As DynamoDB counts: names and values of all attributes, in UTF-8."""
    answer = table._dynamodb.get_paginator("scan").paginate(TableName=table.name)
    return max(
        sum(
            len(name)
            + sum(len(v.encode() if isinstance(v, str) else bytes(v)) for v in value.values())
            for name, value in item.items()
        )
        for page in answer
        for item in page["Items"]
    )


def wire(view: Any) -> int:
    """The answer as Lambda carries it: the body's text, escaped once more as a JSON string."""
    return len(json.dumps({"statusCode": 200, "body": view.model_dump_json(by_alias=True)}))


def test_the_record_of_the_longest_run_on_the_largest_cluster_stays_far_below_an_items_limit(
    table: Table,
) -> None:
    run = decided(long_run(), [])
    stored = TableRuns(table, SystemClock()).create(run.run, idempotency_key=None, body_hash="h")
    assert largest_item(table) < 0.9 * MOST_ITEM
    assert TableRuns(table, SystemClock()).get(RUN) == stored
    assert wire(RunView.of(stored)) < MOST_ANSWER
    assert len(stored.attempts) == ATTEMPTS - 1
    assert stored.attempts[-1].nodes == [name for name in NAMES if name != NAMES[ATTEMPTS - 1]]


def decided(run: Run, facts: list[Fact]) -> Decision:
    return decide(run, facts, cluster(), T0 + timedelta(days=59))


def test_the_last_of_a_thousand_attempts_is_counted_and_no_more_is_made() -> None:
    run = long_run()
    used = [
        *run.attempts[:-1],
        run.attempts[-1].model_copy(update={"ended_at": T0, "outcome": "failed"}),
    ]
    before = run.model_copy(
        update={"attempts": used, "opened_at": T0 + timedelta(days=59), "excluded_nodes": []}
    )
    one_left = decided(before, []).run
    assert [attempt.number for attempt in one_left.attempts][-2:] == [ATTEMPTS - 1, ATTEMPTS]
    ended = one_left.attempts[-1].model_copy(
        update={"submitted_at": T0, "ended_at": T0, "outcome": "failed"}
    )
    after = decided(
        one_left.model_copy(update={"attempts": [*one_left.attempts[:-1], ended]}), []
    ).run
    assert after.problem is not None
    assert (after.problem.code, len(after.attempts)) == ("attempts-exhausted", ATTEMPTS)


def test_a_shortened_past_is_shortened_once_and_forgets_no_budget() -> None:
    run = bounded(long_run(), ["D" + "0" * 25 + f"-{NAMES[0]}"], [NAMES[5]])
    assert bounded(run, ["D" + "0" * 25 + f"-{NAMES[0]}"], [NAMES[5]]) == run
    assert sum(len(a.nodes) + len(a.exclude) + len(a.down) for a in run.attempts[:-1]) <= MOST_NAMES
    assert set(run.former_nodes) == set(NAMES) - {NAMES[1]}
    assert len(run.attempts) == ATTEMPTS - 1
    assert f"D{5:025d}-{NAMES[5]}" in run.handled_facts, (
        "a node that is lost is never asked for twice"
    )
    assert f"D{0:025d}-{NAMES[0]}" in run.handled_facts


def test_small_runs_keep_every_attempts_nodes_and_words() -> None:
    small = [Attempt(number=n, nodes=["a", "b"], reason=f"why {n}") for n in range(1, 11)]
    run = long_run().model_copy(update={"attempts": small, "incidents": [], "handled_facts": ["x"]})
    assert bounded(run) == run


def test_sixty_days_of_facts_are_stored_read_and_decided_with_each_list_of_nodes_kept_once(
    table: Table,
) -> None:
    runs = TableRuns(table, SystemClock())
    for number in range(1, 31):
        for event in attempt_facts(number, NAMES, T0 + timedelta(hours=number)):
            assert runs.record(RUN, event, "told")
            assert not runs.record(RUN, event, "told"), "the same event twice is one fact"
    found = runs.facts(RUN)
    assert largest_item(table) < MOST_ITEM // 2
    started = Book(found).of(events.AttemptStarted)
    assert started[-1].nodes == NAMES
    assert [fact.nodes for fact in started[:-1]] == [[]] * 29
    items = [
        item
        for item in table.query(f"run#{RUN}", "fact#")
        if '"AttemptStarted"' in str(document(item))
    ]
    assert sum(len(document(item)) for item in items) < 30 * 2000
    newest = Attempt(number=30, job_id="30", submitted_at=T0)
    run = long_run().model_copy(update={"attempts": [newest], "incidents": [], "handled_facts": []})
    assert (
        decided(run, [fact for fact in found if not isinstance(fact, events.AttemptEnded)])
        .run.attempts[-1]
        .nodes
        == NAMES
    )


def members_fact(number: int, names: list[str], removed: str) -> events.NodesChanged:
    """Slurm's list after one node was replaced by one of another name."""
    data = {
        "nodes": names,
        "added": [f"ip-10-9-9-{number}"],
        "removed": [removed],
        "partitions": {"main": len(names)},
    }
    found = fact("NodesChanged", f"M{number:025d}", T0 + timedelta(minutes=number), **data)
    assert isinstance(found, events.NodesChanged)
    return found


def test_a_change_of_the_largest_list_of_nodes_forgets_no_node_that_is_still_in_it(
    table: Table,
) -> None:
    lost, left_out, former = NAMES[0], NAMES[1], NAMES[2:4]
    evidence = [
        {"node": node, "agent": "silent", "scheduler": "down"} for node in (lost, former[0])
    ]
    told = [fact("NodeLost", f"K{n:025d}", T0, about=item) for n, item in enumerate(evidence)]
    names = [name for name in NAMES if name != former[0]] + ["ip-10-9-9-1"]
    told.append(members_fact(1, names, former[0]))
    told.append(
        members_fact(2, [name for name in names if name != former[1]] + ["ip-10-9-9-2"], former[1])
    )
    runs, clusters = TableRuns(table, SystemClock()), TableClusters(table, SystemClock())
    for one in told:
        assert clusters.record("large", one)
        assert not clusters.record("large", one), "the same event twice is one fact"
        assert runs.record(RUN, one, "told")
    found = clusters.facts("large")
    older, newest = Book(found).of(events.NodesChanged)
    assert newest == told[-1]
    assert (older.nodes, older.removed) == ([], [former[0]]), (
        "of older lists it is known how they changed"
    )
    run = long_run().model_copy(
        update={
            "attempts": [],
            "incidents": [],
            "excluded_nodes": [left_out, former[1]],
            "handled_facts": [],
        }
    )
    waiting = decided(
        run.model_copy(update={"opened_at": T0 + timedelta(days=59)}), runs.facts(RUN) + found
    ).run
    assert waiting.reason.startswith(f"No spare is left: {NODES - 2} of {NODES} nodes are usable.")
    assert [key.rpartition("-ip-")[2] for key in waiting.handled_facts] == [
        lost.removeprefix("ip-")
    ], "it alone is asked for again"


def test_a_hundred_thousand_facts_are_decided() -> None:
    run = decided(long_run(), []).run
    flaps = [
        fact("NodeLost", f"G{n:025d}", T0 + timedelta(seconds=n),
             about={"node": NAMES[n // 2 % 50], "agent": "silent", "scheduler": "down"})
        if n % 2 == 0
        else fact("NodeReturned", f"G{n:025d}", T0 + timedelta(seconds=n),
                  about=answering(NAMES[n // 2 % 50]))
        for n in range(100_000)
    ]  # fmt: skip
    after = decided(run, flaps)
    assert decided(after.run, flaps).run == after.run
    assert len(after.run.handled_facts) <= 1000


def sample(name: str, at: datetime) -> events.NodeSample:
    gpus = [
        events.Gpu(index=n, kind="neuron", utilization_percent=random_.uniform(0, 100),
                   memory_used_bytes=random_.randrange(10**11), memory_total_bytes=10**11)
        for n in range(DEVICES)
    ]  # fmt: skip
    return events.NodeSample(
        node=name, instance_id=f"i-{hash(name) % 16**17:017x}", role="worker",
        scheduler="allocated", at=at, cpu_percent=random_.uniform(0, 100),
        memory_used_bytes=random_.randrange(10**12), memory_total_bytes=2 * 10**12,
        disk_used_percent=33.3, gpus=gpus,
        network_received_bytes_per_second=random_.uniform(1e6, 1e9),
        network_sent_bytes_per_second=random_.uniform(1e6, 1e9),
    )  # fmt: skip


def heartbeats(
    at: datetime, nodes: list[str], number: Iterator[int]
) -> list[events.ClusterHeartbeat]:
    """A look at the cluster, as the controller's agent sends it."""
    runs = [events.RunSample(run_id=RUN, attempt=1, step=7, loss=0.5)]
    parts = portions([sample(name, at) for name in nodes], runs)
    return [
        events.ClusterHeartbeat(
            id=f"H{next(number):025d}", at=at + timedelta(milliseconds=index), cluster_name="large",
            cluster_arn=ARN, node="ip-10-0-0-1", nodes=part, runs=runs, part=index,
            parts=len(parts),
        )
        for index, part in enumerate(parts, 1)
    ]  # fmt: skip


def test_every_heartbeat_of_the_largest_cluster_fits_an_event_and_an_item(table: Table) -> None:
    beats = heartbeats(T0, NAMES, itertools.count())
    assert [one.node for beat in beats for one in beat.nodes] == NAMES
    assert (
        max(len(beat.model_dump_json(by_alias=True).encode()) for beat in beats)
        <= events.MOST_EVENT_BYTES
    )
    for beat in beats[:3]:
        TableClusters(table, SystemClock()).put_heartbeat(beat)
    assert largest_item(table) < MOST_ITEM // 2


def test_a_small_cluster_sends_one_heartbeat_even_without_nodes() -> None:
    assert portions([], []) == [[]]
    assert len(portions([sample("a", T0)], [])) == 1


def test_the_nodes_and_the_series_of_the_largest_cluster_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.clusters.stored["large"] = cluster().model_copy(update={"created_at": world.clock.now()})
    run = bounded(long_run()).model_copy(update={"created_at": world.clock.now()})
    mine = run.attempts[-1].model_copy(update={"nodes": NAMES[-5:]})
    world.runs.stored[RUN] = run.model_copy(update={"attempts": [mine]})
    number = itertools.count()
    for _ in range(3):
        world.clock.tick(60)
        for beat in heartbeats(world.clock.now(), NAMES, number):
            world.clusters.put_heartbeat(beat)
    world.clock.tick(1)
    metrics = read_metrics(world.ports, RUN)
    view = MetricsView.of_series(metrics)
    assert wire(view) < MOST_ANSWER
    assert (view.thinned, view.node_count) == (True, NODES)
    assert set(NAMES[-5:]) <= set(view.nodes), "the run's own nodes first"
    assert {len({one.at for one in series}) for series in view.nodes.values()} <= {2, 3}
    assert view.run


def test_a_long_series_is_thinned_evenly_to_its_newest_point_and_a_short_one_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.clusters.stored["large"] = cluster()
    world.runs.stored[RUN] = bounded(long_run()).model_copy(
        update={"created_at": world.clock.now()}
    )
    number = itertools.count()
    for _ in range(100):
        world.clock.tick(60)
        for beat in heartbeats(world.clock.now(), NAMES[:2], number):
            world.clusters.put_heartbeat(beat)
    whole = read_metrics(world.ports, RUN, since_seconds=86400)
    assert (whole.thinned, [len(series) for series in whole.nodes.values()]) == (False, [100, 100])
    monkeypatch.setattr(metrics_module, "MOST_POINTS", 10)
    thinned = read_metrics(world.ports, RUN, since_seconds=86400)
    series = thinned.nodes[NAMES[0]]
    assert (thinned.thinned, len(series), len(thinned.run)) == (True, 10, 10)
    assert series[-1].at == world.clock.now()
    assert {second.at - first.at for first, second in itertools.pairwise(series)} == {
        timedelta(minutes=10)
    }


def test_a_list_of_a_hundred_of_the_largest_runs_is_answered_without_their_specs() -> None:
    page = RunPage.model_construct(runs=[RunSummary.of(long_run())] * 100, next_token=None)
    assert wire(page) < MOST_ANSWER // 10
    assert page.runs[0].attempt_count == ATTEMPTS - 1
    assert "spec" not in page.model_dump(by_alias=True)["runs"][0]


def test_a_page_of_the_timeline_ends_before_its_answer_is_too_long(table: Table) -> None:
    runs = TableRuns(table, SystemClock())
    facts = [
        ended.model_copy(update={"log_tail": "x" * 100_000})
        for n in range(1, 41)
        for ended in attempt_facts(n, ["a"], T0 + timedelta(hours=n))[2:]
    ]
    for event in facts:
        runs.record(RUN, event, "ended")
    seen, token = [], None
    while True:
        page = runs.timeline(RUN, limit=100, token=token)
        assert (
            wire(EventPage(events=[TimelineEntry.of(entry) for entry in page.items])) < MOST_ANSWER
        )
        seen += [entry.id for entry in page.items]
        token = page.next_token
        if token is None:
            break
    assert seen == [fact.id for fact in facts]


def test_nodes_too_many_to_show_each_sample_are_shown_without_and_say_so() -> None:
    world = World()
    spec_ = cluster().spec
    from trainyard.app.clusters.create_cluster import create_cluster

    arn = world.backend.create(create_cluster(world.ports, spec_))
    world.clusters.put(
        world.clusters.get("large").model_copy(update={"arn": arn, "status": "Ready"})
    )
    ids = [node.instance_id for node in world.backend.node_lists["large"]]
    at = world.clock.now()
    beats = heartbeats(at, [f"n-{one}" for one in ids], itertools.count())
    for beat in beats:
        known = [
            one.model_copy(update={"instance_id": one.node.removeprefix("n-")})
            for one in beat.nodes
        ]
        world.clusters.put_heartbeat(beat.model_copy(update={"nodes": known}))
    nodes = list_nodes(world.ports, "large")
    assert all(node.sample for node in nodes)
    view = NodeList.of_nodes(nodes)
    assert wire(view) < MOST_ANSWER
    assert (len(view.nodes), view.samples_left_out) == (len(ids), True)
    assert not NodeList.of_nodes(nodes[:10]).samples_left_out
