"""An approval in Slack: a reply with buttons, decided by who clicks as the API would decide."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory import World
from tests.support.slack import TEAM, USER, WHO
from tests.support.slack_channel import Teller
from tests.support.slack_chat import ALICE, Slack, buttons_of, words
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.approvals import ApprovalRules
from trainyard_contracts.people import named

BOB, CAROL = "U0BOB", "U0CAROL"
PEOPLE = {
    WHO: ALICE,
    f"{TEAM}/{BOB}": "arn:aws:iam::111122223333:user/bob",
    f"{TEAM}/{CAROL}": "arn:aws:iam::111122223333:user/carol",
}


@pytest.fixture
def slack(world: World) -> Slack:
    made = Slack(world)
    made.people = json.dumps(PEOPLE)
    return made


@pytest.fixture
def teller(world: World, slack: Slack) -> Teller:
    return Teller(world, people=slack.people)


def asked(world: World, needed: int = 1) -> Story:
    """A run of alice that waits for other people."""
    rules = ApprovalRules(above_usd=1.0, needed=needed)
    world.ports = replace(world.ports, config=replace(world.ports.config, approvals=rules))
    story = Story(world)
    make_cluster(story)
    spec = run_spec(cluster={"name": "shared"})
    story.run_id = submit_run(world.ports, spec, by=named(ALICE)).id
    story.rest()
    assert story.run.approval is not None
    return story


def reply(teller: Teller) -> dict[str, Any]:
    teller.look()
    (found,) = teller.channel.replies
    return found


def labels(message: dict[str, Any]) -> list[str]:
    return [one["text"]["text"] for one in buttons_of(message)]


def test_what_waits_is_a_reply_with_two_buttons_that_the_channel_sees(
    world: World, teller: Teller
) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    shown = reply(teller)
    assert shown["reply_broadcast"] is True
    assert "ddp-demo waits for an approval" in words(shown)
    assert "a run that may cost more than 1 USD needs 1 approval" in words(shown)
    assert "Asked for by alice. It needs one person who did not ask for it." in words(shown)
    assert labels(shown) == ["Approve", "Deny"]
    assert all("confirm" in one for one in buttons_of(shown))


def test_a_click_approves_and_the_run_begins_and_the_message_has_no_button_any_more(
    world: World, slack: Slack, teller: Teller
) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    after = slack.press("Approve", reply(teller), user=BOB)
    assert after["replace_original"] is True
    assert "is approved, and the run goes on" in words(after)
    assert "Approved by bob." in words(after)
    assert labels(after) == []
    story.rest()
    assert story.run.status != "Waiting"
    teller.event(story.run_id, "approval.approved")
    shown = reply(teller)
    assert (shown["text"], labels(shown)) == (after["text"], [])
    (entry,) = [one for one in world.audit.entries.values() if one.what == "approval.approve"]
    assert (entry.outcome, entry.user_agent) == ("done", f"Slack {TEAM}/{BOB}")


def test_a_click_denies_and_the_run_ends(world: World, slack: Slack, teller: Teller) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    after = slack.press("Deny", reply(teller), user=BOB)
    assert "Denied by bob." in words(after)
    story.rest()
    assert story.run.status == "Failed"


def test_who_asked_has_no_say_and_the_buttons_stay_for_others(
    world: World, slack: Slack, teller: Teller
) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    shown = reply(teller)
    refused = slack.press("Approve", shown, user=USER)
    assert refused["replace_original"] is False
    assert "nobody decides on what they asked for themselves" in words(refused)
    assert "Trainyard does not know you yet" in words(slack.press("Deny", shown, user="U0NONE"))
    assert story.run.status == "Waiting"
    slack.press("Approve", shown, user=BOB)
    story.rest()
    assert story.run.status != "Waiting"


def test_two_people_approve_by_the_same_button_and_one_twice_is_one(
    world: World, slack: Slack, teller: Teller
) -> None:
    story = asked(world, needed=2)
    teller.event(story.run_id, "approval.needed")
    shown = reply(teller)
    assert "It needs 2 people who did not ask for it." in words(shown)
    for _ in range(2):
        after = slack.press("Approve", shown, user=BOB)
        assert "Approved by bob. It needs one person who did not ask for it." in words(after)
        assert labels(after) == ["Approve", "Deny"]
    story.rest()
    assert story.run.status == "Waiting"
    assert "is approved" in words(slack.press("Approve", shown, user=CAROL))


def test_an_old_button_decides_nothing(world: World, slack: Slack, teller: Teller) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    shown = dict(reply(teller))
    slack.press("Deny", shown, user=BOB)
    story.rest()
    said = words(slack.press("Approve", shown, user=CAROL))
    assert "is denied by bob" in said


def test_a_command_shows_both_buttons_to_who_may_decide(
    world: World, slack: Slack, teller: Teller
) -> None:
    story = asked(world)
    assert story.run.approval is not None
    id_ = story.run.approval.id
    assert "nobody decides on what they asked for" in slack.say(f"approve {id_}")
    assert "waits for an approval" in slack.say(f"approve {id_}", user=BOB)
    mine = slack.newest
    assert labels(mine) == ["Approve", "Deny"]
    slack.press("Approve", mine, user=BOB)
    story.rest()
    assert "is approved, and the run goes on" in slack.say(f"approve {id_}")
    assert labels(slack.newest) == []
    assert "`approve` takes the name of an approval." in slack.say("approve", user=BOB)
    assert "There is no such approval" in slack.say("approve apr-none", user=BOB)


def test_an_approval_that_nobody_gave_says_so(world: World, teller: Teller) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    story.pass_time(86_500)
    story.sweep()
    teller.look()
    shown = [one for one in teller.channel.replies if "approval" in one["text"]]
    assert "by nobody in time, and the run ends" in words(shown[0])
    assert labels(shown[0]) == []
