"""Turns on a shared cluster: by priority, fair, within limits, and nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.domain import turns
from trainyard.domain.turn_records import Turns
from trainyard.domain.turns import Claim
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingLimit, SharingSpec

NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
NOBODY_YET = Turns(cluster_name="shared")
FREE = SharingSpec()


def person(name: str) -> Person:
    arn = f"arn:aws:iam::111122223333:user/{name}"
    return Person(id=name, arn=arn, account="111122223333", name=name, kind="user")


def claim(number: int, **given: Any) -> Claim:
    fields = {
        "run_id": f"run-{number:03}", "life": 1, "nodes": 1, "pool": "main", "priority": 0,
        "since": NOW + timedelta(seconds=number), "index": 0, "labels": {}, "owner": None,
        "party": f"run-{number:03}", "began": False,
    }  # fmt: skip
    return Claim(**{**fields, **given})


def decide(
    before: Turns, claims: Sequence[Claim], nodes: int, sharing: SharingSpec = FREE
) -> Turns:
    return turns.given(before, claims, sharing, lambda pool: nodes, NOW)


def order(claims: list[Claim], nodes: int, sharing: SharingSpec = FREE) -> list[str]:
    """In which order all have their turn, if the one that has it longest ends each time."""
    known, having = NOBODY_YET, []
    left, seen = list(claims), []
    while left:
        known = decide(known, left, nodes, sharing)
        new = [one.run_id for one in left if one.run_id in known.given and one.run_id not in having]
        new.sort(key=lambda run: _served(known, claims, run))
        having += new
        seen += new
        assert having, "nobody has a turn"
        over = having.pop(0)
        left = [one for one in left if one.run_id != over]
    return seen


def _served(known: Turns, claims: list[Claim], run: str) -> Any:
    one = next(one for one in claims if one.run_id == run)
    return known.served.get(f"{one.share(None)}/{one.party}", known.given[run].at)


def test_those_for_whom_there_is_room_have_their_turn_in_the_order_of_their_coming() -> None:
    assert set(decide(NOBODY_YET, [claim(n) for n in range(5)], 3).given) == {
        "run-000", "run-001", "run-002",
    }  # fmt: skip


def test_a_higher_priority_comes_first_and_a_lower_one_last() -> None:
    claims = [claim(0, priority=-1), claim(1), claim(2, priority=5)]
    assert order(claims, 1) == ["run-002", "run-001", "run-000"]


def test_a_large_run_is_not_overtaken_by_small_ones_that_come_after_it() -> None:
    small = claim(0, began=True)
    after = decide(NOBODY_YET, [small, claim(1, nodes=4), claim(2)], 4)
    assert set(after.given) == set()
    assert set(decide(after, [claim(1, nodes=4), claim(2)], 4).given) == {"run-001"}


def test_a_run_that_is_larger_than_what_is_left_of_its_cluster_has_its_turn_when_nobody_has() -> (
    None
):
    assert set(decide(NOBODY_YET, [claim(0, nodes=9)], 4).given) == {"run-000"}


def test_another_partition_has_turns_of_its_own() -> None:
    claims = [claim(0, pool="a", began=True), claim(1, pool="a"), claim(2, pool="b")]
    assert set(decide(NOBODY_YET, claims, 1).given) == {"run-002"}


def test_members_of_two_arrays_take_turns_however_many_they_are() -> None:
    long = [claim(n, party="arr-long", index=n, owner=person("ann")) for n in range(20)]
    short = [claim(100 + n, party="arr-short", index=n, owner=person("ann")) for n in range(3)]
    begun = order([*long, *short], 1)
    assert begun[:6] == [
        "run-000", "run-100", "run-001", "run-101", "run-002", "run-102",
    ]  # fmt: skip


def test_the_run_of_another_person_is_the_next_one_though_two_hundred_wait() -> None:
    many = [claim(n, party="arr", index=n, owner=person("ann")) for n in range(200)]
    first = decide(NOBODY_YET, many, 10)
    assert len(first.given) == 10
    left = [one for one in many if one.run_id != "run-000"]
    after = decide(first, [*left, claim(900, owner=person("bob"))], 10)
    assert set(after.given) - set(first.given) == {"run-900"}


def test_turns_are_fair_by_a_label_where_the_cluster_says_so() -> None:
    claims = [claim(n, owner=person(f"p{n}"), labels={"team": "big"}) for n in range(6)]
    claims += [claim(50 + n, owner=person("q"), labels={"team": "small"}) for n in range(2)]
    after = decide(NOBODY_YET, claims, 4, SharingSpec(fair_by="team"))
    assert Counter(run >= "run-050" for run in after.given) == {True: 2, False: 2}


def test_a_run_over_its_limit_waits_with_a_sentence_and_keeps_no_other_from_its_turn() -> None:
    limit = SharingSpec(limits=[SharingLimit(label="team", max_runs=1)])
    vision = {"team": "vision"}
    claims = [claim(0, labels=vision), claim(1, labels=vision), claim(2)]
    after = decide(NOBODY_YET, claims, 9, limit)
    assert set(after.given) == {"run-000", "run-002"}
    assert after.held == {
        "run-001": "label team=vision may use at most 1 run here at once, and uses 1 run with "
        "1 node; this one needs 1 node."
    }
    assert set(decide(after, claims[1:], 9, limit).given) == {"run-001", "run-002"}


def test_a_limit_of_nodes_is_of_each_owner_by_himself() -> None:
    limit = SharingSpec(limits=[SharingLimit(owner="*", max_nodes=3)])
    claims = [claim(n, nodes=2, owner=person(name)) for n, name in enumerate(["a", "a", "b"])]
    assert set(decide(NOBODY_YET, claims, 99, limit).given) == {"run-000", "run-002"}


def test_a_turn_of_an_earlier_life_is_over() -> None:
    before = decide(NOBODY_YET, [claim(0)], 1)
    after = decide(before, [claim(0, life=2, since=NOW + timedelta(hours=1)), claim(1)], 1)
    assert set(after.given) == {"run-001"}


def test_who_was_served_is_forgotten_when_too_many_others_were_since() -> None:
    known = NOBODY_YET
    for number in range(300):
        known = decide(known, [claim(number, owner=person(f"p{number}"))], 1)
    assert len(known.served) == turns.MOST_SERVED
    assert person("p299").arn in known.served


@st.composite
def _claims(draw: st.DrawFn) -> list[Claim]:
    return [
        claim(
            number,
            nodes=draw(st.integers(1, 5)),
            priority=draw(st.integers(-2, 2)),
            pool=draw(st.sampled_from(["a", "b"])),
            owner=draw(st.sampled_from([None, person("ann"), person("bob")])),
            labels=draw(st.sampled_from([{}, {"team": "x"}, {"team": "y"}])),
            party=draw(st.sampled_from([f"run-{number:03}", "arr-1", "arr-2"])),
            index=number,
            began=draw(st.booleans()) and draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


LIMITS = [
    SharingLimit(label="team", max_runs=2),
    SharingLimit(label="team", value="x", max_nodes=6),
    SharingLimit(owner="*", max_nodes=7, max_runs=3),
]
SHARING = st.builds(
    SharingSpec,
    fair_by=st.sampled_from([None, "team"]),
    limits=st.lists(st.sampled_from(LIMITS), max_size=3),
)


@given(_claims(), SHARING, st.integers(1, 8))
def test_deciding_again_changes_nothing_and_no_turn_is_taken_back(
    claims: list[Claim], sharing: SharingSpec, nodes: int
) -> None:
    once = decide(NOBODY_YET, claims, nodes, sharing)
    assert decide(once, claims, nodes, sharing) == once
    assert set(once.given) <= set(decide(once, claims, nodes + 1, sharing).given)


@given(_claims(), SHARING, st.integers(1, 8))
def test_room_and_limits_hold_whatever_asks(
    claims: list[Claim], sharing: SharingSpec, nodes: int
) -> None:
    """They keep those that begin; what is at work already may be more."""
    claims = [one for one in claims if not one.began]
    after = decide(NOBODY_YET, claims, nodes, sharing)
    having = [one for one in claims if one.run_id in after.given]
    for pool in ("a", "b"):
        used = [one.nodes for one in having if one.pool == pool]
        assert sum(used) <= nodes or len(used) == 1
    for limit in sharing.limits:
        for same in _counted_together(having, limit):
            assert limit.max_runs is None or len(same) <= limit.max_runs
            assert limit.max_nodes is None or sum(one.nodes for one in same) <= limit.max_nodes
    assert not set(after.held) & set(after.given)


def _counted_together(having: list[Claim], limit: SharingLimit) -> Iterator[list[Claim]]:
    """Said a second time, in another way."""
    if limit.owner:
        for name in ("ann", "bob"):
            yield [one for one in having if one.owner and one.owner.name == name]
    for value in ("x", "y") if limit.label else ():
        if limit.value in (None, value):
            yield [one for one in having if one.labels.get("team") == value]


@settings(max_examples=60)
@given(_claims(), SHARING, st.integers(1, 8), st.randoms(use_true_random=False))
def test_everybody_has_a_turn_if_those_who_have_one_end(
    claims: list[Claim], sharing: SharingSpec, nodes: int, random: Any
) -> None:
    """Each of them alone is within the limits."""
    known, left, seen = NOBODY_YET, list(claims), set()
    while left:
        known = decide(known, left, nodes, sharing)
        having = [one for one in left if one.began or one.run_id in known.given]
        assert having, "nobody goes on"
        seen |= {one.run_id for one in having}
        over = random.choice(having)
        left = [one for one in left if one != over]
    assert seen == {one.run_id for one in claims}


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 8))
def test_a_run_waits_for_no_stream_of_others_runs_of_its_priority(
    wide: int, nodes: int, others: int
) -> None:
    """Each time one ends, its owner has another one."""
    waits = claim(0, nodes=min(wide, nodes), owner=person("ann"), since=NOW + timedelta(days=1))
    stream = [claim(1 + n, party="arr", index=n, owner=person("bob")) for n in range(others)]
    known, number = decide(NOBODY_YET, stream, nodes), 1 + others
    for _ in range(nodes + 1):
        known = decide(known, [*stream, waits], nodes)
        if waits.run_id in known.given:
            return
        over = next(one for one in stream if one.run_id in known.given)
        stream = [one for one in stream if one != over]
        stream.append(claim(number, party="arr", index=number, owner=person("bob")))
        number += 1
    raise AssertionError("it starves")
