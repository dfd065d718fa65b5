"""What a person reads in Slack of runs, clusters and costs, told by the API's own use cases."""

from __future__ import annotations

import pytest
from tests.support.memory import World
from tests.support.slack_chat import ALICE, Slack
from tests.support.story import Story, run_spec

from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.records import Incident, Problem, RunCost
from trainyard_contracts.people import Person, named

NASTY = "<!channel> & <@U1> ``` <https://evil.example|click>\n<!here>" * 60
BOB = named("arn:aws:iam::111122223333:user/bob")


@pytest.fixture
def slack(world: World) -> Slack:
    return Slack(world)


@pytest.fixture
def story(world: World) -> Story:
    return Story(world)


def submitted(world: World, name: str, by: Person) -> str:
    return submit_run(world.ports, run_spec(name=name), by=by).id


def test_runs_are_listed_newest_first_and_mine_are_mine_alone(slack: Slack) -> None:
    mine = submitted(slack.world, "first", named(ALICE))
    slack.world.clock.tick(60)
    theirs = submitted(slack.world, "second", BOB)
    everyone = slack.say("runs")
    assert everyone.index(theirs) < everyone.index(mine)
    assert "of bob" in everyone
    own = slack.say("runs mine")
    assert mine in own
    assert theirs not in own
    assert "You own no run." in Slack(World()).say("runs mine")


def test_runs_mine_finds_them_behind_many_of_others(slack: Slack) -> None:
    mine = [submitted(slack.world, f"mine-{at}", named(ALICE)) for at in range(2)]
    for at in range(20):
        submitted(slack.world, f"theirs-{at}", BOB)
    said = slack.say("runs mine")
    assert all(run in said for run in mine)
    assert "There are older ones" in slack.say("runs")


def test_a_run_is_shown_by_its_name_with_its_step_and_incident(slack: Slack, story: Story) -> None:
    story.submit()
    story.ready()
    story.training(step=7)
    said = slack.say("show ddp-demo")
    assert story.run_id in said
    assert "ddp-demo: Running" in said
    assert "Attempt 1." in said
    story.end("failed", exitCode=1, errorKind="unknown")
    story.rest()
    story.training(step=8)
    said = slack.say(f"show {story.run_id}")
    assert "Incident" in said
    assert "Attempt 2." in said


def test_what_a_job_says_is_only_text_and_fits(slack: Slack, story: Story) -> None:
    story.submit()
    run = story.run
    problem = Problem(code="user-error", title=NASTY, detail=NASTY, next_step=NASTY)
    incidents = [
        Incident(cause="x", attempt=1, fact_id=str(at), started_at=run.created_at, reason=NASTY)
        for at in range(9)
    ]
    cost = RunCost(at=run.created_at, reason=NASTY)
    changed = run.changed(reason=NASTY, problem=problem, incidents=incidents, cost=cost)
    story.world.runs.put(changed)
    said = slack.say("show latest")  # the workspace's own check refuses pings and what is too long
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt; '''" in said
    assert said.count("Incident") == 3
    assert "<!channel>" not in slack.say(f"show {NASTY.split(maxsplit=1)[0]}")


def test_a_cost_is_that_of_the_api(slack: Slack, story: Story) -> None:
    story.submit(run_spec(budget={"maxUsd": 100, "tailSeconds": 60}))
    story.ready()
    story.training()
    story.pass_time(1800)
    usd = costs_of(story.world.ports, story.run_id).cost.usd
    said = slack.say("cost latest")
    assert f"*{usd:.2f} USD*" in said
    assert "Of its budget of 100.00 USD" in said
    assert "until the cluster was ready" in said


def test_clusters_and_their_nodes(slack: Slack, story: Story) -> None:
    assert "There is no cluster." in slack.say("clusters")
    story.submit()
    story.ready()
    name = story.cluster.name
    said = slack.say("clusters")
    assert f"*{name}*" in said
    assert "hyperpod, 4 nodes" in said
    said = slack.say(f"nodes {name}")
    assert f"Nodes of {name}" in said
    assert "4 of 4 nodes run without a known trouble." in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("show no-such-run", "is neither the id of a run"),
        ("cost run-zz", "There is no such run"),
        ("show latest", "There is no run yet"),
        ("nodes nowhere", "There is no such cluster"),
        ("show", "`show` takes the name of a run."),
        ("nodes a b", "`nodes` takes the name of a cluster."),
        ("clusters all", "`clusters` takes nothing."),
        ("runs yours", "`runs` takes nothing, or `mine`."),
        ("destroy <!channel>", "There is no command 'destroy'."),
        ("&lt;b&gt;", "There is no command '&lt;b&gt;'."),
        ("", "/trainyard runs [mine]"),
        ("HELP", "/trainyard nodes CLUSTER"),
    ],
)
def test_what_cannot_be_answered_says_what_would_be_right(
    slack: Slack, text: str, words: str
) -> None:
    assert words in slack.say(text)


def test_nothing_that_is_asked_changes_anything(slack: Slack, story: Story) -> None:
    story.submit()
    story.ready()
    before = (story.run, story.cluster, len(slack.world.audit.entries))
    for text in ("runs", "runs mine", "show latest", "cost latest", "clusters", "help"):
        slack.say(text)
    assert (story.run, story.cluster, len(slack.world.audit.entries)) == before
