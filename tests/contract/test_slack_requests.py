"""A request of Slack is in the hand of one, for a while, and once it is answered for good."""

from __future__ import annotations

import pytest
from tests.support.memory import MemoryClock

from trainyard.aws.slack_requests import KEPT_SECONDS, LEASE_SECONDS, TableClaims
from trainyard.aws.table import Table


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock()


@pytest.fixture
def claims(table: Table, clock: MemoryClock) -> TableClaims:
    return TableClaims(table, clock)


def test_one_takes_it_and_no_other(claims: TableClaims) -> None:
    assert [claims.take("a"), claims.take("a"), claims.take("b")] == [True, False, True]


def test_what_is_given_back_can_be_taken_at_once(claims: TableClaims) -> None:
    claims.take("a")
    claims.give_back("a")
    assert claims.take("a")


def test_who_died_holds_it_no_longer_than_its_time(claims: TableClaims, clock: MemoryClock) -> None:
    claims.take("a")
    clock.tick(LEASE_SECONDS - 1)
    assert not claims.take("a")
    clock.tick(1)
    assert claims.take("a")


def test_what_is_answered_is_not_taken_again_for_a_day(
    claims: TableClaims, clock: MemoryClock
) -> None:
    claims.take("a")
    claims.settle("a")
    clock.tick(KEPT_SECONDS - 1)
    assert not claims.take("a")


def test_what_came_of_it_is_kept_with_it(claims: TableClaims) -> None:
    assert claims.outcome("a") == ""
    claims.take("a")
    claims.settle("a")
    assert claims.outcome("a") == ""
    claims.settle("a", "it is done\nby alice")
    assert claims.outcome("a") == "it is done\nby alice"


def test_its_item_expires(claims: TableClaims, clock: MemoryClock, table: Table) -> None:
    claims.take("a")
    item = table.get("slack#a", "request")
    assert item is not None
    assert int(item["expiresAt"]["N"]) == int(clock.now().timestamp()) + KEPT_SECONDS
