"""The highest role that matches counts; its owner, admins and guests change a thing."""

from __future__ import annotations

import pytest

from trainyard.domain.people import RolesOfPeople, Thing, matches, refusal, refusal_to_own
from trainyard_contracts.people import Person, named

ALICE = named("arn:aws:iam::111122223333:user/alice")
BOB = named("arn:aws:sts::111122223333:assumed-role/Research/bob")
UNNAMED = named("arn:aws:sts::111122223333:assumed-role/Research/botocore-session-17")
HELD = RolesOfPeople(admins=["arn:aws:iam::111122223333:user/root-of-all"])


@pytest.mark.parametrize(
    ("pattern", "person", "found"),
    [
        ("*", ALICE, True),
        ("arn:aws:iam::111122223333:user/alice", ALICE, True),
        ("arn:aws:iam::111122223333:user/al*", ALICE, True),
        ("arn:aws:iam::*:user/*", ALICE, True),
        ("arn:aws:iam::111122223333:user/alic", ALICE, False),
        ("arn:aws:iam::111122223333:user/Alice", ALICE, False),
        ("arn:aws:iam::999999999999:user/alice", ALICE, False),
        ("arn:aws:iam::111122223333:user/a.ice", ALICE, False),
        ("arn:aws:sts::111122223333:assumed-role/Research/bob", BOB, True),
        ("arn:aws:sts::111122223333:assumed-role/Research/*", BOB, True),
        ("arn:aws:iam::111122223333:role/Research", BOB, True),
        ("arn:aws:iam::111122223333:role/team/Research", BOB, True),
        ("arn:aws:iam::111122223333:role/Res*", BOB, True),
        ("arn:aws:iam::111122223333:role/Research", UNNAMED, True),
        ("arn:aws:sts::111122223333:assumed-role/Research/*", UNNAMED, True),
        ("arn:aws:sts::111122223333:assumed-role/Research/bob", UNNAMED, False),
        ("arn:aws:sts::111122223333:assumed-role/*", BOB, False),
        ("arn:aws:iam::111122223333:role/Admin*", BOB, False),
    ],
)
def test_a_pattern_is_an_arn_whose_stars_stay_within_a_part(
    pattern: str, person: Person, found: bool
) -> None:
    assert matches([pattern], person) is found


def test_a_user_with_a_path_is_not_matched_by_a_pattern_without_one() -> None:
    deep = named("arn:aws:iam::111122223333:user/ml/alice")
    assert not matches(["arn:aws:iam::111122223333:user/*"], deep)
    assert matches(["arn:aws:iam::111122223333:user/ml/*"], deep)


def test_the_highest_role_that_matches_counts_and_none_is_none() -> None:
    roles = RolesOfPeople(admins=[ALICE.arn], members=[ALICE.arn, BOB.arn], viewers=[UNNAMED.arn])
    assert [roles.of(one) for one in (ALICE, BOB, UNNAMED)] == ["admin", "member", "viewer"]
    assert roles.of(named("arn:aws:iam::111122223333:user/eve")) is None


def test_a_stack_that_names_nobody_lets_everybody_do_everything_as_before() -> None:
    assert RolesOfPeople().of(BOB) == "admin"
    assert refusal(RolesOfPeople(), BOB, Thing("run", "run-1", ALICE)) is None


def test_a_member_changes_what_is_theirs_and_not_what_is_anothers() -> None:
    assert refusal(HELD, ALICE, Thing("run", "run-1", ALICE)) is None
    refused = refusal(HELD, BOB, Thing("run", "run-1", ALICE))
    assert refused is not None
    assert refused.code == "not-allowed"
    assert "belongs to alice" in refused.detail
    assert "trainyard run share run-1 --with ARN" in refused.next_step
    assert "trainyard run transfer run-1 --to ARN" in refused.next_step


def test_whom_it_is_shared_with_changes_it_and_gives_it_to_nobody() -> None:
    thing = Thing("cluster", "big", ALICE, ["arn:aws:iam::111122223333:role/Research"])
    assert refusal(HELD, BOB, thing) is None
    assert refusal_to_own(HELD, BOB, thing) is not None
    assert refusal_to_own(HELD, ALICE, thing) is None


def test_what_has_no_owner_is_every_members() -> None:
    assert refusal(HELD, BOB, Thing("run", "run-1", None)) is None


def test_a_viewer_changes_nothing_not_even_their_own() -> None:
    roles = RolesOfPeople(admins=[], members=[])
    refused = refusal(roles, ALICE, Thing("run", "run-1", ALICE))
    assert refused is not None
    assert "viewers only read" in refused.detail
    assert refusal(roles, ALICE) is not None


def test_an_admin_changes_and_gives_away_everything() -> None:
    roles = RolesOfPeople(admins=[BOB.arn])
    thing = Thing("filesystem", "data", ALICE)
    assert refusal(roles, BOB, thing) is None
    assert refusal_to_own(roles, BOB, thing) is None


def test_the_refusal_of_a_runs_own_cluster_names_the_run_which_is_shared_in_its_place() -> None:
    refused = refusal(HELD, BOB, Thing("cluster", "demo-1", ALICE, of_run="run-1"))
    assert refused is not None
    assert "Cluster 'demo-1' belongs to alice" in refused.detail
    assert "trainyard run share run-1" in refused.next_step
