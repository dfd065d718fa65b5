"""Runs that wait for people: stories on the real state machine definitions, with a store that may
be changed by two at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.people.ownership import given_to
from trainyard.app.runs.approvals import decide_approval
from trainyard.app.runs.dry_run import dry_run_run
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.submit_run import submit_run, submit_scheduled
from trainyard.domain.approval_records import Approval, Vote
from trainyard.domain.approvals import ApprovalRules, approved
from trainyard.domain.errors import Forbidden, WrongState
from trainyard.domain.people import RolesOfPeople
from trainyard.domain.records import Run
from trainyard_contracts.people import Person, named

ACCOUNT = "arn:aws:iam::123456789012"
ALICE, BOB, CAROL = (named(f"{ACCOUNT}:user/{name}") for name in ("alice", "bob", "carol"))
LEAD = f"{ACCOUNT}:user/lead"
#: 2 nodes and a spare of 1.5 USD an hour, for as long as the run may last, are far above it.
RULES = ApprovalRules(above_usd=100.0, approvers=(f"{ACCOUNT}:user/*",))


def team(rules: ApprovalRules = RULES, admins: tuple[str, ...] = (LEAD,)) -> Story:
    story = Story()
    ruled(story, rules, admins)
    make_cluster(story)
    return story


def ruled(story: Story, rules: ApprovalRules, admins: tuple[str, ...] = (LEAD,)) -> None:
    ports = story.world.ports
    config = replace(ports.config, approvals=rules, roles=RolesOfPeople(admins, ("*",), ("*",)))
    story.world.ports = replace(ports, config=config)


def asked(story: Story, *, by: Person = ALICE, key: str | None = None, **extra: Any) -> Run:
    spec = run_spec(**{"cluster": {"name": "shared"}, **extra})
    run = submit_run(story.world.ports, spec, idempotency_key=key, by=by)
    story.run_id = story.run_id or run.id
    story.rest()
    found: Run = story.world.runs.stored[run.id]
    return found


def approval(story: Story) -> Approval:
    newest = list(story.world.approvals.stored.values())[-1]
    found: Approval = story.world.approvals.get(newest.id)
    return found


def says(story: Story, by: Person, *, approve: bool = True, reason: str = "") -> Approval:
    done = decide_approval(
        story.world.ports, approval(story).id, by=by, approve=approve, reason=reason
    )
    story.rest()
    return done


def test_without_rules_no_run_waits() -> None:
    story = team(ApprovalRules())
    assert asked(story).status == "Submitting"
    assert story.world.approvals.stored == {}


def test_a_run_that_may_cost_more_waits_and_begins_by_itself_once_it_is_approved() -> None:
    story = team()
    waiting = asked(story)
    assert waiting.status == "Waiting"
    given = approval(story)
    assert f"It waits for approval {given.id}. It may cost up to " in waiting.reason
    assert "more than 100 USD needs 1 approval." in waiting.reason
    assert (given.state, given.subject) == ("pending", f"run/{waiting.id}")
    assert story.agent.jobs == {}
    says(story, BOB, reason="the weekend is free")
    assert story.run.status == "Submitting"
    assert approval(story).state == "used"
    assert "Approved by bob (the weekend is free)." in story.said
    assert (story.run_id, 1) in story.agent.jobs


def test_a_waiting_run_takes_nobodys_turn_and_none_of_its_own_time() -> None:
    story = team()
    asked(story, limits={"maxDurationSeconds": 7 * 86400})
    ruled(story, ApprovalRules())
    other = asked(story)
    assert other.status == "Submitting"
    story.pass_time(3600)
    ruled(story, RULES)
    decided = story.world.clock.now()
    says(story, BOB)
    assert story.run.opened_at == decided


def test_a_run_with_its_own_cluster_makes_none_before_it_is_approved() -> None:
    story = team()
    run = submit_run(story.world.ports, run_spec(), by=ALICE)
    story.rest()
    assert run.cluster_name not in story.world.clusters.stored
    says(story, BOB)
    assert run.cluster_name in story.world.clusters.stored


def test_a_cheap_run_a_small_budget_and_an_unknown_price(monkeypatch: pytest.MonkeyPatch) -> None:
    story = team()
    assert asked(story, limits={"maxDurationSeconds": 3600}).approval is None
    assert asked(story, budget={"maxUsd": 99}).approval is None
    prices = story.world.ports.prices
    monkeypatch.setattr(prices, "hourly_usd", lambda *_: None)
    unpriced = asked(story, limits={"maxDurationSeconds": 3600})
    assert unpriced.approval is not None
    assert unpriced.approval.because.startswith("Its price is not known, and ")


def own(**extra: Any) -> dict[str, Any]:
    """A cluster of the run's own: three nodes of 1.5 USD an hour by the list."""
    return {"spec": cluster_spec(workers=2, spares=1, **extra)}


@pytest.mark.parametrize("extra", [{}, {"budget": {"maxUsd": 1, "tailSeconds": 60}}])
def test_what_the_requester_says_of_the_price_makes_a_run_no_cheaper(extra: dict[str, Any]) -> None:
    waits = asked(team(), cluster=own(hourlyUsd=0.001), **extra)
    listed = asked(team(), cluster=own())
    assert waits.approval is not None
    assert listed.approval is not None
    assert waits.approval.usd == listed.approval.usd


def test_what_the_requester_says_of_the_price_may_make_a_run_dearer() -> None:
    dear = asked(team(), cluster=own(hourlyUsd=500), limits={"maxDurationSeconds": 3600})
    assert dear.approval is not None
    assert dear.approval.usd == 500


def test_where_the_list_knows_no_price_the_word_of_the_requester_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = team()
    monkeypatch.setattr(story.world.ports.prices, "hourly_usd", lambda *_: None)
    waits = asked(story, cluster=own(hourlyUsd=0.001))
    assert waits.approval is not None
    assert waits.approval.usd is None
    assert waits.approval.because.startswith(
        "Its price is only what hourlyUsd of its cluster's spec says, and "
    )


def test_an_approver_s_word_for_the_price_of_their_cluster_counts_for_others() -> None:
    story = team()
    make_cluster(story, "leased", hourlyUsd=0.003)
    leased = story.world.clusters.stored["leased"]
    for owner, requester, waits in (
        (BOB, ALICE, False), (ALICE, ALICE, True), (None, ALICE, True),
        (named(f"{ACCOUNT}:role/guest"), ALICE, True),
    ):  # fmt: skip
        story.world.clusters.stored["leased"] = leased.changed(created_by=owner)
        run = asked(story, cluster={"name": "leased"}, by=requester)
        assert (run.approval is not None) is waits, owner
        plan = dry_run_run(story.world.ports, run_spec(cluster={"name": "leased"}), by=requester)
        assert any("wait for people" in one for one in plan.warnings) is waits, owner


def test_what_somebody_expects_of_a_run_makes_it_no_cheaper() -> None:
    assert asked(team(), limits={"expectedSeconds": 60}).approval is not None


def test_a_dry_run_says_that_it_would_wait() -> None:
    story = team()
    plan = dry_run_run(story.world.ports, run_spec(cluster={"name": "shared"}))
    assert plan.warnings[0].startswith("It would wait for people: It may cost up to ")
    assert story.world.approvals.stored == {}


def test_the_same_request_again_is_the_same_run_with_one_approval() -> None:
    story = team()
    first = asked(story, key="k")
    assert asked(story, key="k").id == first.id
    assert len(story.world.approvals.stored) == 1


ROLE = "arn:aws:sts::123456789012:assumed-role/Research"
UNNAMED = named(f"{ROLE}/botocore-session-1700000000")
NAMED = named(f"{ROLE}/alice")


@pytest.mark.parametrize(
    ("requester", "approver"),
    [
        (ALICE, ALICE.changed(id="")),  # named by a list of Slack's people: without an id
        (ALICE.changed(id="AIDAALICE"), ALICE),
        (UNNAMED, NAMED),
        (NAMED, UNNAMED),
        (UNNAMED, named(f"{ROLE}/botocore-session-1700009999")),
    ],
)
def test_the_requester_never_decides_by_whatever_channel_or_session_name(
    requester: Person, approver: Person
) -> None:
    story = team(replace(RULES, approvers=("*",)))
    asked(story, by=requester)
    for approve in (True, False):
        with pytest.raises(Forbidden, match="asked for this"):
            says(story, approver, approve=approve)
    assert story.run.status == "Waiting"


def test_a_run_that_is_given_away_at_once_is_still_its_requester_s() -> None:
    """Before its machine has asked for the approval."""
    story = team()
    run = submit_run(story.world.ports, run_spec(cluster={"name": "shared"}), by=ALICE)
    given_to(story.world.ports, run, CAROL, by=ALICE)
    story.run_id = run.id
    story.rest()
    assert story.run.created_by == CAROL
    with pytest.raises(Forbidden, match=r"alice .* asked for this"):
        says(story, ALICE)
    assert says(story, CAROL).state == "approved"


def test_who_may_decide_is_who_the_rules_name_and_without_them_an_admin() -> None:
    story = team(replace(RULES, approvers=()))
    asked(story)
    with pytest.raises(Forbidden, match="may not decide on approvals"):
        says(story, BOB)
    assert says(story, named(LEAD)).state == "approved"


def test_a_viewer_decides_nothing_though_the_rules_name_them() -> None:
    story = team()
    asked(story)
    config = replace(story.world.ports.config, roles=RolesOfPeople((LEAD,), (), ("*",)))
    story.world.ports = replace(story.world.ports, config=config)
    with pytest.raises(Forbidden, match="may not decide"):
        says(story, BOB)


def test_two_people_are_two_people() -> None:
    story = team(replace(RULES, needed=2))
    asked(story)
    says(story, BOB)
    assert says(story, BOB).approvers == approval(story).approvers  # once more is once
    assert (story.run.status, approval(story).state) == ("Waiting", "pending")
    says(story, CAROL)
    assert story.run.status == "Submitting"
    assert "Approved by bob, carol." in story.said


def test_an_approver_who_lost_the_right_does_not_count_any_more() -> None:
    story = team(replace(RULES, needed=2))
    asked(story)
    says(story, BOB)
    kept = (CAROL.arn, LEAD)
    ruled(story, replace(RULES, needed=2, approvers=kept))
    assert [one.by.name for one in says(story, CAROL).approvers] == ["carol"]
    assert story.run.status == "Waiting"
    says(story, named(LEAD))
    assert story.run.status == "Submitting"


def at_once(story: Story, other: Callable[[], object]) -> None:
    """Somebody else's word is written between the reading and the writing of the next one."""
    store = story.world.approvals
    real: Callable[[Approval], Approval] = store.put
    done: list[bool] = []

    def put(changed: Approval) -> Approval:
        if not done:
            done.append(True)
            other()
        return real(changed)

    store.put = put


def test_of_two_at_the_same_instant_one_decides() -> None:
    story = team()
    asked(story)
    at_once(story, lambda: says(story, BOB))
    with pytest.raises(WrongState, match="is used by bob since"):
        says(story, CAROL, approve=False)
    assert [one.by.name for one in approval(story).approvers] == ["bob"]
    assert approval(story).denied is None
    assert story.run.status == "Submitting"


def test_of_two_that_are_needed_and_come_at_the_same_instant_both_count() -> None:
    story = team(replace(RULES, needed=2))
    asked(story)
    at_once(story, lambda: says(story, BOB))
    says(story, CAROL)
    assert sorted(one.by.name for one in approval(story).approvers) == ["bob", "carol"]
    assert story.run.status == "Submitting"


def test_a_denied_run_ends_with_who_and_why_and_asks_again_when_it_is_resumed() -> None:
    story = team()
    asked(story)
    first = says(story, BOB, approve=False, reason="too large")
    ended = story.run
    assert ended.status == "Failed"
    assert ended.problem is not None
    assert ended.problem.code == "approval-denied"
    assert ended.reason == f"bob denied approval {first.id}. Reason: too large"
    with pytest.raises(WrongState, match="is denied by bob since"):
        says(story, CAROL)
    resume_run(story.world.ports, story.run_id, by=ALICE)
    resume_run(story.world.ports, story.run_id, by=ALICE)  # after a lost answer
    story.rest()
    second = approval(story)
    assert (second.id, second.action) == (f"{first.id[:-1]}2", "run.resume")
    assert story.run.status == "Waiting"
    says(story, BOB)
    assert story.run.status == "Submitting"


def test_who_resumes_a_run_of_another_asked_for_it() -> None:
    story = team()
    asked(story)
    says(story, BOB, approve=False)
    resume_run(story.world.ports, story.run_id, by=CAROL)
    story.rest()
    with pytest.raises(Forbidden, match=r"carol .* asked for this"):
        says(story, CAROL)


def test_an_approval_expires_by_its_time_and_the_run_says_so() -> None:
    story = team(replace(RULES, needed=2, expires_after=timedelta(hours=2)))
    asked(story)
    says(story, BOB)
    story.world.clock.tick(7200)
    with pytest.raises(WrongState, match="is expired since"):  # nobody has written that down yet
        says(story, CAROL)
    story.pass_time(1)
    ended = story.run
    assert ended.status == "Failed"
    assert ended.problem is not None
    assert ended.problem.code == "approval-expired"
    assert "expired with 1 approval of 2" in ended.reason
    assert approval(story).state == "expired"


def test_last_months_button_decides_nothing() -> None:
    story = team()
    asked(story)
    says(story, BOB)
    story.pass_time(30 * 86400)
    before = approval(story)
    assert says(story, BOB) == before  # their own click again is no mistake
    for approve in (True, False):
        with pytest.raises(WrongState, match="is used by bob since"):
            says(story, CAROL, approve=approve)
    assert approval(story) == before


def test_a_cancelled_run_needs_nobody_any_more() -> None:
    story = team()
    asked(story)
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    assert approval(story).state == "withdrawn"
    with pytest.raises(WrongState, match="is withdrawn since"):
        says(story, BOB)


def test_an_approval_of_something_else_begins_nothing() -> None:
    story = team()
    run = asked(story)
    assert run.approval is not None
    changed = run.approval.changed(argument_hash="another")
    story.world.runs.put(run.changed(approval=changed))
    says(story, BOB)
    assert story.run.status == "Failed"
    assert "is for something else" in story.run.reason
    assert story.agent.jobs == {}


def test_runs_of_a_schedule_wait_too() -> None:
    story = team()
    spec = run_spec(cluster={"name": "shared"})
    run_id = "run-01hq0000000000000000000001"
    submit_scheduled(story.world.ports, {run_id: spec}, schedule="nightly", by=ALICE)
    story.rest()
    assert story.world.runs.stored[run_id].status == "Waiting"
    assert approval(story).requester == ALICE


def test_the_wake_up_that_was_lost_is_made_up_for() -> None:
    story = team()
    asked(story)
    given = approval(story)
    vote, ports = Vote(by=BOB, at=story.world.clock.now()), story.world.ports
    ports.approvals.put(approved(given, vote, RULES, ports.config.roles))  # and then it died
    story.rest()
    assert story.run.status == "Waiting"
    story.world.clock.tick(61)
    story.sweep()
    assert story.run.status == "Submitting"


def test_what_a_run_left_pending_as_its_process_died_is_withdrawn_by_the_sweep() -> None:
    story = team()
    asked(story)
    given = approval(story)
    story.cancel()
    story.rest()
    story.world.approvals.stored[given.id] = given
    assert ("approval withdrawn", given.id) in [(one.action, one.subject) for one in story.sweep()]
    assert approval(story).state == "withdrawn"


def test_people_are_told_what_waits_and_what_was_decided() -> None:
    story = team()
    asked(story)
    first = approval(story).id
    says(story, BOB, approve=False, reason="no")
    resume_run(story.world.ports, story.run_id, by=ALICE)
    story.rest()
    says(story, BOB)
    story.sweep()
    told = [
        (event.type, event.approval.id[-1])
        for event in story.world.notices.events
        if event.approval is not None
    ]
    assert sorted(told) == [
        ("approval.approved", "2"),
        ("approval.denied", "1"),
        ("approval.needed", "1"),
        ("approval.needed", "2"),
    ]
    assert first[-1] == "1"
