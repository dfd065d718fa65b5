"""Each morning the channel reads what happened: once a day, and nothing of it is lost."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory import Died, World
from tests.support.slack_channel import MemoryThreads, Teller
from tests.support.slack_chat import ALICE, Slack
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.submit_run import submit_run
from trainyard.chat.digest import MOST_NAMED, digest_page
from trainyard.chat.mornings import Morning
from trainyard.chat.news import news_since
from trainyard.chat.web_api import Limited, SlackRefused
from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.errors import RetryableError
from trainyard.domain.records import CostLine, Incident, Run, RunCost
from trainyard.domain.thread_records import SlackDigest
from trainyard_contracts.people import named

NASTY = "<!channel> & <@U1> ``` <https://evil.example|click>\n<!here>" * 60
DAY = 86_400


@pytest.fixture
def teller(world: World) -> Teller:
    """At noon; the digest comes at eight, and is on since now."""
    made = Teller(world)
    assert made.minute() == "the first comes with the next morning"
    return made


def ended(world: World, name: str, **changes: Any) -> Run:
    run = submit_run(world.ports, run_spec(name=name), by=named(ALICE))
    now = world.clock.now()
    ledger = [
        CostLine(cause="useful", seconds=60, node_seconds=120, usd=3.0),
        CostLine(cause="restart", seconds=20, node_seconds=40, usd=1.0),
    ]
    cost = RunCost(usd=4.0, at=now, node_seconds=160, ledger=ledger)
    given = {"status": "Succeeded", "finished_at": now, "cost": cost, **changes}
    return world.runs.put(run.changed(**given))


def incident(world: World, after: float = 180, **changes: Any) -> Incident:
    began = world.clock.now()
    back = began + timedelta(seconds=after)
    made = Incident(cause="node-lost", attempt=1, fact_id="f", started_at=began, resumed_at=back)
    return made.changed(**changes)


def test_it_tells_what_ended_failed_and_was_recovered_and_what_that_cost(
    world: World, teller: Teller
) -> None:
    survived = [incident(world), incident(world, after=60)]
    world.clock.tick(600)
    ended(world, "good", incidents=survived)
    ended(world, "bad", status="Failed", reason="it said no")
    ended(world, "free", status="Cancelled", cost=None)
    world.clock.tick(DAY)
    assert teller.minute() == "sent, of 2026-11-21"
    (said,) = teller.digests
    assert "3 runs ended: 1 succeeded, 1 failed, 1 cancelled." in said
    assert "*Failed* (1)\n*bad* of alice" in said
    assert "it said no" in said
    assert "*good* trained on after node-lost 2 times, within 3 minutes at most." in said
    assert "Cost: *8.00 USD*" in said
    assert "Useful: *75%*. Waste: *25%*, 2.00 USD; most of it is restart" in said
    assert "What 1 run of them cost is not known." in said


def test_it_tells_what_waits_for_people_and_what_is_idle(world: World, teller: Teller) -> None:
    story = Story(world)
    make_cluster(story)
    world.clock.tick(DAY)
    rules = ApprovalRules(above_usd=1.0, expires_after=timedelta(days=3))
    world.ports = replace(world.ports, config=replace(world.ports.config, approvals=rules))
    spec = run_spec(name="dear")
    story.run_id = submit_run(world.ports, spec, by=named(ALICE)).id
    story.rest()
    assert story.run.approval is not None
    teller.minute()
    (said,) = teller.digests
    assert "no run ended" in said
    assert "*dear* of alice, until <!date^" in said
    assert f"`/trainyard approve {story.run.approval.id}`" in said
    assert "*Idle* (1)\n*shared* of " in said
    assert "It is deleted after <!date^" in said


def test_once_a_day_however_often_it_is_asked(world: World, teller: Teller) -> None:
    for day in range(1, 4):
        ended(world, f"run-{day}")
        for _ in range(24 * 4):
            world.clock.tick(900)
            teller.minute()
        assert len(teller.digests) == day
        assert "1 run ended" in teller.digests[-1]


def test_nothing_is_said_of_a_day_on_which_nothing_happened(world: World, teller: Teller) -> None:
    world.clock.tick(DAY)
    assert teller.minute() == "nothing happened"
    assert teller.minute() == ""
    assert teller.channel.calls == []


def test_what_was_off_for_hours_comes_late_and_the_next_is_in_time(
    world: World, teller: Teller
) -> None:
    ended(world, "one")
    world.clock.tick(DAY + 7 * 3600)
    assert teller.minute() == "sent, of 2026-11-21"
    ended(world, "two")
    world.clock.tick(14 * 3600)
    assert teller.minute() == "sent, of 2026-11-22"
    assert "1 run ended" in teller.digests[-1]


def test_after_a_long_time_off_the_last_week_is_told(world: World, teller: Teller) -> None:
    ended(world, "old")
    world.clock.tick(30 * DAY)
    ended(world, "new")
    world.clock.tick(60)
    teller.minute()
    (said,) = teller.digests
    assert "1 run ended" in said


@pytest.mark.parametrize("trouble", [Limited(60), SlackRefused("is_archived")])
def test_what_slack_refuses_comes_when_it_takes_messages_again(
    world: World, teller: Teller, trouble: Exception
) -> None:
    ended(world, "one")
    world.clock.tick(DAY)
    teller.channel.troubles = [trouble]
    assert teller.minute().startswith("paused")
    assert teller.minute() == ""
    assert len(teller.channel.calls) == 1
    world.clock.tick(601)
    assert teller.minute() == "sent, of 2026-11-21"
    assert "1 run ended" in teller.digests[0]


def test_what_nobody_knows_of_is_not_sent_twice_and_the_next_one_tells_it(
    world: World, teller: Teller
) -> None:
    ended(world, "one")
    world.clock.tick(DAY)
    teller.channel.lost = [RetryableError("Slack cannot be reached: TimeoutError")]
    assert "nobody knows" in teller.minute()
    assert teller.minute() == ""
    assert len(teller.digests) == 1
    ended(world, "two")
    world.clock.tick(DAY)
    teller.minute()
    assert "2 runs ended" in teller.digests[1]


def test_one_that_slack_never_takes_keeps_no_other_back(world: World, teller: Teller) -> None:
    ended(world, "one")
    world.clock.tick(DAY)
    teller.channel.troubles = [SlackRefused("invalid_blocks")]
    assert teller.minute().startswith("left out")
    ended(world, "two")
    world.clock.tick(DAY)
    teller.minute()
    assert "1 run ended" in teller.digests[0]


@pytest.mark.parametrize("after", [False, True])
def test_wherever_a_process_dies_no_day_has_two_and_nothing_is_lost(after: bool) -> None:
    """At each of its calls, and while Slack takes the message."""
    for call in range(12):
        world = World()
        teller = Teller(world)
        teller.minute()
        ended(world, "one")
        world.clock.tick(DAY)
        world.fuse.arm(call or None, after=after)
        teller.channel.lost = [] if call else [Died("chat.postMessage")]
        with suppress(Died):
            teller.minute()
        world.fuse.arm(None)
        teller.channel.lost = []
        teller.minute()
        assert len(teller.digests) <= 1, call
        ended(world, "two")
        world.clock.tick(DAY)
        teller.minute()
        whole = "\n".join(teller.digests)
        assert whole.count("1 run ended") == 2 or "2 runs ended" in whole, call


def test_of_two_at_the_same_instant_one_sends_it(world: World, teller: Teller) -> None:
    class Late(MemoryThreads):
        """Another has read the digest, and writes it first."""

        def digest(self) -> SlackDigest | None:
            found = super().digest()
            assert found is not None
            self.put_digest(found.changed(day="2026-11-21"))
            return found

    ended(world, "one")
    world.clock.tick(DAY)
    teller.threads = Late(last=teller.threads.digest(), world=world)
    assert teller.minute() == "in hand"
    assert teller.channel.calls == []


def test_a_zone_that_there_is_not_is_in_the_audit_list_once_and_runs_are_shown(
    world: World, teller: Teller
) -> None:
    teller.zone = "Europe/Berln"
    for _ in range(3):
        assert "there is no time zone 'Europe/Berln'" in teller.minute()
    (entry,) = [one for one in world.audit.entries.values() if one.what == "slack.refused"]
    assert "SlackDigestZone" in entry.reason


def test_a_defect_in_it_keeps_no_run_from_being_shown(world: World, teller: Teller) -> None:
    story = Story(world)
    story.submit()
    teller.threads.wake(story.run_id, teller.named)
    world.clock.tick(DAY)
    kept = world.ports
    world.ports = replace(kept, approvals=None)  # type: ignore[arg-type]
    assert teller.minute().startswith("failed: AttributeError")
    assert [one["text"] for one in teller.channel.parents] == ["ddp-demo: Pending"]


def test_an_event_of_a_run_sends_no_digest(world: World, teller: Teller) -> None:
    ended(world, "one")
    world.clock.tick(DAY)
    teller.event("run-none")
    assert teller.digests == []


def test_very_much_fits_and_foreign_text_is_only_text(world: World, teller: Teller) -> None:
    for at in range(MOST_NAMED + 2):
        survived = [incident(world, after=1, cause=NASTY[:400])]
        world.clock.tick(2)
        ended(world, f"bad-{at}", status="Failed", reason=NASTY, incidents=survived)
        make_cluster(Story(world), name=f"idle-{at}")
    world.clock.tick(DAY)
    teller.minute()  # the channel's own check refuses pings and what is too long
    (said,) = teller.digests
    assert said.count("2 more.") == 3
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt;" in said


def test_a_command_shows_the_last_day_at_once_to_one_person(world: World) -> None:
    slack = Slack(world)
    assert "Nothing ended, recovered, waits or is idle since" in slack.say("digest")
    ended(world, "one")
    world.clock.tick(60)
    assert "1 run ended: 1 succeeded." in slack.say("digest")
    world.clock.tick(DAY)
    assert "Nothing ended" in slack.say("digest")
    assert "`digest` takes nothing." in slack.say("digest weekly")
    assert "Trainyard does not know you yet" in slack.say("digest", user="U0NONE")


def test_the_sums_of_the_lines_are_the_bill(world: World) -> None:
    since = world.clock.now()
    for at in range(3):
        ended(world, f"one-{at}")
    world.clock.tick(1)
    page = digest_page(world.ports, news_since(world.ports, since))
    table = page.blocks[-2]["text"]["text"]
    assert "useful      180.0 s       9.00 USD" in table
    assert "restart      60.0 s       3.00 USD" in table


@pytest.mark.parametrize(
    ("at", "day"),
    [
        ("2026-11-29T06:59:59", "2026-11-28"),
        ("2026-11-29T07:00:00", "2026-11-29"),
        ("2026-03-29T00:30:00", "2026-03-28"),
        ("2026-03-29T05:59:00", "2026-03-28"),
        ("2026-03-29T06:00:00", "2026-03-29"),
    ],
)
def test_its_hour_is_that_of_its_zone(at: str, day: str) -> None:
    moment = datetime.fromisoformat(at).replace(tzinfo=timezone.utc)
    assert Morning(8, "Europe/Berlin", MemoryThreads()).day(moment) == day


@given(
    st.integers(0, 23),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
)
def test_the_day_never_goes_back_and_leaves_none_out(hour: int, zone: str, begin: datetime) -> None:
    """Through changes of the clock, too."""
    morning, moment = Morning(hour, zone, MemoryThreads()), begin.replace(tzinfo=timezone.utc)
    days = [morning.day(moment + timedelta(minutes=20 * at)) for at in range(72 * 3)]
    seen = sorted(set(days))
    for before, after in pairwise(seen):
        gap = datetime.fromisoformat(after) - datetime.fromisoformat(before)
        assert gap == timedelta(days=1)
    local = moment.astimezone(ZoneInfo(zone)).date()
    assert days[0] in (local.isoformat(), (local - timedelta(days=1)).isoformat())
    marked = ""
    sent = []
    for day in days:  # as the record of the last one has it
        if day > marked:
            marked = day
            sent.append(day)
    assert sent == seen
