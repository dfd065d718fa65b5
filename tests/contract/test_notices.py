"""What people's rules are told: kept in DynamoDB (on moto) and in memory, and put on a bus."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from samtranslator.yaml_helper import yaml_parse
from tests.support.memory import MemoryClock, MemoryClusters, MemoryNotices, MemoryRuns
from tests.support.page_commands import USE, File, steps
from tests.support.repository import ROOT
from tests.support.store_records import new_cluster, numbered_run
from tests.support.store_table import new_table

from trainyard.aws.clusters import TableClusters
from trainyard.aws.notices import TableNotices
from trainyard.aws.runs import TableRuns
from trainyard.domain import errors, idle
from trainyard.domain.records import TimelineEntry
from trainyard.outside.clusters import Clusters
from trainyard.outside.notices import Notices
from trainyard.outside.runs import Runs
from trainyard_contracts.events import AttemptStarted
from trainyard_contracts.user_events import (
    CHANGES,
    SOURCE,
    USER_EVENTS,
    ToldRun,
    UserEvent,
    UserEventType,
)

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=timezone.utc)


class Stores:
    """Runs, clusters and what is told of them, of one implementation."""

    def __init__(self, name: str, dynamodb: Any) -> None:
        clock = MemoryClock(NOW)
        self.runs: Runs
        self.clusters: Clusters
        self.notices: Notices
        if name == "memory":
            runs, clusters = MemoryRuns(clock), MemoryClusters(clock)
            self.runs, self.clusters = runs, clusters
            self.notices = MemoryNotices(runs, clusters)
        else:
            table = new_table(dynamodb)
            self.runs, self.clusters = TableRuns(table, clock), TableClusters(table, clock)
            self.notices = TableNotices(table, None, "bus")

    def unsent(self) -> list[str]:
        return [one.notice.type for one in self.notices.unsent(100)]


@pytest.fixture(params=["dynamodb", "memory"])
def stores(request: pytest.FixtureRequest) -> Stores:
    return Stores(request.param, request.getfixturevalue("dynamodb"))


def line(id_: str, kind: str, type_: str, minutes: int = 0) -> TimelineEntry:
    at = NOW + timedelta(minutes=minutes)
    return TimelineEntry(id=id_, at=at, kind=kind, type=type_, message="said", attempt=2)


def test_a_notice_is_written_with_its_line_once_and_struck_off_once(stores: Stores) -> None:
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    stores.runs.note(run.id, line("a", "status", "Accepted"))
    stores.runs.note(run.id, line("w", "status", "Warning"))
    after = stores.runs.put(run, [line("b", "status", "BudgetWarned", 1)])
    (accepted, warned) = stores.notices.unsent(100)
    assert (accepted.notice.type, warned.notice.type) == ("run.submitted", "run.budget")
    assert accepted.notice.run_id == run.id
    assert (warned.notice.message, warned.notice.attempt) == ("said", 2)

    stores.notices.sent(accepted)
    stores.notices.sent(accepted)
    assert stores.unsent() == ["run.budget"]
    # The same lines again change nothing, sent or not.
    stores.runs.note(run.id, line("a", "status", "Accepted"))
    stores.runs.put(after, [line("b", "status", "BudgetWarned", 1)])
    assert stores.unsent() == ["run.budget"]


def test_a_change_that_came_too_late_tells_nobody(stores: Stores) -> None:
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    stores.runs.put(run)
    with pytest.raises(errors.ConflictError):
        stores.runs.put(run, [line("status-end-1", "status", "Failed")])
    assert stores.unsent() == []


def test_a_fact_is_told_once_and_stays_a_fact(stores: Stores) -> None:
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    fact = AttemptStarted(
        id="01JD0000000000000000000000", at=NOW, cluster_name="c", cluster_arn="arn:c", node="n",
        run_id=run.id, attempt=1, job_id="7", nodes=["n"],
    )  # fmt: skip
    assert stores.runs.record(run.id, fact, "it began")
    assert not stores.runs.record(run.id, fact, "it began")
    (began,) = stores.notices.unsent(100)
    assert (began.notice.type, began.notice.attempt) == ("run.started", 1)
    stores.notices.sent(began)
    assert stores.unsent() == []
    assert not stores.runs.record(run.id, fact, "it began")
    assert [found.id for found in stores.runs.facts(run.id)] == [fact.id]
    assert stores.unsent() == []


def test_a_cluster_is_told_once_in_each_status_of_a_generation(stores: Stores) -> None:
    cluster = stores.clusters.create(new_cluster())
    cluster = stores.clusters.put(cluster.changed(status="Creating"))
    assert stores.unsent() == []
    cluster = stores.clusters.put(cluster.changed(status="Ready"))
    stale = cluster
    (ready,) = stores.notices.unsent(100)
    stores.notices.sent(ready)
    cluster = stores.clusters.put(cluster.changed(status="Stopped"))
    cluster = stores.clusters.put(cluster.changed(status="Ready"))
    assert stores.unsent() == []
    with pytest.raises(errors.ConflictError):
        stores.clusters.put(stale.changed(status="Failed"))
    assert stores.unsent() == []
    cluster = stores.clusters.put(cluster.changed(status="Deleted"))
    assert stores.unsent() == ["cluster.deleted"]
    assert stores.clusters.get(cluster.name) == cluster


def test_they_come_oldest_first_and_no_more_than_asked_for(stores: Stores) -> None:
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    for minutes in (3, 1, 2):
        stores.runs.note(run.id, line(f"b{minutes}", "status", "BudgetWarned", minutes))
    first, second = stores.notices.unsent(2)
    assert [first.notice.id, second.notice.id] == [f"{run.id}/b1", f"{run.id}/b2"]


def test_one_that_was_refused_comes_behind_those_that_were_not_tried(stores: Stores) -> None:
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    for minutes in range(1, 7):
        stores.runs.note(run.id, line(f"b{minutes}", "status", "BudgetWarned", minutes))
    first, second, *_ = stores.notices.unsent(4)
    stores.notices.postpone(second, NOW + timedelta(hours=1))
    stores.notices.postpone(first, NOW + timedelta(hours=2))
    found = [one.notice.id.rpartition("/")[2] for one in stores.notices.unsent(100)]
    assert found == ["b3", "b4", "b5", "b6", "b2", "b1"]
    few = [one.notice.id.rpartition("/")[2] for one in stores.notices.unsent(4)]
    assert few == ["b3", "b4", "b5", "b6", "b2"]
    stores.notices.sent(first)
    stores.notices.postpone(first, NOW)  # a second sweep had it in hand, too
    found = [one.notice.id.rpartition("/")[2] for one in stores.notices.unsent(100)]
    assert found == ["b3", "b4", "b5", "b6", "b2"]


def test_one_that_cannot_be_read_keeps_no_other_waiting(dynamodb: Any) -> None:
    stores = Stores("dynamodb", dynamodb)
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    stores.runs.note(run.id, line("a", "status", "Accepted"))
    stores.runs.note(run.id, line("b", "status", "BudgetWarned", 1))
    table = stores.notices._table  # type: ignore[attr-defined]
    broken = {":n": {"S": "{}"}}
    table.update(
        f"run#{run.id}", "note#a", "SET notice = :n",
        condition="attribute_exists(pk)", values=broken,
    )  # fmt: skip
    assert stores.unsent() == ["run.budget"]


def test_as_many_as_are_asked_for_that_cannot_be_read_keep_no_other_waiting(dynamodb: Any) -> None:
    """A newer version wrote them, which was rolled back."""
    stores = Stores("dynamodb", dynamodb)
    run = stores.runs.create(numbered_run(1), idempotency_key=None, body_hash="")
    table = stores.notices._table  # type: ignore[attr-defined]
    for minutes in range(5):
        stores.runs.note(run.id, line(f"a{minutes}", "status", "Accepted", minutes))
        table.update(
            f"run#{run.id}", f"note#a{minutes}", "SET notice = :n",
            condition="attribute_exists(pk)", values={":n": {"S": "{}"}},
        )  # fmt: skip
    stores.runs.note(run.id, line("b", "status", "BudgetWarned", 9))
    (found,) = stores.notices.unsent(2)
    assert found.notice.type == "run.budget"


def test_an_event_reaches_a_rule_on_the_bus(dynamodb: Any) -> None:
    events, sqs = boto3.client("events"), boto3.client("sqs")
    events.create_event_bus(Name="demo-agents")
    url = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    pattern = {"source": ["trainyard"], "detail-type": ["run.failed"]}
    events.put_rule(Name="r", EventBusName="demo-agents", EventPattern=json.dumps(pattern))
    target = {"Id": "1", "Arn": arn["QueueArn"]}
    events.put_targets(Rule="r", EventBusName="demo-agents", Targets=[target])
    notices = TableNotices(new_table(dynamodb), events, "demo-agents")
    event = UserEvent(
        id="run-1/end", at=NOW, type="run.failed", message="It failed",
        run=ToldRun(id="run-1", labels={"team": "a"}, problem="oom"),
    )  # fmt: skip
    notices.send(event.changed(type="run.started"))
    notices.send(event)
    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    envelope = json.loads(message["Body"])
    assert (envelope["source"], envelope["detail-type"]) == ("trainyard", "run.failed")
    assert UserEvent.model_validate(envelope["detail"]) == event
    assert envelope["detail"]["run"]["labels"] == {"team": "a"}


def test_the_topic_has_text_and_attributes_to_filter_by(dynamodb: Any) -> None:
    events, sns, sqs = (boto3.client(name) for name in ("events", "sns", "sqs"))
    events.create_event_bus(Name="topic-agents")
    topic = sns.create_topic(Name="demo-notices")["TopicArn"]
    url = sqs.create_queue(QueueName="phone")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    policy = json.dumps({"severity": ["error"], "owner": ["ann"]})
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=arn["QueueArn"],
        Attributes={"FilterPolicy": policy},
    )
    notices = TableNotices(new_table(dynamodb), events, "topic-agents", sns, topic)
    event = UserEvent(
        id="run-1/end", at=NOW, type="run.failed", message="It failed:\nout of memory",
        run=ToldRun(id="run-1", name="ddp", owner="ann", problem="oom"),
    )  # fmt: skip
    notices.send(event.changed(type="run.started"))
    notices.send(event)
    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    notice = json.loads(message["Body"])
    assert notice["Subject"] == "ddp failed"
    assert notice["Message"] == "ddp failed\nIt failed: out of memory\nrun-1, ann"
    values = {name: one["Value"] for name, one in notice["MessageAttributes"].items()}
    assert values == {"type": "run.failed", "severity": "error", "run": "run-1", "owner": "ann"}


def test_a_topic_that_is_away_keeps_the_notice(dynamodb: Any) -> None:
    events = boto3.client("events")
    events.create_event_bus(Name="away-agents")
    away = "arn:aws:sns:us-east-1:123456789012:gone"
    notices = TableNotices(new_table(dynamodb), events, "away-agents", boto3.client("sns"), away)
    event = UserEvent(id="run-1/end", at=NOW, type="run.failed", message="It failed")
    with pytest.raises(errors.TrainyardError, match="topic of notices"):
        notices.send(event)


def test_the_template_of_the_page_is_valid_and_asks_for_what_is_sent(tmp_path: Path) -> None:
    page = USE / "notify.md"
    (template,) = [step for step in steps(page) if isinstance(step, File)]
    (tmp_path / template.name).write_text(template.text)
    lint = str(Path(sys.executable).parent / "cfn-lint")
    done = subprocess.run(
        [lint, "-r", "us-east-1", "--", str(tmp_path / template.name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    pattern = yaml_parse(template.text)["Resources"]["Rule"]["Properties"]["EventPattern"]
    assert pattern["source"] == [SOURCE]
    assert set(pattern["detail-type"]) <= set(USER_EVENTS)


def test_each_type_is_said_to_people_and_only_the_sweep_may_send() -> None:
    assert set(get_args(UserEventType)) == set(USER_EVENTS)
    template = yaml_parse((ROOT / "template.yaml").read_text())
    senders = {
        (name, json.dumps(statement.get("Condition")))
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::IAM::Role"
        for policy in resource["Properties"].get("Policies", [])
        for statement in policy["PolicyDocument"]["Statement"]
        if "events:PutEvents" in str(statement.get("Action"))
    }
    ours: dict[str, object] = {
        "SweepRole": [SOURCE, "trainyard.webhooks"],
        "SlackRole": "trainyard.slack",
        "StepsRole": CHANGES,
    }
    assert senders == {
        (role, json.dumps({"StringEquals": {"events:source": source}}))
        for role, source in ours.items()
    }


class Bus:
    """Takes entries, or raises."""

    def __init__(self, trouble: Exception | None = None, failed: int = 0) -> None:
        self.entries: list[dict[str, Any]] = []
        self.trouble, self.failed = trouble, failed

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        if self.trouble is not None:
            raise self.trouble
        self.entries += Entries
        return {"FailedEntryCount": self.failed, "Entries": [{"ErrorCode": "Throttling"}]}


def test_a_change_of_a_run_is_put_on_the_bus_for_who_shows_runs_and_else_not() -> None:
    bus = Bus()
    TableNotices(None, bus, "bus", shown=True).run_changed("run-1")  # type: ignore[arg-type]
    (entry,) = bus.entries
    assert (entry["EventBusName"], entry["Source"]) == ("bus", CHANGES)
    assert json.loads(entry["Detail"]) == {"run": {"id": "run-1"}}
    quiet = Bus()
    TableNotices(None, quiet, "bus").run_changed("run-1")  # type: ignore[arg-type]
    assert quiet.entries == []


@pytest.mark.parametrize(
    "bus",
    [
        Bus(failed=1),
        Bus(ClientError({"Error": {"Code": "AccessDeniedException"}}, "PutEvents")),
        Bus(EndpointConnectionError(endpoint_url="http://127.0.0.1")),
    ],
)
def test_a_bus_that_takes_no_change_keeps_no_run_from_going_on(bus: Bus) -> None:
    TableNotices(None, bus, "bus", shown=True).run_changed("run-1")  # type: ignore[arg-type]


def test_an_entry_that_the_bus_refuses_is_no_success() -> None:
    class Refusing:
        def put_events(self, **_: Any) -> dict[str, Any]:
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}

    event = UserEvent(id="a", at=NOW, type="run.failed", message="m")
    with pytest.raises(errors.RetryableError, match="ThrottlingException"):
        TableNotices(None, Refusing(), "bus").send(event)  # type: ignore[arg-type]


def test_a_word_about_a_cluster_is_told_once_by_its_id(stores: Stores) -> None:
    stores.clusters.create(new_cluster())
    cluster = stores.clusters.get(new_cluster().name)
    word = idle.notice(cluster, NOW)
    assert stores.clusters.tell(cluster.name, word)
    assert not stores.clusters.tell(cluster.name, word)
    (unsent,) = stores.notices.unsent(100)
    assert unsent.notice == word
    stores.notices.sent(unsent)
    assert not stores.clusters.tell(cluster.name, word)
    assert stores.unsent() == []
