"""Budgets that runs share: counted, warned of, kept in time, and kept by those that come later."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.memory import Died, MemoryPrices
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.runs import team_budgets as use_cases
from trainyard.app.runs.advance_array import member_run
from trainyard.app.runs.cluster_costs import cost_of_cluster
from trainyard.app.runs.fire_schedule import fire_schedule
from trainyard.app.runs.label_run import label_run
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.schedules import create_schedule
from trainyard.app.runs.submit_array import submit_array
from trainyard.app.runs.team_budgets import remove_budget, set_budget, shown_budget
from trainyard.app.sweep.sweep import sweep
from trainyard.app.sweep.team_budgets import team_budget_step
from trainyard.app.sweep.watched_budgets import watched_budgets
from trainyard.domain import schedules, team_budgets
from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import (
    BudgetNotFound,
    BudgetUsedUp,
    ClusterInUse,
    ConflictError,
    InvalidRequest,
    WrongState,
)
from trainyard.domain.records import Run
from trainyard.domain.team_budget_records import TeamAccount, TeamBudget
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.schedules import ScheduleSpec
from trainyard_contracts.team_budgets import TeamBudgetSpec

TEAM = {"team": "vision"}


class NoPrices(MemoryPrices):
    """A price list that cannot be reached."""

    def hourly_usd(self, spec: ClusterSpec, product_of: object) -> float | None:
        return None


def budget(story: Story, usd: float, **fields: Any) -> TeamBudget:
    asked = {"label": "team=vision", "maxUsd": usd, "tailSeconds": 60, **fields}
    spec = TeamBudgetSpec.model_validate({k: v for k, v in asked.items() if v is not None})
    return set_budget(story.world.ports, "vision", spec)


def account(story: Story) -> TeamAccount:
    found = shown_budget(story.world.ports, "vision").account
    assert found is not None
    return found


def trains(story: Story, **extra: Any) -> str:
    """Another run of the team, on a cluster of its own; 6 USD an hour."""
    story.run_id = story.submit(run_spec(labels=TEAM, **extra)).id
    story.ready()
    story.training()
    story.checkpoint(10)
    return story.run_id


def minutes(story: Story, count: int) -> None:
    for _ in range(count):
        story.pass_time(60)
        story.sweep()


def run(story: Story, run_id: str) -> Run:
    return story.world.runs.get(run_id)


def usd(story: Story, *run_ids: str) -> float:
    return sum(costs_of(story.world.ports, one).cost.usd or 0.0 for one in run_ids)


def heard(story: Story, type_: str) -> list[str]:
    return [event.message for event in story.world.notices.events if event.type == type_]


def ended(story: Story, run_id: str) -> tuple[str, str]:
    found = run(story, run_id)
    return found.status, found.problem.code if found.problem else ""


def test_two_runs_of_a_team_are_warned_of_and_stopped_in_time_with_all_saved() -> None:
    story = Story()
    budget(story, 4.0, warnAt=[0.5])
    first = trains(story)
    second = trains(story)
    minutes(story, 40)
    for run_id in (first, second):
        assert ended(story, run_id) == ("Failed", "budget-exhausted")
        found = run(story, run_id)
        assert found.problem is not None
        assert "'vision' of 4 USD for team=vision" in found.problem.detail
        assert found.export is not None
        assert found.export.state == "verified"
        assert found.cluster_deleted
    spent = usd(story, first, second)
    assert 3.2 < spent <= 4.0 * 1.01
    minutes(story, 2)
    assert account(story).spent_usd == pytest.approx(spent, rel=1e-3)
    assert len(heard(story, "budget.warned")) == 1
    assert len(heard(story, "budget.exhausted")) == 1
    assert len(heard(story, "run.budget")) == 2
    (event,) = [one for one in story.world.notices.events if one.type == "budget.exhausted"]
    assert event.budget is not None
    assert (event.budget.name, event.budget.label) == ("vision", "team=vision")


def test_runs_of_others_do_not_count_and_go_on() -> None:
    story = Story()
    budget(story, 2.0)
    mine = trains(story)
    story.run_id = story.submit(run_spec(labels={"team": "speech"})).id
    story.ready()
    story.training()
    others = story.run_id
    minutes(story, 30)
    assert ended(story, mine)[0] == "Failed"
    assert run(story, others).status == "Running"


def used_up(story: Story) -> str:
    budget(story, 2.0)
    found = trains(story)
    minutes(story, 25)
    assert ended(story, found) == ("Failed", "budget-exhausted")
    return found


def test_nothing_begins_under_a_budget_that_is_used_up_until_it_is_raised() -> None:
    story = Story()
    stopped = used_up(story)
    with pytest.raises(BudgetUsedUp, match="'vision' of 2 USD for team=vision is used up until"):
        story.submit(run_spec(labels=TEAM))
    with pytest.raises(BudgetUsedUp) as refused:
        resume_run(story.world.ports, stopped)
    assert "trainyard budget set vision" in refused.value.next_step
    assert story.submit(run_spec()).status == "Pending", "one without the label does not count"
    budget(story, 4.0)
    resume_run(story.world.ports, stopped)
    story.run_id = stopped
    story.ready()
    story.training()
    minutes(story, 3)
    assert run(story, stopped).status == "Running"
    minutes(story, 30)
    assert ended(story, stopped) == ("Failed", "budget-exhausted")
    assert usd(story, stopped) <= 4.0 * 1.01
    assert len(heard(story, "budget.exhausted")) == 2


def test_the_next_month_begins_at_nothing() -> None:
    story = Story()
    story.world.clock.time = datetime(2026, 11, 30, 23, 0, tzinfo=timezone.utc)
    stopped = used_up(story)
    with pytest.raises(BudgetUsedUp, match="until 2026-12-01 00:00 UTC"):
        resume_run(story.world.ports, stopped)
    minutes(story, 40)
    resume_run(story.world.ports, stopped)
    story.run_id = stopped
    story.ready()
    story.training()
    minutes(story, 5)
    assert run(story, stopped).status == "Running"
    assert account(story).period == "2026-12"
    assert 0 < account(story).spent_usd < 1.0


def test_of_a_run_over_the_turn_of_a_month_each_month_counts_its_own() -> None:
    story = Story()
    story.world.clock.time = datetime(2026, 11, 30, 23, 50, tzinfo=timezone.utc)
    budget(story, 100.0)
    found = trains(story)
    minutes(story, 9)
    before = account(story).spent_usd
    minutes(story, 21)
    whole = usd(story, found)
    assert account(story).period == "2026-12"
    assert account(story).spent_usd == pytest.approx(6.0 * 20 / 60, rel=0.1)
    story.end()
    minutes(story, 3)
    assert run(story, found).status == "Succeeded"
    assert account(story).spent_usd < usd(story, found) - before / 2
    assert whole > account(story).spent_usd


def test_what_was_over_before_the_budget_was_set_counts_in_its_period() -> None:
    story = Story()
    found = trains(story)
    minutes(story, 10)
    story.end()
    minutes(story, 2)
    budget(story, 100.0)
    minutes(story, 1)
    assert account(story).spent_usd == pytest.approx(usd(story, found), rel=1e-3)


def test_a_total_has_no_end() -> None:
    story = Story()
    budget(story, 2.0, per="total")
    stopped = trains(story)
    minutes(story, 25)
    story.pass_time(40 * 86400)
    with pytest.raises(BudgetUsedUp, match="for good"):
        resume_run(story.world.ports, stopped)


def test_a_run_counts_for_what_it_spent_until_its_label_was_taken_away() -> None:
    story = Story()
    budget(story, 3.0)
    found = trains(story)
    minutes(story, 10)
    before = account(story).spent_usd
    label_run(story.world.ports, found, {"team": None}, version=None)
    minutes(story, 60)
    assert run(story, found).status == "Running"
    assert account(story).spent_usd == pytest.approx(before)
    label_run(story.world.ports, found, TEAM, version=None)
    minutes(story, 5)
    assert ended(story, found) == ("Failed", "budget-exhausted"), "all that it spent counts"


def test_a_run_without_a_price_is_refused_and_one_that_goes_on_keeps_a_budget_from_being_set() -> (
    None
):
    story = Story()
    story.world.ports = replace(story.world.ports, prices=NoPrices())
    story.submit(run_spec(labels=TEAM))
    with pytest.raises(InvalidRequest, match=r"label: no price is known for run"):
        budget(story, 2.0)
    story.cancel()
    story.rest()
    budget(story, 2.0)
    with pytest.raises(InvalidRequest, match=r"cluster.spec: no price is known.*'vision'"):
        story.submit(run_spec(labels=TEAM))
    given = cluster_spec(workers=2, spares=1, hourlyUsd=6.0)
    assert story.submit(run_spec(labels=TEAM, cluster={"spec": given}))


def test_people_hear_once_of_a_run_that_counts_and_has_no_price() -> None:
    story = Story()
    budget(story, 2.0)
    priced = story.world.ports
    story.world.ports = replace(priced, prices=NoPrices())
    story.submit(run_spec())
    story.ready()
    story.training()
    label_run(story.world.ports, story.run_id, TEAM, version=None)
    minutes(story, 5)
    assert account(story).unpriced == 1
    (words,) = heard(story, "budget.warned")
    assert "no known price" in words


def test_a_run_that_would_end_all_others_at_once_is_refused() -> None:
    story = Story()
    budget(story, 2.0)
    trains(story)
    minutes(story, 15)
    with pytest.raises(BudgetUsedUp, match="left beside what goes on, and the run needs"):
        story.submit(run_spec(labels=TEAM, cluster={"spec": cluster_spec(workers=40)}, nodes=40))


def test_a_raised_limit_is_taken_before_anything_is_stopped() -> None:
    story = Story()
    budget(story, 2.0)
    found = trains(story)
    minutes(story, 15)
    budget(story, 20.0)
    minutes(story, 30)
    assert run(story, found).status == "Running"


def test_of_two_sweeps_at_once_one_judges() -> None:
    story = Story()
    budget(story, 2.0)
    trains(story)
    minutes(story, 10)
    (mine,), (theirs,) = watched_budgets(story.world.ports), watched_budgets(story.world.ports)
    list(team_budget_step(story.world.ports, mine))
    with pytest.raises(ConflictError):
        list(team_budget_step(story.world.ports, theirs))


@pytest.mark.parametrize("after", [False, True])
def test_a_sweep_that_dies_anywhere_stops_each_run_once_with_the_next(after: bool) -> None:
    deaths, call = 0, 1
    while True:
        story = Story()
        budget(story, 2.0)
        found = trains(story)
        story.pass_time(19 * 60)
        story.world.fuse.arm(call, after=after)
        try:
            sweep(story.world.ports)
            died = False
        except Died:
            died = True
        story.world.fuse.arm(None)
        minutes(story, 3)
        assert ended(story, found) == ("Failed", "budget-exhausted")
        said = Counter(one.type for one in story.world.runs.timeline(
            found, limit=1000, token=None).items)  # fmt: skip
        assert (said["TeamBudgetSpent"], said["BudgetExhausted"]) == (1, 1)
        ids = {one.id for one in story.world.notices.events if one.type == "budget.exhausted"}
        assert len(ids) == 1
        if not died:
            break
        deaths, call = deaths + 1, call + 7
    assert deaths > 5


def test_a_removed_budget_counts_and_stops_nothing_and_may_be_set_anew() -> None:
    story = Story()
    stopped = used_up(story)
    remove_budget(story.world.ports, "vision")
    with pytest.raises(BudgetNotFound):
        shown_budget(story.world.ports, "vision")
    assert remove_budget(story.world.ports, "vision").status == "Deleted"
    resume_run(story.world.ports, stopped)
    again = budget(story, 50.0)
    assert (again.revision, again.account) == (2, None)
    minutes(story, 1)
    assert account(story).spent_usd > 1.5, "what the month cost so far counts"


def test_the_same_budget_again_changes_nothing() -> None:
    story = Story()
    first = budget(story, 2.0)
    assert budget(story, 2.0) == first
    minutes(story, 1)
    raised = budget(story, 3.0)
    assert raised.account is not None, "what was counted is kept"
    assert budget(story, 3.0, per="total").account is None


def test_a_time_of_a_schedule_is_refused_with_the_reason() -> None:
    story = Story()
    night = ScheduleSpec(name="nightly", cron="0 2 * * *", run=run_spec(labels=TEAM))
    made = create_schedule(story.world.ports, night)
    used_up(story)
    due = schedules.due_after(made, story.world.clock.now())
    assert due is not None
    story.world.clock.time = due
    firing = fire_schedule(story.world.ports, "nightly", made.generation, due, late=False)
    assert firing.outcome == "refused"
    assert "'vision'" in firing.reason


def array_of_two(story: Story) -> RunArray:
    make_cluster(story)
    spec = run_spec(nodes=1, cluster={"name": "shared"}, labels=TEAM)
    spec = spec.changed(job=spec.job.changed(arguments=["--lr={lr}"]))
    matrix: dict[str, list[Any]] = {"lr": [1, 2]}
    array = submit_array(story.world.ports, ArraySpec(run=spec, matrix=matrix, max_parallel=1))
    story.rest()
    return array


def test_members_of_an_array_wait_and_begin_once_there_is_money() -> None:
    story = Story()
    budget(story, 1.0)
    array = array_of_two(story)
    story.run_id = member_run(array, 0)
    story.training()
    story.checkpoint(10)
    minutes(story, 45)
    assert ended(story, story.run_id) == ("Failed", "budget-exhausted")
    waits = story.world.arrays.stored[array.id]
    assert waits.reason.startswith("Waiting: The budget 'vision'")
    assert (waits.status, len(story.world.runs.stored)) == ("Running", 1)
    budget(story, 10.0)
    minutes(story, 2)
    assert not run(story, member_run(array, 1)).terminal
    assert not story.world.arrays.stored[array.id].reason.startswith("Waiting")


def test_what_runs_have_is_bounded_in_the_record() -> None:
    from trainyard.domain.team_budget_records import Counted

    runs = {f"run-{n:05}": Counted(usd=1.0, going=n % 100 == 0) for n in range(3000)}
    kept, settled = team_budgets.closed(runs)
    assert settled + sum(one.usd for one in kept.values()) == 3000
    assert sum(not one.going for one in kept.values()) == team_budgets.MOST_NAMED


def of_cluster(story: Story, usd_: float, **fields: Any) -> TeamBudget:
    return budget(story, usd_, label=None, cluster="shared", **fields)


def whole(story: Story) -> float:
    found = cost_of_cluster(story.world.ports, story.world.clusters.get("shared")).usd
    assert found is not None
    return found


def test_a_cluster_counts_with_its_idle_time_and_goes_before_it_costs_more() -> None:
    story = Story()
    make_cluster(story, idleLimitSeconds=86400)
    of_cluster(story, 2.0)
    minutes(story, 10)
    assert account(story).spent_usd == pytest.approx(whole(story), rel=1e-3)
    assert account(story).hourly_usd == 6.0
    minutes(story, 30)
    assert story.world.clusters.get("shared").status == "Deleted"
    assert 1.7 < whole(story) <= 2.0 * 1.01
    assert len(heard(story, "budget.exhausted")) == 1
    with pytest.raises((BudgetUsedUp, ClusterInUse)):
        story.submit(run_spec(cluster={"name": "shared"}))
    make_cluster(story)
    with pytest.raises(BudgetUsedUp, match="for cluster 'shared' is used up"):
        story.submit(run_spec(cluster={"name": "shared"}))


def test_runs_on_a_cluster_whose_budget_is_used_up_are_saved_before_it_goes() -> None:
    story = Story()
    make_cluster(story)
    of_cluster(story, 2.0)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    story.training()
    story.checkpoint(10)
    minutes(story, 40)
    assert ended(story, story.run_id) == ("Failed", "budget-exhausted")
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert story.world.clusters.get("shared").status == "Deleted"
    assert whole(story) <= 2.0 * 1.01


def test_a_person_s_job_keeps_a_cluster_whose_budget_is_used_up() -> None:
    story = Story()
    make_cluster(story)
    of_cluster(story, 2.0)
    for _ in range(40):
        story.world.clock.tick(60)
        story.beat("shared", otherJobs={"running": 1, "queued": 0, "users": ["alice"]})
        story.sweep()
    assert story.world.clusters.get("shared").status == "Ready"
    assert team_budgets.used_up(shown_budget(story.world.ports, "vision"), story.world.clock.now())


def test_a_cluster_that_is_deleted_leaves_its_budget_with_what_it_cost() -> None:
    story = Story()
    make_cluster(story)
    of_cluster(story, 50.0)
    minutes(story, 5)
    delete_cluster(story.world.ports, "shared")
    minutes(story, 5)
    before = account(story).spent_usd
    minutes(story, 5)
    assert account(story).spent_usd == before == pytest.approx(whole(story), rel=1e-3)
    assert account(story).hourly_usd == 0


def test_a_budget_of_a_cluster_is_refused_where_it_could_not_be_kept() -> None:
    story = Story()
    with pytest.raises(InvalidRequest, match="cluster: no cluster is named 'shared'"):
        of_cluster(story, 2.0)
    make_cluster(story)
    with pytest.raises(InvalidRequest, match=r"maxUsd: 0.1 USD are too little.* give 0.2 or more"):
        of_cluster(story, 0.1)
    story.world.ports = replace(story.world.ports, prices=NoPrices())
    with pytest.raises(InvalidRequest, match="cluster: no price is known"):
        of_cluster(story, 2.0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"label": "team=vision", "cluster": "shared"}, "needs one of label"),
        ({}, "needs one of label"),
        ({"label": "team"}, "'team' must be KEY=VALUE"),
        ({"label": "=x"}, "must have 1 to 63 letters"),
    ],
)
def test_a_budget_is_for_one_label_s_value_or_one_cluster(
    fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        TeamBudgetSpec.model_validate({"maxUsd": 1.0, **fields})


def test_there_are_not_more_budgets_than_the_sweep_looks_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(use_cases, "MOST_BUDGETS", 1)
    story = Story()
    budget(story, 2.0)
    assert budget(story, 3.0).revision == 2, "one that is there may be changed"
    spec = TeamBudgetSpec(label="team=speech", max_usd=2.0)
    with pytest.raises(WrongState, match="There are 1 budgets already"):
        set_budget(story.world.ports, "speech", spec)
    remove_budget(story.world.ports, "vision")
    assert set_budget(story.world.ports, "speech", spec).status == "Active"
