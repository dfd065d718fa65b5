"""What a person changes from Slack: told before, decided by who clicks, done once, and told."""

from __future__ import annotations

import json

import pytest
from tests.support.memory import World
from tests.support.slack import TEAM, USER, WHO
from tests.support.slack_chat import ALICE, Slack, buttons_of, words
from tests.support.story import Story, run_spec

from trainyard.chat.asking import Button
from trainyard.domain.audit import AuditEntry
from trainyard.domain.errors import RetryableError
from trainyard_contracts.people import named

BOB = "arn:aws:iam::111122223333:user/bob"
CANCEL = "Cancel the run"


@pytest.fixture
def slack(world: World) -> Slack:
    made = Slack(world)
    made.people = json.dumps({WHO: ALICE, f"{TEAM}/U0BOB": BOB})
    return made


@pytest.fixture
def story(world: World) -> Story:
    made = Story(world)
    made.submit()
    made.ready()
    made.training(step=7)
    made.world.runs.put(made.run.changed(created_by=named(ALICE)))
    return made


def audited(slack: Slack) -> list[AuditEntry]:
    """Without what Trainyard decided by itself."""
    return [one for one in slack.world.audit.entries.values() if one.who is not None]


def test_a_run_is_cancelled_by_a_click_and_not_before(slack: Slack, story: Story) -> None:
    asked = slack.asked("cancel latest")
    said = words(asked)
    assert "Cancel the run ddp-demo?" in said
    assert story.run_id in said
    assert "Its job is stopped and what is whole is exported; the cluster" in said
    assert "Nothing is done yet." in said
    danger, leave = buttons_of(asked)
    assert story.run_id in danger["confirm"]["text"]["text"]
    assert "confirm" not in leave
    story.rest()
    assert audited(slack) == []
    told = slack.press(CANCEL, asked)
    assert told["replace_original"] is True
    assert buttons_of(told) == []
    assert "ddp-demo is being cancelled" in words(told)
    assert "alice asked for it" in words(told)
    story.rest()
    assert story.run.status == "Cancelled"
    (entry,) = audited(slack)
    assert (entry.what, entry.outcome, entry.subject) == (
        "run.cancel", "done", f"run/{story.run_id}",
    )  # fmt: skip
    assert entry.user_agent == f"Slack {WHO}"
    assert entry.who is not None
    assert entry.who.arn == ALICE


def test_a_run_that_ended_is_resumed_and_trains_on(slack: Slack, story: Story) -> None:
    asked_too_early = slack.say("resume latest")
    assert "The run is still active" in asked_too_early
    story.cancel()
    story.rest()
    assert "There is nothing left to cancel" in slack.say("cancel latest").replace("there", "There")
    told = slack.press("Resume the run", slack.asked("resume latest"))
    assert "ddp-demo is resumed" in words(told)
    assert story.run.life == 2
    assert not story.run.terminal


def test_a_run_is_exported_while_it_trains(slack: Slack, story: Story) -> None:
    told = slack.press("Export the run", slack.asked("export latest"))
    assert "ddp-demo is being exported" in words(told)
    story.rest()
    assert story.run.export is not None


def test_the_same_run_anew_is_another_run_of_the_clicker(slack: Slack, story: Story) -> None:
    asked = slack.asked("rerun latest")
    assert "It costs *6.00 USD an hour*" in words(asked)
    first = slack.press("Submit it anew", asked, user="U0BOB")
    again = slack.press("Submit it anew", asked)
    assert words(first) == words(again)
    (new,) = [run for run in slack.world.runs.stored.values() if run.id != story.run_id]
    assert new.id in words(first)
    assert new.spec == story.run.spec
    assert new.created_by == named(BOB)


def test_a_node_is_replaced_by_its_name_and_its_run_is_named(slack: Slack, story: Story) -> None:
    cluster = story.cluster
    worker = next(
        one for one in slack.world.ports.backend(cluster).nodes(cluster) if one.role == "worker"
    )
    assert "is the controller" in slack.say(f"replace {controller(slack, story)} of {cluster.name}")
    asked = slack.asked(f"replace {worker.instance_id} of {cluster.name}")
    assert worker.instance_id in words(asked)
    assert "What is on its disks is lost." in words(asked)
    told = slack.press("Replace the node", asked)
    assert f"{worker.instance_id} of {cluster.name} is being replaced" in words(told)
    (entry,) = audited(slack)
    assert entry.subject == f"node/{cluster.name}/{worker.instance_id}"
    slack.press("Replace the node", asked)
    assert len(audited(slack)) == 1


def controller(slack: Slack, story: Story) -> str:
    nodes = slack.world.ports.backend(story.cluster).nodes(story.cluster)
    return next(one.instance_id for one in nodes if one.role == "controller")


def test_who_clicks_needs_the_right_and_the_button_stays_for_others(
    slack: Slack, story: Story
) -> None:
    slack.roles(members=(ALICE, BOB))
    asked = slack.asked("cancel latest")
    refused = slack.press(CANCEL, asked, user="U0BOB")
    assert refused["replace_original"] is False
    assert refused["response_type"] == "ephemeral"
    assert "belongs to alice" in words(refused)
    stranger = slack.press(CANCEL, asked, user="U0STRANGER")
    assert "Trainyard does not know you yet" in words(stranger)
    assert stranger["replace_original"] is False
    story.rest()
    assert not story.run.terminal
    assert [(one.who and one.who.name, one.outcome) for one in audited(slack)] == [
        ("bob", "refused")
    ]
    assert "is being cancelled" in words(slack.press(CANCEL, asked))


def test_who_may_not_gets_no_button(slack: Slack, story: Story) -> None:
    slack.roles(viewers=(ALICE,), members=(BOB,))
    for text in ("cancel latest", "rerun latest", f"replace x of {story.cluster.name}"):
        assert "You may not do that" in slack.say(text)
        assert buttons_of(slack.newest) == []


def test_a_click_is_done_once_however_often_it_comes(slack: Slack, story: Story) -> None:
    asked = slack.asked("export latest")
    event = slack.click("Export the run", asked)
    assert [slack.deliver(event).result for _ in range(3)] == ["answered", "repeated", "repeated"]
    assert "is being exported" in words(slack.press("Export the run", asked))  # a second click
    assert len(audited(slack)) == 1


def test_what_slack_could_not_be_told_is_told_by_the_repeated_call_and_not_done_again(
    slack: Slack, story: Story
) -> None:
    event = slack.click("Export the run", slack.asked("export latest"))
    slack.replies.down = True
    with pytest.raises(RetryableError):
        slack.deliver(event)
    slack.replies.down = False
    assert slack.deliver(event).result == "answered"
    assert "ddp-demo is being exported" in words(slack.newest)
    assert slack.newest["replace_original"] is True
    assert len(audited(slack)) == 1


def test_who_died_amid_a_click_leaves_the_button_used(slack: Slack, story: Story) -> None:
    asked = slack.asked("export latest")
    slack.claims.settle(f"button-{read(asked).once}")
    told = slack.press("Export the run", asked)
    assert "This button was used already" in words(told)
    assert "is not known" in words(told)
    assert audited(slack) == []


def read(asked: dict[str, object]) -> Button:
    return Button.read(buttons_of(asked)[0]["value"])


@pytest.mark.parametrize("act", ["cancel", "export"])
def test_a_run_that_moved_on_is_left_alone(slack: Slack, story: Story, act: str) -> None:
    asked = slack.asked(f"{act} latest")
    story.cancel()
    story.rest()
    told = slack.press(buttons_of(asked)[0]["text"]["text"], asked)
    assert "Nothing was done" in words(told)
    assert "it is Cancelled now" in words(told)
    assert buttons_of(told) == []
    assert audited(slack) == []


def test_a_button_of_yesterday_does_nothing_and_says_so(slack: Slack, story: Story) -> None:
    asked = slack.asked("cancel latest")
    slack.world.clock.tick(86_401)
    told = slack.press(CANCEL, asked)
    assert "This button is too old" in words(told)
    assert "Type the command once more." in words(told)
    assert not story.run.terminal
    assert audited(slack) == []


def test_what_is_left_is_left(slack: Slack, story: Story) -> None:
    told = slack.press("Leave it", slack.asked("cancel latest"))
    assert "Left as it is" in words(told)
    assert buttons_of(told) == []
    assert not story.run.terminal


@pytest.mark.parametrize(
    "value",
    ["x", "[]", "{}", '{"act":"destroy","once":"1","at":1}', '{"act":"cancel","once":1,"at":1}'],
)
def test_a_value_that_is_none_of_ours_does_nothing(slack: Slack, story: Story, value: str) -> None:
    event = slack.click(CANCEL, slack.asked("cancel latest"))
    event["detail"]["value"] = value
    assert slack.deliver(event).result == "answered"
    assert "This button is not understood" in words(slack.newest)
    assert audited(slack) == []


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("cancel", "`cancel` takes the name of a run."),
        ("replace a b", "`replace NODE of CLUSTER`"),
        ("replace a of nowhere", "There is no such cluster"),
        ("rerun nothing", "is neither the id of a run"),
    ],
)
def test_what_is_not_understood_has_no_button(slack: Slack, text: str, words_of_it: str) -> None:
    assert words_of_it in slack.say(text)
    assert buttons_of(slack.newest) == []


def test_a_name_of_the_longest_kind_keeps_the_limits(slack: Slack, world: World) -> None:
    story = Story(world)
    story.submit(run_spec(name="a" * 63))
    asked = slack.asked(f"rerun {story.run_id}")  # the workspace's own check refuses what is long
    assert len(buttons_of(asked)[0]["value"]) < 500
    assert USER not in str(asked)
