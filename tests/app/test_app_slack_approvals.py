"""An approval in Slack: a reply with buttons, decided by who clicks as the API would decide."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory import World
from tests.support.slack import TEAM, USER, WHO
from tests.support.slack_channel import Teller
from tests.support.slack_chat import ALICE, MemoryViews, Slack, buttons_of, words
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.submit_run import submit_run
from trainyard.chat.approving import MOST_LISTED
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


def reply_about(teller: Teller, text: str) -> dict[str, Any]:
    teller.look()
    (found,) = [one for one in teller.channel.replies if text in one["text"]]
    return found


def asked_why(slack: Slack, message: dict[str, Any], *, user: str = BOB) -> dict[str, Any]:
    """The form that a click of Deny opens."""
    slack.views = slack.views or MemoryViews()
    assert slack.deliver(slack.click("Deny", message, user=user)).reason == "a form is open"
    return slack.views.opened[-1]


def only_first(message: dict[str, Any]) -> dict[str, Any]:
    """The message without the buttons but the first pair."""
    first = next(block for block in message["blocks"] if block["type"] == "actions")
    return {**message, "blocks": [first]}


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
    approve, deny = buttons_of(shown)
    assert "confirm" in approve
    assert "confirm" not in deny, "its form asks"


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
    view = asked_why(slack, reply(teller))
    assert "672.00 USD" in view["blocks"][0]["text"]["text"]
    story.rest()
    assert story.run.status == "Waiting", "nothing is decided before the form is sent"
    after = slack.send(view, user=BOB, reason=" too dear <!here> ")
    assert after["replace_original"] is True
    assert "Denied by bob (too dear &lt;!here&gt;)." in words(after)
    assert labels(after) == []
    story.rest()
    assert story.run.status == "Failed"
    (entry,) = [one for one in world.audit.entries.values() if one.what == "approval.deny"]
    assert (entry.outcome, entry.reason) == ("done", "too dear <!here>")
    teller.event(story.run_id, "approval.denied")
    assert reply_about(teller, "is denied")


@pytest.mark.parametrize("refuses", ["", "expired_trigger_id"])
def test_without_a_form_a_denial_asks_once_more_and_then_needs_no_reason(
    world: World, slack: Slack, teller: Teller, refuses: str
) -> None:
    slack.views = MemoryViews(refuses=refuses) if refuses else None
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    sure = slack.press("Deny", reply(teller), user=BOB)
    assert sure["replace_original"] is False
    assert labels(sure) == ["Deny without a reason"]
    assert "confirm" in buttons_of(sure)[0]
    assert story.run.status == "Waiting"
    assert "Denied by bob." in words(slack.press("Deny without a reason", sure, user=BOB))
    story.rest()
    assert story.run.status == "Failed"


def test_a_form_is_opened_for_who_has_a_say_alone_and_denies_by_the_same_rules(
    world: World, slack: Slack, teller: Teller
) -> None:
    story = asked(world)
    teller.event(story.run_id, "approval.needed")
    shown = reply(teller)
    slack.views = MemoryViews()
    refused = slack.press("Deny", shown, user=USER)
    assert "nobody decides on what they asked for themselves" in words(refused)
    assert slack.views.opened == []
    view = asked_why(slack, shown)
    forged = slack.send(view, user=USER, reason="mine")
    assert forged["replace_original"] is False
    assert "nobody decides on what they asked for themselves" in words(forged)
    slack.press("Approve", shown, user=CAROL)
    late = slack.send(view, user=BOB, reason="too late")
    assert "is approved" in words(late)
    story.rest()
    assert story.run.status != "Waiting"


def test_a_reason_that_is_typed_goes_with_either_button(
    world: World, slack: Slack, teller: Teller
) -> None:
    story = asked(world)
    assert story.run.approval is not None
    id_ = story.run.approval.id
    slack.say(f'approve {id_} it is the last one &lt;@U1&gt; "ü"', user=BOB)
    mine = slack.newest
    assert 'You say: it is the last one &lt;@U1&gt; "ü"' in words(mine)
    assert all("confirm" in one for one in buttons_of(mine))
    after = slack.press("Approve", mine, user=BOB)
    assert 'Approved by bob (it is the last one &lt;@U1&gt; "ü").' in words(after)
    assert "A reason has at most 500 characters." in slack.say(f"approve {id_} {'x' * 501}")


def test_what_waits_is_a_list_with_buttons_for_who_has_a_say(world: World, slack: Slack) -> None:
    assert "Nothing waits for people." in slack.say("approvals")
    first = asked(world)
    second = submit_run(
        world.ports, run_spec(name="other", cluster={"name": "shared"}), by=named(ALICE)
    )
    first.rest()
    said = slack.say("approvals")
    assert "2 approvals to be given" in said
    assert said.count("Others decide on it.") == 2
    assert labels(slack.newest) == []
    said = slack.say("approvals", user=BOB)
    assert said.index("*ddp-demo*") < said.index("*other*")
    shown = slack.newest
    assert labels(shown) == ["Approve", "Deny"] * 2
    after = slack.deliver(slack.click("Approve", only_first(shown), user=BOB))
    assert after.result == "answered"
    assert slack.newest["replace_original"] is True
    said = words(slack.newest)
    assert "The approval of ddp-demo is approved, and the run goes on" in said
    assert "1 approval to be given" in said
    assert labels(slack.newest) == ["Approve", "Deny"]
    view = asked_why(slack, slack.newest)
    said = words(slack.send(view, user=BOB, reason="no"))
    assert "Denied by bob (no)." in said
    assert "Nothing waits for people." in said
    first.run_id = second.id
    first.rest()
    assert first.run.status == "Failed"
    assert "`approvals` takes nothing." in slack.say("approvals mine")


def test_a_long_list_fits_and_says_how_many_more_there_are(world: World, slack: Slack) -> None:
    story = asked(world)
    for at in range(MOST_LISTED + 2):
        spec = run_spec(name=f"more-{at}", cluster={"name": "shared"})
        story.run_id = submit_run(world.ports, spec, by=named(ALICE)).id
        story.rest()
    said = slack.say("approvals", user=BOB)
    assert f"{MOST_LISTED + 3} approvals to be given" in said
    assert "3 more: `trainyard approval ls`." in said
    assert len(labels(slack.newest)) == 2 * MOST_LISTED


def test_what_nobody_can_decide_any_more_is_in_no_list(world: World, slack: Slack) -> None:
    story = asked(world)
    story.pass_time(86_500)
    assert "Nothing waits for people." in slack.say("approvals", user=BOB)


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
    slack.send(asked_why(slack, shown), user=BOB, reason="too dear")
    story.rest()
    for label in ("Approve", "Deny"):
        said = words(slack.press(label, shown, user=CAROL))
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
