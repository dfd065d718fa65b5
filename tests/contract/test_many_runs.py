"""Arrays, schedules, children and large copies: our adapters on moto, twins beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from moto import mock_aws
from tests.support.memory import MemoryArrays, MemorySchedules, MemoryTurns
from tests.support.store_implementations import opened
from tests.support.store_records import at, numbered_run
from tests.support.store_table import ENVIRONMENT, new_table
from tests.support.story import run_spec

from trainyard.aws.arrays import TableArrays
from trainyard.aws.object_copy import ObjectCopy
from trainyard.aws.scheduler import EventBridgeScheduler
from trainyard.aws.schedules import TableSchedules
from trainyard.aws.turns import TableTurns
from trainyard.domain import errors
from trainyard.domain.array_records import RunArray
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.turn_records import Given, Turns
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.schedules import ScheduleSpec

ROLE = "arn:aws:iam::123456789012:role/schedules"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:trainyard-steps"


class Clock:
    def now(self) -> datetime:
        return at(100)


def array(number: int = 1, **extra: Any) -> RunArray:
    run = run_spec(nodes=1, cluster={"name": "shared"})
    spec = ArraySpec(
        run=run.changed(job=run.job.changed(arguments=["{n}"])), matrix={"n": ["1", "2"]}
    )
    return RunArray(id=f"arr-{number:026}", spec=spec, created_at=at(number),
                    updated_at=at(number), **extra)  # fmt: skip


def schedule(name: str = "nightly", **extra: Any) -> Schedule:
    given = {"name": name, "cron": "0 2 * * 1-5", "timezone": "Europe/Berlin"} | extra
    spec = ScheduleSpec.model_validate({"run": run_spec(cluster={"name": "shared"}), **given})
    return Schedule(name=name, spec=spec, created_at=at(1), updated_at=at(1), since=at(1))


@pytest.fixture(params=["memory", "table"])
def arrays(request: pytest.FixtureRequest, dynamodb: Any) -> Any:
    table = new_table(dynamodb)
    return MemoryArrays(Clock()) if request.param == "memory" else TableArrays(table, Clock())


@pytest.fixture(params=["memory", "table"])
def schedules(request: pytest.FixtureRequest, dynamodb: Any) -> Any:
    table = new_table(dynamodb)
    return MemorySchedules(Clock()) if request.param == "memory" else TableSchedules(table, Clock())


@pytest.fixture(params=["memory", "table"])
def turns(request: pytest.FixtureRequest, dynamodb: Any) -> Any:
    return MemoryTurns() if request.param == "memory" else TableTurns(new_table(dynamodb))


def test_turns_are_written_under_their_version_so_that_no_room_is_given_twice(turns: Any) -> None:
    none = turns.get("shared")
    assert none == Turns(cluster_name="shared")
    one = none.changed(given={"run-1": Given(life=1, at=at(1))})
    first = turns.put(one)
    with pytest.raises(errors.ConflictError):
        turns.put(one)
    second = turns.put(first.changed(given={}))
    with pytest.raises(errors.ConflictError):
        turns.put(first)
    assert turns.get("shared") == second
    assert turns.get("another").version == 0


def test_an_array_is_made_once_changed_by_its_version_and_active_until_it_is_over(
    arrays: Any,
) -> None:
    made = arrays.create(array())
    assert arrays.create(array(reason="another")).reason == ""
    after = arrays.put(made.changed(begun=1))
    with pytest.raises(errors.ConflictError):
        arrays.put(made.changed(begun=2))
    arrays.create(array(2))
    assert [one.id for one in arrays.list(limit=5, token=None).items] == [array(2).id, made.id]
    arrays.put(after.changed(status="Succeeded"))
    assert [one.id for one in arrays.active()] == [array(2).id]
    with pytest.raises(errors.ArrayNotFound):
        arrays.get("arr-none")


def test_a_schedules_name_is_free_again_once_it_is_deleted(schedules: Any) -> None:
    made = schedules.create(schedule())
    with pytest.raises(errors.ScheduleExists):
        schedules.create(schedule())
    gone = schedules.put(made.changed(status="Deleted", placed="x"))
    assert schedules.list(limit=5, token=None).items == []
    assert [one.name for one in schedules.active()] == ["nightly"]
    gone = schedules.put(gone.changed(placed=""))
    assert [one.name for one in schedules.active()] == ["nightly"], "until it surely is gone there"
    schedules.put(gone.changed(closed=True))
    assert schedules.active() == []
    assert schedules.create(schedule()).generation == 2
    with pytest.raises(errors.ConflictError):
        schedules.put(gone)


@pytest.mark.parametrize("name", ["memory", "dynamodb"])
def test_a_run_knows_its_children(name: str, dynamodb: Any) -> None:
    runs, *_ = opened(name, dynamodb)
    parent, child = numbered_run(1), numbered_run(2)
    spec = child.spec.changed(after=["run-" + "0" * 26])
    for run in (parent, child.changed(spec=spec)):
        for _ in range(2):
            runs.create(run, idempotency_key=None, body_hash="")
    assert runs.children("run-" + "0" * 26) == [child.id]
    assert runs.children(parent.id) == []


@pytest.fixture
def aws() -> Iterator[None]:
    with patch.dict(os.environ, ENVIRONMENT), mock_aws():
        for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
            del os.environ[name]
        yield


@pytest.fixture
def client(aws: None) -> Any:
    made = boto3.client("scheduler", region_name="us-east-1")
    made.create_schedule_group(Name="trainyard")
    return made


@pytest.fixture
def scheduler(client: Any) -> EventBridgeScheduler:
    return EventBridgeScheduler(client, "trainyard", FUNCTION, ROLE)


def test_a_schedule_is_created_changed_and_removed_and_each_again_changes_nothing(
    client: Any, scheduler: EventBridgeScheduler
) -> None:
    for status in ("Active", "Active", "Paused"):
        scheduler.place(schedule().changed(status=status), None)
    found = client.get_schedule(Name="nightly", GroupName="trainyard")
    assert found["ScheduleExpression"] == "cron(0 2 ? * MON,TUE,WED,THU,FRI *)"
    assert (found["ScheduleExpressionTimezone"], found["State"]) == ("Europe/Berlin", "DISABLED")
    assert found["Target"]["Arn"] == FUNCTION
    assert "<aws.scheduler.scheduled-time>" in found["Target"]["Input"]
    scheduler.remove("nightly")
    scheduler.remove("nightly")


def test_a_rate_says_when_it_begins(scheduler: EventBridgeScheduler) -> None:
    begins = datetime(2027, 1, 31, 2, tzinfo=timezone.utc)
    rate = schedule(cron=None, rate="1 day", timezone="UTC")
    request = scheduler.request(rate, begins)
    assert (request["ScheduleExpression"], request["StartDate"]) == ("rate(1 day)", begins)
    scheduler.place(rate, begins)


@pytest.mark.usefixtures("aws")
def test_a_large_object_is_copied_in_parts_and_one_that_is_not_there_is_not_found() -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="sagemaker-data")
    body = bytes(range(256)) * 4096 * 12
    s3.put_object(Bucket="sagemaker-data", Key="a", Body=body)
    for limit in (len(body), 1):
        ObjectCopy(s3, "sagemaker-data", "a", "b", limit, 5 * 1024**2).run()
        assert s3.get_object(Bucket="sagemaker-data", Key="b")["Body"].read() == body
        s3.delete_object(Bucket="sagemaker-data", Key="b")
    with pytest.raises(errors.BlobNotFound):
        ObjectCopy(s3, "sagemaker-data", "none", "b").run()
