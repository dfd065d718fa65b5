"""A run is submitted from Slack out of an earlier one: its price first, and then by a click."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.memory import World
from tests.support.slack import TEAM, WHO
from tests.support.slack_chat import ALICE, MemoryViews, Slack, buttons_of, filled, words
from tests.support.story import Story

from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.records import Run
from trainyard_contracts.people import named

BOB = "arn:aws:iam::111122223333:user/bob"
SUBMIT = "Submit the run"


@pytest.fixture
def slack(world: World) -> Slack:
    made = Slack(world)
    made.people = json.dumps({WHO: ALICE, f"{TEAM}/U0BOB": BOB})
    return made


@pytest.fixture
def story(world: World) -> Story:
    made = Story(world)
    made.submit(budget={"maxUsd": 40})
    made.world.runs.put(made.run.changed(created_by=named(ALICE)))
    return made


def new_run(slack: Slack, story: Story) -> Run:
    (new,) = [run for run in slack.world.runs.stored.values() if run.id != story.run_id]
    return new


def test_words_change_a_run_and_a_click_submits_it_once(slack: Slack, story: Story) -> None:
    asked = slack.asked("submit latest name=second hours=2 arguments=\"--steps 5 --name 'a b'\"")
    said = words(asked)
    assert "Submit second?" in said
    assert f"Like *ddp-demo* of alice, `{story.run_id}`" in said
    assert "It costs *6.00 USD an hour*, and 12.00 USD if it uses all its time." in said
    assert "Changed: name: second; hours: 2; arguments: --steps 5 --name 'a b'" in said
    assert "Nothing is done yet." in said
    assert len(slack.world.runs.stored) == 1
    first = slack.press(SUBMIT, asked)
    assert words(first) == words(slack.press(SUBMIT, asked))
    new = new_run(slack, story)
    assert f"second is submitted: {new.id}" in words(first)
    assert (new.name, new.spec.limits.max_duration_seconds) == ("second", 7200)
    assert new.spec.job.arguments == ["--steps", "5", "--name", "a b"]
    assert new.created_by == named(ALICE)
    assert new.spec.job.nodes == story.run.spec.job.nodes
    assert [
        entry.what for entry in slack.world.audit.entries.values() if entry.who is not None
    ] == ["run.submit"]


def test_a_form_is_filled_in_as_the_run_was_and_sends_what_was_changed(
    slack: Slack, story: Story
) -> None:
    view = slack.form("submit")
    assert filled(view) == {
        "name": "ddp-demo", "nodes": "2", "arguments": "", "hours": "168", "budget": "40",
        "priority": "0",
    }  # fmt: skip
    assert slack.replies.sent == []
    told = slack.send(view, name="of-a-form", nodes="1", budget="20")
    assert "Changed: name: of-a-form; nodes: 1; budget: 20" in words(told)
    assert "and 20.00 USD at most, its budget." in words(told)
    slack.press(SUBMIT, told)
    new = new_run(slack, story)
    assert new.spec.budget is not None
    assert (new.name, new.spec.job.nodes, new.spec.budget.max_usd) == ("of-a-form", 1, 20)


def test_what_is_too_long_for_a_form_stays_as_it_was(slack: Slack, story: Story) -> None:
    job = story.run.spec.job.changed(arguments=["--text", "a b" * 1000])
    story.world.runs.put(story.run.changed(spec=story.run.spec.changed(job=job)))
    view = slack.form("submit")
    assert "arguments" not in filled(view)
    slack.press(SUBMIT, slack.send(view, name="long"))
    assert new_run(slack, story).spec.job.arguments == ["--text", "a b" * 1000]


def test_quotes_that_a_phone_curls_are_quotes(slack: Slack, story: Story) -> None:
    typed = slack.asked("submit latest arguments=“--text ‘a b’”")
    assert "Changed: arguments: --text 'a b'" in words(typed)
    sent = slack.send(slack.form("submit"), arguments="--text “a b”")
    slack.press(SUBMIT, sent)
    assert new_run(slack, story).spec.job.arguments == ["--text", "a b"]


def test_a_form_that_slack_opens_no_more_is_answered_by_the_page(
    slack: Slack, story: Story
) -> None:
    slack.views = MemoryViews(refuses="expired_trigger_id")
    asked = slack.asked("submit ddp-demo")
    assert "Nothing of it is changed. To change it: `submit RUN FIELD=VALUE`" in words(asked)
    slack.press(SUBMIT, asked)
    assert new_run(slack, story).spec == story.run.spec


def test_a_run_that_would_wait_for_people_says_so_before_and_after(
    slack: Slack, story: Story
) -> None:
    rules = ApprovalRules(5.0, 1, timedelta(hours=1), (BOB,))
    ports = slack.world.ports
    slack.world.ports = replace(ports, config=replace(ports.config, approvals=rules))
    asked = slack.asked("submit last name=dear")
    assert "It would wait for people: " in words(asked)
    told = slack.press(SUBMIT, asked)
    new = new_run(slack, story)
    assert f"dear is submitted, and waits for people: {new.id}" in words(told)
    assert new.status == "Waiting"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("submit latest nodes=two", "nodes: 'two' must be a whole number, such as 2"),
        ("submit latest nodes=9", "nodes: 9 nodes asked"),
        ("submit latest name=a_b", "name: must be letters, digits and inner hyphens"),
        ("submit latest budget=lots", "budget: 'lots' must be an amount in USD"),
        ("submit latest budget=-1", "budget: "),
        ("submit latest hours=inf", "hours: 'inf' must be a number of hours"),
        ("submit latest hours=0", "hours: "),
        ("submit latest colour=red", "colour: is no field; there are name, nodes"),
        ("submit latest nodes=1 nodes=2", "nodes: is given twice"),
        ("submit latest nodes=1 fast", "fast: write it as FIELD=VALUE"),
        ('submit latest arguments="--a', "quotes must come in pairs"),
        (f"submit latest arguments={'a' * 1900}", "too long for a button of Slack"),
        ("submit run-zz", "There is no such run"),
    ],
)
def test_what_is_wrong_is_said_with_the_field_and_what_would_be_right(
    slack: Slack, story: Story, text: str, expected: str
) -> None:
    assert expected in slack.say(text)
    assert buttons_of(slack.newest) == []
    assert len(slack.world.runs.stored) == 1


def test_a_form_says_the_same_mistakes(slack: Slack, story: Story) -> None:
    told = slack.send(slack.form("submit ddp-demo"), nodes="many")
    assert "nodes: 'many' must be a whole number, such as 2" in words(told)
    assert buttons_of(told) == []


def test_last_is_ones_own_and_who_has_none_reads_what_to_do(slack: Slack, story: Story) -> None:
    assert "None of the newest runs is yours." in slack.say("submit name=x", user="U0BOB")
    assert "Submit x?" in slack.say("submit name=x")


def test_who_may_not_submit_gets_neither_form_nor_button(slack: Slack, story: Story) -> None:
    slack.views = MemoryViews()
    slack.roles(viewers=(ALICE,))
    for text in ("submit", "submit ddp-demo", "submit ddp-demo name=x"):
        assert "You may not do that" in slack.say(text)
        assert buttons_of(slack.newest) == []
    assert slack.views.opened == []


def test_a_form_of_one_who_lost_the_right_submits_nothing(slack: Slack, story: Story) -> None:
    view = slack.form("submit ddp-demo")
    slack.roles(viewers=(ALICE,))
    assert "You may not do that" in words(slack.send(view, name="x"))
    assert len(slack.world.runs.stored) == 1
