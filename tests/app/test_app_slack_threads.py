"""A run is one message in a channel of Slack; its thread says what befell it, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.memory import Died, World
from tests.support.slack_channel import MENTION, Teller
from tests.support.slack_chat import ALICE
from tests.support.story import Story, run_spec

from trainyard.chat.showing import EDIT_SECONDS
from trainyard.chat.threads import REFUSED_SECONDS
from trainyard.chat.web_api import Limited, SlackRefused
from trainyard.domain.errors import RetryableError
from trainyard_contracts.people import named

NODE = "ip-127-0-1-13"


@pytest.fixture
def story(world: World) -> Story:
    made = Story(world)
    made.submit()
    made.ready()
    made.training(step=7)
    made.world.runs.put(made.run.changed(created_by=named(ALICE)))
    return made


@pytest.fixture
def teller(story: Story) -> Teller:
    return Teller(story.world)


def recovers(story: Story) -> None:
    story.pass_time(60)
    story.lose(NODE)
    story.end("lost")
    story.pass_time(30)
    story.training("ip-127-0-1-12", "ip-127-0-1-14", step=9)


def test_a_run_is_one_message_that_is_edited_as_its_state_changes(
    story: Story, teller: Teller
) -> None:
    teller.event(story.run_id)
    assert "ddp-demo: Running" in teller.shown
    assert story.run_id in teller.shown
    assert "of alice" in teller.shown
    story.cancel()
    story.rest()
    teller.event(story.run_id, "run.cancelled")
    assert "ddp-demo: Cancelled" in teller.shown
    assert len(teller.channel.parents) == 1


def test_a_step_is_shown_by_the_next_look_and_at_most_once_in_half_a_minute(
    story: Story, teller: Teller
) -> None:
    teller.event(story.run_id)
    for step in (10, 11, 12):
        sample = {"runId": story.run_id, "attempt": 1, "step": step, "loss": 0.5}
        story.beat(runs=[sample])
        story.world.clock.tick(EDIT_SECONDS / 3 - 1)
        teller.look()
    assert teller.channel.calls == ["chat.postMessage"]
    story.world.clock.tick(EDIT_SECONDS)
    teller.look()
    assert "Step 12, loss 0.5." in teller.shown
    assert teller.channel.calls == ["chat.postMessage", "chat.update"]


def test_the_thread_says_cause_action_and_duration_of_an_incident(
    story: Story, teller: Teller
) -> None:
    teller.event(story.run_id)
    story.pass_time(60)
    story.lose(NODE)
    teller.look()
    (open_one,) = teller.said
    assert "node-lost" in open_one
    assert f"Node {NODE} is lost" in open_one
    assert "another node is to take its place" in open_one
    assert "Training has not gone on yet." in open_one
    story.end("lost")
    story.pass_time(30)
    story.training("ip-127-0-1-12", "ip-127-0-1-14", step=9)
    teller.event(story.run_id, "run.recovered")
    (closed,) = teller.said
    assert "trained on after *30 seconds*" in closed
    assert "1 incident" in teller.shown


def test_of_a_program_without_steps_the_thread_says_that_it_started_again(world: World) -> None:
    story, teller = Story(world), Teller(world)
    story.submit(progress="none")
    story.ready()
    told: dict[str, Any] = {"run": story.run_id, "nodes": [NODE, "ip-127-0-1-14"]}
    story.send("AttemptStarted", **told, attempt=1, jobId=story.job)
    story.rest()
    teller.event(story.run_id, "run.started")
    assert "ddp-demo: Running" in teller.shown
    assert "no step has been told yet" in teller.shown
    story.lose(NODE)
    story.send("AttemptStarted", **told, attempt=2, jobId=story.job)
    story.end()
    teller.look()
    assert "the program started again after" in " ".join(teller.said)


def test_the_thread_says_once_that_much_of_a_budget_is_spent(world: World) -> None:
    story, teller = Story(world), Teller(world)
    story.submit(run_spec(budget={"maxUsd": 2.0, "tailSeconds": 60, "warnAt": [0.5]}))
    story.ready()
    story.training(step=7)
    teller.event(story.run_id)
    assert teller.said == []
    while not teller.said and not story.run.stopping_since:
        story.pass_time(60)
        teller.look()
    (said,) = teller.said
    assert "*50 %* of its budget of 2 USD are spent" in said
    assert story.run.stopping_since is None
    story.pass_time(1)
    teller.look()
    assert teller.said == [said]


def test_the_end_has_cost_and_waste_and_mentions_nobody_after_success(
    story: Story, teller: Teller
) -> None:
    recovers(story)
    story.end()
    story.rest()
    assert story.run.status == "Succeeded"
    teller.event(story.run_id, "run.finished")
    incident, end = teller.channel.replies
    assert "reply_broadcast" not in end
    said = teller.said[1]
    assert "ddp-demo succeeded" in said
    assert "Cost: *" in said
    assert "Useful: *" in said
    assert "Waste: *" in said
    assert "training that nobody did again" in said
    assert "restart " in said
    cost = story.run.cost
    assert cost is not None
    for line in cost.ledger:
        assert f"{line.seconds:,.1f} s" in said
    assert MENTION not in str(teller.channel.messages)
    assert incident["thread_ts"] == end["thread_ts"] == teller.channel.parents[0]["ts"]


def fails(story: Story) -> None:
    story.end("failed", exitCode=1, error="ValueError: <!channel> & <@U1>", reason="it raised")
    while story.run.status != "Failed":
        story.training(step=1)
        story.end("failed", exitCode=1, error="ValueError: <!channel> & <@U1>", reason="it raised")


def test_the_owner_of_a_run_that_failed_is_mentioned_and_the_channel_sees_it(
    story: Story, teller: Teller
) -> None:
    fails(story)
    teller.event(story.run_id, "run.failed")
    end = teller.channel.replies[-1]
    assert end["reply_broadcast"] is True
    assert f"{MENTION}, your run failed." in teller.said[-1]
    assert str(end).count(MENTION) == 2  # in the text for notifications, and in the block
    assert MENTION not in str(teller.channel.parents)


@pytest.mark.parametrize("people", [None, "{}", "no list", '{"T1/U1": "arn:aws:iam::1:x"}'])
def test_without_a_list_that_has_the_owner_nobody_is_mentioned(
    story: Story, teller: Teller, people: str | None
) -> None:
    teller.people = people
    fails(story)
    teller.event(story.run_id, "run.failed")
    assert "ddp-demo failed" in teller.said[-1]
    assert "<@" not in teller.said[-1]


def test_events_that_come_twice_late_or_out_of_order_change_nothing(
    story: Story, teller: Teller
) -> None:
    recovers(story)
    story.end()
    story.rest()
    for type_ in ("run.finished", "run.recovered", "run.submitted", "run.finished"):
        teller.event(story.run_id, type_)
    assert teller.threads.opened == {}
    before, calls = dict(teller.channel.messages), len(teller.channel.calls)
    for type_ in ("run.started", "run.finished"):
        teller.event(story.run_id, type_)
    assert teller.look() == []
    assert (teller.channel.messages, len(teller.channel.calls)) == (before, calls)
    assert len(teller.channel.parents) == 1


def test_a_lost_event_is_made_up_for_by_the_next_look(story: Story, teller: Teller) -> None:
    teller.event(story.run_id)
    story.cancel()
    story.rest()
    teller.look()
    assert "ddp-demo was cancelled" in teller.said[-1]
    assert teller.threads.opened == {}


def test_an_event_that_comes_while_a_thread_is_closed_keeps_it_open(
    story: Story, teller: Teller
) -> None:
    story.cancel()
    story.rest()
    close = teller.threads.close

    def woken(thread: object) -> bool:
        teller.threads.wake(story.run_id, "C1")
        teller.threads.close = close  # type: ignore[method-assign]
        return close(thread)  # type: ignore[arg-type]

    teller.threads.close = woken  # type: ignore[method-assign]
    looks = teller.event(story.run_id)
    assert [one.result.partition(" ")[0] for one in looks] == ["shown", "closed"]
    assert teller.threads.opened == {}


def test_a_change_is_shown_at_once_and_not_with_the_next_sweep(
    story: Story, teller: Teller
) -> None:
    teller.event(story.run_id)
    before = len(story.world.notices.changes)
    story.lose(NODE)
    assert story.run_id in story.world.notices.changes[before:]
    teller.changed(story.run_id)
    (incident,) = teller.said
    assert f"Node {NODE} is lost" in incident


def test_the_end_is_hinted_at_when_it_is_stored(
    story: Story, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_hint: list[str] = []
    hint = lambda run_id: at_hint.append(story.world.runs.get(run_id).status)  # noqa: E731
    monkeypatch.setattr(story.world.notices, "run_changed", hint)
    story.end()
    story.rest()
    assert at_hint[-1] == "Succeeded"
    teller.changed(story.run_id)
    assert "ddp-demo succeeded" in teller.said[-1]


def test_a_change_that_finds_the_run_in_hand_is_shown_by_the_call_that_has_it(
    story: Story, teller: Teller
) -> None:
    teller.event(story.run_id)
    call = teller.channel.call

    def meanwhile(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The node is lost while Slack still takes the message about the step before."""
        teller.channel.call = call  # type: ignore[method-assign]
        story.lose(NODE)
        (other,) = teller.changed(story.run_id)
        assert other.result == "in hand"
        return call(method, arguments)

    story.world.runs.put(story.run.changed(status="Recovering"))
    teller.channel.call = meanwhile  # type: ignore[method-assign]
    teller.changed(story.run_id)
    assert f"Node {NODE} is lost" in teller.said[-1]


def test_a_change_of_a_run_that_is_gone_opens_no_thread(story: Story, teller: Teller) -> None:
    assert [one.result for one in teller.changed("run-00000000000000000000000000")] == ["none"]
    assert teller.threads.stored == {}


def test_a_run_that_is_resumed_goes_on_in_its_thread(story: Story, teller: Teller) -> None:
    from trainyard.app.runs.resume_run import resume_run

    story.cancel()
    story.rest()
    teller.event(story.run_id)
    resume_run(story.world.ports, story.run_id, None)
    story.rest()
    teller.event(story.run_id, "run.submitted")
    assert len(teller.channel.parents) == 1
    assert "ddp-demo: Cancelled" not in teller.shown
    story.cancel()
    story.rest()
    teller.look()
    assert len(teller.said) == 2


@pytest.mark.parametrize("seconds", [1, 3600])
def test_slack_is_left_alone_for_as_long_as_it_wants(
    story: Story, teller: Teller, seconds: int
) -> None:
    teller.channel.troubles = [Limited(seconds)]
    assert "paused" in teller.event(story.run_id)[0].result
    story.world.clock.tick(seconds - 1)
    teller.look()
    assert len(teller.channel.calls) == 1
    story.world.clock.tick(1)
    teller.look()
    assert "ddp-demo: Running" in teller.shown
    assert story.world.audit.entries.keys().isdisjoint({"slack.refused"})


@pytest.mark.parametrize(
    "error", ["is_archived", "token_revoked", "account_inactive", "not_in_channel", "invalid_auth"]
)
def test_what_slack_refuses_is_in_the_audit_list_once_and_goes_on_when_it_is_put_right(
    story: Story, teller: Teller, error: str
) -> None:
    teller.channel.troubles = [SlackRefused(error)] * 5
    teller.event(story.run_id)
    for _ in range(20):
        teller.look()
    assert len(teller.channel.calls) == 1
    for _ in range(4):
        story.world.clock.tick(REFUSED_SECONDS)
        teller.look()
    refused = [one for one in story.world.audit.entries.values() if one.what == "slack.refused"]
    (entry,) = refused
    assert (entry.subject, entry.who, entry.outcome) == ("slack/C0123ABCDEF", None, "decided")
    assert f"Slack refuses messages about runs: {error}." in entry.reason
    story.world.clock.tick(REFUSED_SECONDS)
    teller.look()
    assert "ddp-demo: Running" in teller.shown
    assert teller.threads.paused is not None
    assert teller.threads.paused.trouble == ""


def test_a_message_that_somebody_deleted_is_left_alone_and_blocks_no_other(
    story: Story, teller: Teller
) -> None:
    teller.event(story.run_id)
    story.cancel()
    story.rest()
    teller.channel.troubles = [SlackRefused("message_not_found")]
    teller.event(story.run_id)
    assert "ddp-demo was cancelled" in teller.said[-1]
    assert teller.threads.opened == {}
    assert teller.threads.paused is None


def test_slack_in_trouble_is_asked_again_by_the_next_look(story: Story, teller: Teller) -> None:
    teller.channel.troubles = [RetryableError("Slack answered 503")]
    assert teller.event(story.run_id)[0].result.startswith("later")
    teller.look()
    assert "ddp-demo: Running" in teller.shown


def test_another_channel_gets_a_message_of_its_own(story: Story, teller: Teller) -> None:
    teller.event(story.run_id)
    teller.named = "C0OTHER"
    teller.look()
    first, second = teller.channel.parents
    assert (first["channel"], second["channel"]) == ("C0123ABCDEF", "C0OTHER")


def test_whatever_call_a_process_dies_at_the_next_look_goes_on(
    story: Story, teller: Teller
) -> None:
    recovers(story)
    story.end()
    story.rest()
    teller.threads.wake(story.run_id, teller.named)
    for calls in range(1, 40):
        story.world.fuse.arm(calls)
        try:
            teller.look()
        except Died:
            teller.claims.states.clear()
            continue
        finally:
            story.world.fuse.arm(None)
        break
    assert teller.threads.opened == {}
    texts = [one["text"] for one in teller.channel.messages.values()]
    assert {"ddp-demo: Succeeded", "ddp-demo succeeded"} <= set(texts)
    assert len(teller.threads.stored[story.run_id].replies) == 2


def test_a_member_of_an_array_and_a_run_that_is_gone_have_no_message(
    story: Story, teller: Teller
) -> None:
    from trainyard.domain.records import ArrayMember

    member = ArrayMember.model_construct(array_id="a", index=0)
    story.world.runs.stored[story.run_id] = story.run.model_copy(update={"array": member})
    teller.event(story.run_id)
    teller.event("run-none")
    assert teller.channel.calls == []


@pytest.mark.parametrize("event", [{}, {"source": "trainyard"}, {"source": "trainyard",
    "detail": {"cluster": {"name": "c"}}}])  # fmt: skip
def test_an_event_about_no_run_shows_nothing(
    story: Story, teller: Teller, event: dict[str, object]
) -> None:
    from trainyard.chat.threads import tell

    assert tell(story.world.ports, teller.telling, event) == []
