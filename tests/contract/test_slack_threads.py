"""Threads of runs in Slack: the table and its twin in memory keep the same rules."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from tests.support.memory import World
from tests.support.slack_channel import MemoryThreads

from trainyard.aws.slack_threads import KEPT, TableThreads
from trainyard.aws.table import Table
from trainyard.chat.telling import Threads
from trainyard.domain.errors import ConflictError
from trainyard.domain.thread_records import SlackDigest, SlackPause, ThreadReply

CHANNEL = "C0123ABCDEF"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=["memory", "dynamodb"])
def threads(
    request: pytest.FixtureRequest, table: Table, world: World
) -> MemoryThreads | TableThreads:
    if request.param == "memory":
        return MemoryThreads(world=world)
    return TableThreads(table, world.clock)


def test_a_thread_is_there_from_its_first_event_on(threads: Threads) -> None:
    assert threads.get("run-1") is None
    threads.wake("run-1", CHANNEL)
    threads.wake("run-1", "C0OTHER")
    found = threads.get("run-1")
    assert found is not None
    assert (found.channel, found.ts, found.version, found.wakes) == (CHANNEL, "", 0, 2)
    assert [one.run_id for one in threads.open_ones(10)] == ["run-1"]


def test_what_was_shown_is_kept_and_another_look_does_not_undo_it(threads: Threads) -> None:
    threads.wake("run-1", CHANNEL)
    found = threads.get("run-1")
    assert found is not None
    reply = ThreadReply(key="end-1", ts="2.1", shown="b")
    after = threads.put(found.changed(ts="1.1", shown="a").with_reply(reply))
    assert (after.version, threads.get("run-1")) == (1, after)
    with pytest.raises(ConflictError):
        threads.put(found.changed(ts="1.2"))
    assert after.reply("end-1") == reply
    assert after.reply("end-2") is None


def test_the_one_that_was_shown_longest_ago_comes_first(threads: Threads, world: World) -> None:
    for name in ("run-1", "run-2", "run-3"):
        threads.wake(name, CHANNEL)
        world.clock.tick(1)
    first = threads.get("run-1")
    assert first is not None
    threads.put(first.changed(shown_at=world.clock.now()))
    assert [one.run_id for one in threads.open_ones(10)] == ["run-2", "run-3", "run-1"]
    assert [one.run_id for one in threads.open_ones(1)] == ["run-2"]


def test_a_closed_thread_is_kept_and_an_event_opens_it(threads: Threads) -> None:
    threads.wake("run-1", CHANNEL)
    found = threads.get("run-1")
    assert found is not None
    assert threads.close(found)
    assert threads.open_ones(10) == []
    threads.wake("run-1", CHANNEL)
    assert len(threads.open_ones(10)) == 1
    assert not threads.close(found), "something happened since it was read"
    assert len(threads.open_ones(10)) == 1


def test_a_closed_threads_item_expires_unless_it_is_opened(table: Table, world: World) -> None:
    threads = TableThreads(table, world.clock)
    threads.wake("run-1", CHANNEL)
    found = threads.get("run-1")
    assert found is not None
    threads.close(found)
    item = table.get("slack#run-run-1", "thread")
    assert item is not None
    assert int(item["expiresAt"]["N"]) == int((world.clock.now() + KEPT).timestamp())
    threads.wake("run-1", CHANNEL)
    assert "expiresAt" not in (table.get("slack#run-run-1", "thread") or {})


def test_a_pause_is_kept(threads: Threads, world: World) -> None:
    assert threads.pause() is None
    pause = SlackPause(until=world.clock.now() + timedelta(hours=1), trouble="is_archived")
    threads.put_pause(pause)
    assert threads.pause() == pause


def test_a_digest_is_written_by_one_of_two(threads: MemoryThreads | TableThreads) -> None:
    assert threads.digest() is None
    at = datetime(2026, 11, 29, 8, tzinfo=timezone.utc)
    first = threads.put_digest(SlackDigest(day="2026-11-29", since=at))
    with pytest.raises(ConflictError):
        threads.put_digest(SlackDigest(day="2026-11-29", since=at))
    second = threads.put_digest(first.changed(day="2026-11-30"))
    with pytest.raises(ConflictError):
        threads.put_digest(first.changed(day="2026-12-01"))
    assert threads.digest() == second
    assert (second.day, second.since, second.version) == ("2026-11-30", at, 2)
