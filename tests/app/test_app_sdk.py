"""A run's story as a program tells it: with the SDK, on the real API and the real machines."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest
from tests.support.in_process_api import InProcess, away, connected, trainyard
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, run_spec

from trainyard_contracts import places
from trainyard_contracts.curves import KeptCurve, KeptCurves
from trainyard_contracts.specs import RunSpec
from trainyard_sdk import (
    ApiProblem,
    AsyncCluster,
    AsyncRun,
    AsyncTrainyard,
    Client,
    Cluster,
    Interrupted,
    InvalidInput,
    NotInTime,
    Run,
    RunFailed,
    Trainyard,
    Unreachable,
    flows,
)
from trainyard_sdk import client as client_module

Act = Callable[[], object]


@pytest.fixture(autouse=True)
def unhurried_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own pauses between tries are tested with the client."""
    monkeypatch.setattr(client_module, "_pause", lambda _attempt, _after: 0.0)


def acts(story: Story, last: str = "succeeded", **detail: Any) -> Iterator[Act]:
    yield story.ready
    yield story.training
    yield lambda: story.checkpoint(40)
    yield lambda: story.lose("ip-127-0-1-12")
    yield lambda: story.training("ip-127-0-1-11", "ip-127-0-1-13", step=41)
    yield lambda: story.end(last, **detail)


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def api(story: Story) -> InProcess:
    return InProcess(story.world, acts(story))


def submitted(story: Story, api: InProcess, **pace: Any) -> Any:
    """Story.submit also starts the machines, so it is the story that submits."""
    return trainyard(api, **pace).run(story.submit().id)


def test_a_run_is_submitted_waited_for_and_has_succeeded(story: Story, api: InProcess) -> None:
    run = trainyard(api).submit(run_spec(), idempotency_key="night-1")
    assert run.status == "Pending"
    assert run.spec == run_spec()
    story.run_id = run.id
    story.rest()
    assert run.wait() is run
    assert run.status == "Succeeded"
    assert run.view.export is not None
    assert run.view.export.state == "verified"
    assert [attempt.number for attempt in run.view.attempts] == [1, 2]
    assert isinstance(run.view.created_at, datetime)


def test_the_same_key_gives_the_same_run_from_a_class_and_from_plain_data(api: InProcess) -> None:
    plain = {
        "name": "ddp-demo",
        "cluster": {"spec": cluster_spec(workers=2, spares=1)},
        "job": {"nodes": 2, "module": "trainyard_trainers.ddp"},
        "checkpoint": {"everySeconds": 5},
    }
    yard = trainyard(api)
    first = yard.submit(RunSpec.model_validate(plain), idempotency_key="k")
    assert yard.submit(plain, idempotency_key="k").id == first.id
    assert [found.id for found in yard.runs()] == [first.id]


def test_events_come_once_each_in_order_until_the_run_has_ended(
    story: Story, api: InProcess
) -> None:
    run = submitted(story, api)
    entries = list(run.events())
    stored = story.world.runs.timeline(run.id, limit=100, token=None).items
    assert [entry.id for entry in entries] == [entry.id for entry in stored]
    assert len(entries) > 10
    assert any(entry.kind == "decision" and entry.attempt == 1 for entry in entries)


def test_another_process_goes_on_with_the_events_behind_the_last_one_it_read(
    story: Story, api: InProcess
) -> None:
    run = submitted(story, api)
    entries = list(run.events())
    rest = list(run.events(after=entries[4].id))
    assert [entry.id for entry in rest] == [entry.id for entry in entries[5:]]
    with pytest.raises(InvalidInput, match="after: 'nothing' is no id of an entry"):
        list(run.events(after="nothing"))


def test_events_go_on_where_they_were_when_the_connection_was_lost(
    story: Story, api: InProcess
) -> None:
    run = submitted(story, api)
    read = []
    for number, entry in enumerate(run.events()):
        read.append(entry.id)
        if number in (0, 3):
            api.troubles += away(3 * client_module.TRIES)
    stored = story.world.runs.timeline(run.id, limit=100, token=None).items
    assert read == [entry.id for entry in stored]


def test_a_wait_outlives_an_api_that_is_away_or_throttles(story: Story, api: InProcess) -> None:
    run = submitted(story, api)
    api.troubles += [*away(11), *(httpx.Response(429, json={"message": "x"}) for _ in range(7))]
    assert run.wait().status == "Succeeded"


def test_without_a_network_a_submission_ends_soon_with_one_clear_error(api: InProcess) -> None:
    api.troubles += away(1000)
    with pytest.raises(Unreachable) as caught:
        trainyard(api).submit(run_spec())
    assert "The API cannot be reached" in str(caught.value)
    assert caught.value.next_step
    assert len(api.seen) == client_module.TRIES


def test_without_a_network_a_wait_ends_when_its_patience_does_and_says_how_to_come_back(
    story: Story, api: InProcess
) -> None:
    run = submitted(story, api, patience_seconds=0.05)
    api.troubles += away(100_000)
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        run.wait()
    assert time.monotonic() - began >= 0.05
    assert f"trainyard run watch {run.id}" in caught.value.next_step
    assert f"Run {run.id} goes on" in "".join(caught.value.__notes__)


def test_without_a_network_a_wait_ends_at_its_timeout_though_its_patience_is_longer(
    story: Story, api: InProcess
) -> None:
    run = submitted(story, api, patience_seconds=3600)
    api.troubles += away(100_000)
    with pytest.raises(NotInTime, match=f"of run {run.id} nothing is known: ") as caught:
        run.wait(timeout=0.05)
    assert isinstance(caught.value.__cause__, Unreachable)
    assert f"trainyard run watch {run.id}" in caught.value.next_step


def test_expired_credentials_end_a_wait_at_once_with_one_clear_error(
    story: Story, api: InProcess
) -> None:
    run = submitted(story, api)
    before = len(api.seen)
    said = "The security token included in the request is expired"
    api.troubles += [httpx.Response(403, json={"message": said})]
    with pytest.raises(ApiProblem) as caught:
        run.wait()
    assert caught.value.status == 403
    assert said in str(caught.value)
    assert "aws sso login" in caught.value.next_step
    assert f"trainyard run watch {run.id}" in caught.value.next_step
    assert len(api.seen) == before + 1


def test_an_interrupted_wait_leaves_the_run_alone_and_says_how_to_come_back(
    story: Story, api: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(story, api)

    def ctrl_c(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(flows.time, "sleep", ctrl_c)
    with pytest.raises(Interrupted) as caught:
        run.wait()
    assert f"Run {run.id} goes on" in str(caught.value)
    assert f"trainyard run watch {run.id}" in str(caught.value)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert story.run.status not in ("Cancelled", "Failed")
    assert {seen.partition(" ")[0] for seen in api.seen} == {"GET"}


def test_what_does_not_end_in_time_goes_on(story: Story) -> None:
    run = submitted(story, InProcess(story.world))
    with pytest.raises(NotInTime, match=f"run {run.id} is "):
        run.wait(timeout=0.01)
    assert story.run.status not in ("Cancelled", "Failed")


def out_of_memory_twice(story: Story) -> Iterator[Act]:
    said: dict[str, Any] = {
        "errorKind": "out-of-memory",
        "signal": 9,
        "error": "the kernel's out-of-memory killer ended process 7 (python)",
        "failedNode": "ip-127-0-1-12",
    }
    yield story.ready
    yield story.training
    yield lambda: story.end("failed", lastStep=20, **said)
    yield story.training
    yield lambda: story.end("failed", lastStep=19, **said)


def test_a_run_that_failed_raises_with_its_problem_and_what_to_do(story: Story) -> None:
    run = submitted(story, InProcess(story.world, out_of_memory_twice(story)))
    with pytest.raises(RunFailed) as caught:
        run.wait()
    assert caught.value.run.status == "Failed"
    assert caught.value.code == run.view.problem.code
    assert caught.value.next_step == run.view.problem.next_step
    assert run.wait(check=False).status == "Failed"


def test_a_run_is_cancelled(story: Story, api: InProcess) -> None:
    run = submitted(story, api)
    run.cancel()
    story.rest()
    assert run.refresh().status == "Cancelled"


def test_metrics_are_columns_and_a_table_if_pandas_is_there(
    story: Story, api: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(story, api)
    run.wait()
    found = run.metrics()
    assert set(found.columns()) == {"at", "step", "loss", "attempt"}
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput) as caught:
        found.to_pandas()
    assert "trainyard[pandas]" in caught.value.next_step


def test_what_a_run_reported_is_there_a_month_after_its_end(story: Story, api: InProcess) -> None:
    run = submitted(story, api)
    run.wait()
    record = story.world.runs.get(run.id)
    kept = KeptCurves(
        run_id=run.id,
        attempt=1,
        written_at=story.world.clock.now(),
        curves=[
            KeptCurve(name="loss", points=[(1, 1.79e9, 0.9), (2, 1.79e9 + 1, 0.8)], reports=2),
            KeptCurve(name="accuracy", points=[(2, 1.79e9 + 1, 0.5)], reports=1),
            KeptCurve(name="step", points=[(2, 1.79e9 + 1, 7.0)], reports=1),
        ],
    )
    key = places.curves_key(places.log_key(record.prefix, 1))
    story.world.blobs.put(key, kept.model_dump_json(by_alias=True).encode())
    story.world.clock.tick(30 * 86400)
    found = run.metrics(name="accuracy")
    assert found.columns()["accuracy"] == [0.5]
    assert [one.name for one in found.names] == ["loss", "accuracy", "step"]
    assert (found.names[1].last, found.names[1].reports) == (0.5, 1)
    columns = run.metrics().columns()
    assert (columns["step"], columns["loss"], columns["attempt"]) == ([1, 2], [0.9, 0.8], [1, 1])
    assert run.metrics(name="step").columns()["value"] == [7.0]

    async def twin() -> Any:
        async with AsyncTrainyard(client=connected(api), poll_seconds=0.001) as yard:
            return await (await yard.run(run.id)).metrics(name="accuracy")

    assert asyncio.run(twin()).points == found.points


def test_a_cluster_is_made_waited_for_and_deleted(story: Story, api: InProcess) -> None:
    yard = trainyard(api)
    cluster = yard.create_cluster({**cluster_spec(workers=1), "name": "shared"})
    assert cluster.spec.name == "shared"
    story.rest()
    assert [found.name for found in yard.clusters()] == ["shared"]
    with pytest.raises(NotInTime):
        cluster.wait(timeout=0.01)
    cluster.delete()
    story.rest()
    assert cluster.refresh().status in ("Deleting", "Deleted")


def test_the_asynchronous_twin_tells_the_same_story(story: Story, api: InProcess) -> None:
    async def tell() -> tuple[list[str], Any]:
        async with AsyncTrainyard(client=connected(api), poll_seconds=0.001) as yard:
            run = await yard.run(story.submit().id)
            seen = [entry.id async for entry in run.events()]
            await run.wait()
            return seen, run

    seen, run = asyncio.run(tell())
    stored = story.world.runs.timeline(run.id, limit=100, token=None).items
    assert seen == [entry.id for entry in stored]
    assert run.status == "Succeeded"


def test_a_task_that_is_cancelled_while_it_waits_leaves_the_run_alone(story: Story) -> None:
    api = InProcess(story.world)

    async def tell() -> None:
        async with AsyncTrainyard(client=connected(api), poll_seconds=30.0) as yard:
            run = await yard.run(story.submit().id)
            waiting = asyncio.create_task(run.wait())
            while len(api.seen) < 2:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(tell())
    assert {seen.partition(" ")[0] for seen in api.seen} == {"GET"}
    assert story.run.status not in ("Cancelled", "Failed")


TWINS = [(Trainyard, AsyncTrainyard), (Run, AsyncRun), (Cluster, AsyncCluster)]


@pytest.mark.parametrize(("plain", "twin"), TWINS)
def test_the_asynchronous_twin_can_do_all_that_the_other_can(plain: type, twin: type) -> None:
    """With the same names for what is given; and each call of the client by `ask`."""
    ours, theirs = public(plain), public(twin)
    assert ours.keys() == theirs.keys() - {"ask"}
    for name, given in ours.items():
        assert theirs[name] == given, name


def public(of: type) -> dict[str, list[tuple[str, object, object]]]:
    """Each method and property, with its parameters."""
    found = {}
    for name in dir(of):
        member = inspect.getattr_static(of, name)
        if not name.startswith("_"):
            call = member.fget if isinstance(member, property) else member
            parameters = inspect.signature(call).parameters.values()
            found[name] = [(one.name, one.kind, one.default) for one in parameters]
    return found


def test_a_webhook_is_added_rotated_and_removed(api: InProcess) -> None:
    yard = trainyard(api)
    added = yard.add_webhook(
        "https://example.com/x", types=["run.failed"], labels={"team": "a"}, idempotency_key="one"
    )
    assert added.secret
    assert added.types == ["run.failed"]
    again = yard.add_webhook(
        "https://example.com/x", types=["run.failed"], labels={"team": "a"}, idempotency_key="one"
    )
    assert (again.id, again.secret) == (added.id, None)
    assert yard.rotate_webhook(added.id, reason="lost").secret not in (None, added.secret)
    assert [one.id for one in yard.webhooks()] == [added.id]
    assert yard.webhook(added.id).deliveries == []
    with pytest.raises(ApiProblem, match="msg-none"):
        yard.redeliver(added.id, "msg-none")
    assert yard.remove_webhook(added.id).status == "Deleted"
    assert yard.webhooks() == []
    with pytest.raises(ApiProblem, match="url"):
        yard.add_webhook("http://10.0.0.1/")
    assert yard.add_webhook("https://example.com/x", types="run.failed").types == ["run.failed"]


def test_the_twin_does_the_same_and_asks_for_any_call(api: InProcess) -> None:
    async def tell() -> None:
        async with AsyncTrainyard(client=connected(api)) as yard:
            added = await yard.add_webhook("https://example.com/x")
            assert (await yard.rotate_webhook(added.id)).secret
            assert [one.id for one in await yard.webhooks()] == [added.id]
            assert (await yard.webhook(added.id)).deliveries == []
            with pytest.raises(ApiProblem, match="msg-none"):
                await yard.redeliver(added.id, "msg-none")
            assert (await yard.remove_webhook(added.id)).status == "Deleted"
            for call in (yard.approval, yard.approve, yard.deny):
                with pytest.raises(ApiProblem, match="apr-"):
                    await call("apr-01jd0000000000000000000000")
            assert await yard.approvals(state="pending") == []
            assert (await yard.ask(Client.costs, by="cluster"))["by"] == "cluster"

    asyncio.run(tell())


def test_the_twin_outlives_an_api_that_is_away_and_says_at_once_that_a_login_is_over(
    story: Story, api: InProcess
) -> None:
    said = "The security token included in the request is expired"

    async def tell() -> list[str]:
        async with AsyncTrainyard(client=connected(api), poll_seconds=0.001) as yard:
            run = await yard.run(story.submit().id)
            read = []
            async for entry in run.events():
                read.append(entry.id)
                if len(read) in (1, 4):
                    api.troubles += away(3 * client_module.TRIES)
            api.troubles += [httpx.Response(403, json={"message": said})]
            with pytest.raises(ApiProblem, match="expired") as caught:
                await run.wait()
            assert "aws sso login" in caught.value.next_step
            return read

    read = asyncio.run(tell())
    stored = story.world.runs.timeline(story.run_id, limit=100, token=None).items
    assert read == [entry.id for entry in stored]


def test_a_hundred_tasks_wait_for_one_run(story: Story, api: InProcess) -> None:
    async def tell() -> list[str]:
        async with AsyncTrainyard(client=connected(api), poll_seconds=0.001) as yard:
            run = await yard.run(story.submit().id)
            others = await asyncio.gather(*(yard.run(run.id) for _ in range(100)))
            ended = await asyncio.gather(*(one.wait() for one in others))
            return [one.status for one in ended]

    assert asyncio.run(tell()) == ["Succeeded"] * 100


def test_a_wait_that_is_cancelled_says_how_to_come_back(story: Story) -> None:
    """At Ctrl-C asyncio cancels the task, and shows why it ended."""
    api = InProcess(story.world)

    async def tell() -> BaseException:
        async with AsyncTrainyard(client=connected(api), poll_seconds=30.0) as yard:
            run = await yard.run(story.submit().id)
            waiting = asyncio.create_task(run.wait())
            while len(api.seen) < 2:
                await asyncio.sleep(0)
            waiting.cancel()
            try:
                await waiting
            except asyncio.CancelledError as cancelled:
                return cancelled
            raise AssertionError("it was not cancelled")

    cancelled = asyncio.run(tell())
    assert f"trainyard run watch {story.run_id}" in "".join(cancelled.__notes__)
