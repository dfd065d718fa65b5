"""The nodes of a cluster that others made: which are asked, and how often."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.adopted import FIRST, HEAD, SECOND, a_node

from trainyard.domain.adoption import SILENT_SECONDS, due, failed, lacking, settled
from trainyard.domain.records import AdoptedNode, Adoption

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
NODES = [a_node(HEAD, "head", 11), a_node(FIRST, number=12), a_node(SECOND, number=13)]


def known(state: Any, seconds: float = 0, tries: int = 0) -> AdoptedNode:
    at = NOW - timedelta(seconds=seconds)
    return AdoptedNode(group="gpu", state=state, at=at, tries=tries)


def names(nodes: dict[str, AdoptedNode], *linked: str) -> list[str]:
    adoption = Adoption(replace_nodes=False, nodes=nodes)
    return [node.instance_id for node in due(adoption, NODES, linked, NOW)]


def test_the_controller_is_asked_before_all_others() -> None:
    assert names({}) == [HEAD]
    assert names({HEAD: known("installing", 1)}) == []
    assert names({HEAD: known("installed")}) == [FIRST, SECOND]


def test_a_node_that_failed_is_asked_again_later_and_later() -> None:
    head = {HEAD: known("installed"), SECOND: known("installed")}
    assert names({**head, FIRST: known("failed", 5, 1)}) == []
    assert names({**head, FIRST: known("failed", 25, 1)}) == [FIRST]
    assert names({**head, FIRST: known("failed", 60, 4)}) == []


def test_an_agent_that_is_silent_for_long_is_asked_for_again() -> None:
    have = {one: known("installed", SILENT_SECONDS + 1) for one in (HEAD, FIRST, SECOND)}
    assert names(have, HEAD, FIRST) == [SECOND]
    assert names({**have, SECOND: known("installed", 10)}, HEAD, FIRST) == []


def test_a_worker_that_failed_often_is_not_waited_for_and_a_controller_is() -> None:
    have = {HEAD: known("installed"), FIRST: known("installed"), SECOND: known("failed", tries=3)}
    assert lacking(Adoption(replace_nodes=False, nodes=have), NODES) == 0
    have[HEAD] = known("failed", tries=9)
    assert lacking(Adoption(replace_nodes=False, nodes=have), NODES) == 1


def test_a_node_is_not_taken_back_while_what_it_was_asked_for_may_still_begin() -> None:
    assert not settled(known("asked", 5), NOW)
    assert settled(known("asked", 61), NOW)
    assert settled(known("installed"), NOW)


def test_failures_are_counted_and_the_newest_reason_kept() -> None:
    once = failed(known("installing"), "why", NOW)
    assert (once.state, once.tries, once.reason) == ("failed", 1, "why")
    assert failed(once, "x" * 5000, NOW).reason == "x" * 1000
