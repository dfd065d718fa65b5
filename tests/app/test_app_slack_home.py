"""The app's home in Slack: my runs, what waits for my word, and what ended last."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory import World
from tests.support.slack import TEAM, USER, WHO
from tests.support.slack_chat import ALICE, MemoryViews, Slack, words
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.submit_run import submit_run
from trainyard.chat.home import MOST_APPROVALS, MOST_ENDED, MOST_RUNS
from trainyard.chat.web_api import Limited
from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.errors import RetryableError
from trainyard_contracts.people import named

NASTY = "<!channel> & <@U1> ``` <https://evil.example|click>\n<!here>" * 60
BOB = "U0BOB"
PEOPLE = {WHO: ALICE, f"{TEAM}/{BOB}": "arn:aws:iam::111122223333:user/bob"}


@pytest.fixture
def slack(world: World) -> Slack:
    made = Slack(world, views=MemoryViews())
    made.people = json.dumps(PEOPLE)
    return made


def homes(slack: Slack) -> dict[str, dict[str, Any]]:
    assert slack.views is not None
    return slack.views.homes


def submitted(world: World, name: str, *, by: str = ALICE) -> str:
    return submit_run(world.ports, run_spec(name=name), by=named(by)).id


def waiting(world: World, name: str, *, by: str = ALICE) -> str:
    """A run that waits for other people."""
    rules = ApprovalRules(above_usd=1.0)
    world.ports = replace(world.ports, config=replace(world.ports.config, approvals=rules))
    story = Story(world)
    story.run_id = submit_run(
        world.ports, run_spec(name=name, cluster={"name": "shared"}), by=named(by)
    ).id
    story.rest()
    assert story.run.status == "Waiting"
    return story.run_id


def test_my_runs_have_state_step_and_cost_and_others_runs_are_not_there(slack: Slack) -> None:
    story = Story(slack.world)
    story.run_id = submitted(slack.world, "mine")
    story.ready()
    story.training(step=7)
    story.pass_time(1800)
    story.beat(runs=[{"runId": story.run_id, "attempt": 1, "step": 7, "loss": 0.5}])
    theirs = submitted(slack.world, "theirs", by=PEOPLE[f"{TEAM}/{BOB}"])
    shown = slack.home()
    assert "*mine*  Running." in shown
    assert "Step 7" in shown
    usd = costs_of(slack.world.ports, story.run_id).cost.usd
    assert f"It has cost {usd:.2f} USD so far." in shown
    assert f"`/trainyard show {story.run_id}`" in shown
    assert theirs not in shown
    assert "Waits for you" not in shown


def test_what_ended_has_its_reason_and_what_it_cost(slack: Slack) -> None:
    assert "None of your runs goes on." in slack.home()
    story = Story(slack.world)
    story.run_id = submitted(slack.world, "mine")
    story.ready()
    story.training()
    story.cancel()
    story.rest()
    slack.claims.let_go()
    shown = slack.home()
    assert "Ended last" in shown
    assert f"*mine*  {story.run.status} <!date^" in shown
    assert "USD" in shown
    assert "None of your runs goes on." in shown


def test_what_waits_for_my_word_has_buttons_and_a_click_draws_the_home_anew(slack: Slack) -> None:
    make_cluster(Story(slack.world))
    run_id = waiting(slack.world, "dear")
    assert "Waits for you" not in slack.home(), "alice asked for it"
    shown = slack.home(user=BOB)
    assert "Waits for you" in shown
    assert "a run that may cost more than 1 USD needs 1 approval" in shown
    before = len(slack.replies.sent)
    assert slack.deliver(slack.click_home("Approve", user=BOB)).result == "answered"
    after = words(homes(slack)[BOB])
    assert "The approval of dear is approved, and the run goes on" in after
    assert "Waits for you" not in after
    assert len(slack.replies.sent) == before, "a home has no response_url"
    story = Story(slack.world)
    story.run_id = run_id
    story.rest()
    assert story.run.status != "Waiting"
    (entry,) = [one for one in slack.world.audit.entries.values() if one.what == "approval.approve"]
    assert (entry.outcome, entry.user_agent) == ("done", f"Slack {TEAM}/{BOB}")


def test_a_denial_in_the_home_asks_why_and_the_home_says_it(slack: Slack) -> None:
    make_cluster(Story(slack.world))
    run_id = waiting(slack.world, "dear")
    slack.home(user=BOB)
    assert slack.deliver(slack.click_home("Deny", user=BOB)).reason == "a form is open"
    assert slack.world.runs.get(run_id).status == "Waiting"
    assert slack.views is not None
    view = slack.views.opened[-1]
    slack.deliver(slack.sending(view, user=BOB, reason="too dear <!here>"))
    assert "Denied by bob (too dear &lt;!here&gt;)." in words(homes(slack)[BOB])


def test_a_button_of_a_home_that_another_decided_says_so(slack: Slack) -> None:
    make_cluster(Story(slack.world))
    waiting(slack.world, "dear")
    slack.people = json.dumps({**PEOPLE, f"{TEAM}/U0CAROL": "arn:aws:iam::111122223333:user/carol"})
    slack.home(user=BOB)
    slack.home(user="U0CAROL")
    slack.deliver(slack.click_home("Approve", user="U0CAROL"))
    slack.deliver(slack.click_home("Deny", user=BOB))
    assert "is approved" in words(homes(slack)[BOB])


def test_who_is_not_in_the_list_reads_nothing_and_whom_to_ask(slack: Slack) -> None:
    run = submitted(slack.world, "mine")
    shown = slack.home(user="U0NONE")
    assert "Trainyard does not know you yet" in shown
    assert "Ask an admin of the stack" in shown
    assert run not in shown
    slack.people = None
    slack.claims.let_go()
    assert "Trainyard does not know you yet" in slack.home()


def test_who_has_no_role_and_a_list_that_cannot_be_read_are_told(slack: Slack) -> None:
    slack.roles(admins=("arn:aws:iam::111122223333:user/bob",))
    assert "has no role" in slack.home()
    slack.claims.let_go()
    slack.people = "[1]"
    assert "The list of Slack's people cannot be read" in slack.home()


def test_a_home_that_is_opened_ten_times_in_a_second_is_drawn_once(slack: Slack) -> None:
    results = [slack.deliver(slack.home_event()).result for _ in range(10)]
    assert results == ["answered", *["repeated"] * 9]
    assert slack.views is not None
    assert slack.views.calls == ["views.publish"]
    assert slack.deliver(slack.home_event(user=BOB)).result == "answered"
    slack.claims.let_go()
    assert slack.deliver(slack.home_event()).result == "answered"


def test_an_event_that_comes_twice_or_an_hour_late_draws_nothing(slack: Slack) -> None:
    event = slack.home_event()
    assert slack.deliver(event).result == "answered"
    slack.claims.let_go()
    assert slack.deliver(event).result == "repeated"
    late = slack.home_event()
    slack.world.clock.tick(3600)
    assert slack.deliver(late).result == "dropped"
    assert slack.views is not None
    assert slack.views.calls == ["views.publish"]


def test_slack_in_trouble_is_tried_again_and_one_that_refuses_is_not(slack: Slack) -> None:
    assert slack.views is not None
    slack.views.troubles = [RetryableError("Slack answered 503")]
    event = slack.home_event()
    with pytest.raises(RetryableError):
        slack.deliver(event)
    assert slack.deliver(event).result == "answered"
    slack.claims.let_go()
    slack.views.troubles = [Limited(30)]
    assert slack.deliver(slack.home_event()).result == "dropped"
    slack.claims.let_go()
    slack.views.refuses = "not_enabled"
    assert slack.deliver(slack.home_event()).reason == "Slack refused: not_enabled"
    slack.views = None
    slack.claims.let_go()
    assert "no token" in slack.deliver(slack.home_event()).reason


def test_a_home_of_very_much_fits_and_foreign_text_in_it_is_only_text(slack: Slack) -> None:
    make_cluster(Story(slack.world))
    for at in range(MOST_RUNS + 3):
        run = slack.world.runs.get(submitted(slack.world, f"mine-{at}"))
        slack.world.runs.put(run.changed(reason=NASTY, status="Running"))
    for at in range(MOST_ENDED + 3):
        run = slack.world.runs.get(submitted(slack.world, f"ended-{at}"))
        now = slack.world.clock.now()
        slack.world.runs.put(run.changed(reason=NASTY, status="Failed", finished_at=now))
    bobs = PEOPLE[f"{TEAM}/{BOB}"]
    for at in range(MOST_APPROVALS + 3):
        waiting(slack.world, f"dear-{at}", by=bobs)
    shown = slack.home()  # the local Slack's own check refuses what is too long
    assert shown.count("`/trainyard show run-") == MOST_RUNS + MOST_ENDED
    assert "3 more: `/trainyard runs mine`." in shown
    assert "3 more: `/trainyard approvals`." in shown
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt; '''" in shown
    blocks = homes(slack)[USER]["blocks"]
    assert 50 < len(blocks) <= 100
