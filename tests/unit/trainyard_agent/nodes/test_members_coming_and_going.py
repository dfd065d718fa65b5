"""Nodes that are powered up for jobs and down when they are idle: neither is a loss or a return."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config
from tests.support.agent_parts import NodeParts, node_parts

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.slurm_nodes import SlurmNode, parse_nodes
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.hosts import Hosts
from trainyard_agent.nodes.node_table import Node
from trainyard_contracts.cluster_events import ClusterReady
from trainyard_contracts.node_events import NodeReturned

UP, DOWN, GOES = "idle+cloud", "idle+cloud+powered_down", "idle+cloud+powering_down"
COMES = "allocated+cloud+not_responding+powering_up"
NAME = "q-dy-nodes-1"


def slurm(state: str, name: str = NAME, host: str = "ip-10-0-0-9") -> dict[str, SlurmNode]:
    address = "10.0.0.9" if state == UP else name
    return {name: SlurmNode(name, state, address, 6818, partitions=("q",), host_name=host)}


def parts_on(directory: Path, **settings: Any) -> tuple[NodeParts, list[Any], Reporter]:
    given = config(directory, nodes_come_and_go=True, **settings)
    reporter, told = Reporter(given, Store(directory / "outbox.sqlite")), list[Any]()
    report = reporter.report

    def noted(*events: Any, change: Any = None) -> None:
        told.extend(events)
        report(*events, change=change)

    reporter.report = noted  # type: ignore[method-assign]
    return node_parts(given, reporter), told, reporter


@pytest.mark.parametrize(
    ("state", "away", "coming"),
    [(UP, False, False), (DOWN, True, False), (GOES, True, False), (COMES, False, True)],
)
def test_slurms_flags_say_whether_a_machine_is_there(state: str, away: bool, coming: bool) -> None:
    node = slurm(state)[NAME]
    assert (node.away, node.coming, node.serves) == (away, coming, state == UP)


def test_what_slurm_calls_a_nodes_host_is_read() -> None:
    line = f"NodeName={NAME} NodeAddr=10.0.0.9 NodeHostName=ip-10-0-0-9 Port=6818 State=IDLE+CLOUD"
    node = parse_nodes(line)[NAME]
    assert (node.address, node.host_name) == ("10.0.0.9", "ip-10-0-0-9")


@pytest.mark.parametrize("state", [DOWN, GOES])
def test_a_node_that_is_powered_down_is_forgotten_and_nothing_is_told(
    tmp_path: Path, state: str
) -> None:
    parts, told, reporter = parts_on(tmp_path)
    parts.table.nodes[NAME] = Node(NAME)
    parts.table.report(parts.table.nodes[NAME], "linked")
    parts.table.take(slurm(state))
    parts.members._let_go()
    assert told == []
    assert NAME not in parts.table.nodes
    assert reporter.store.connection.execute("SELECT * FROM nodes").fetchall() == []


def test_a_lost_node_whose_machine_was_given_back_is_as_good_as_new(tmp_path: Path) -> None:
    parts, told, _ = parts_on(tmp_path)
    parts.table.nodes[NAME] = Node(NAME)
    parts.table.report(parts.table.nodes[NAME], "lost")
    parts.table.take(slurm("down+cloud+power_down"))
    parts.members._let_go()
    assert told == [], "it is down still"
    parts.table.take(slurm(DOWN))
    parts.members._let_go()
    assert [type(event) for event in told] == [NodeReturned]
    assert NAME not in parts.table.nodes


def test_a_node_that_is_linked_is_not_forgotten_whatever_slurm_says(tmp_path: Path) -> None:
    parts, _, _ = parts_on(tmp_path)
    parts.table.nodes[NAME] = Node(NAME, "linked", connected=True)
    parts.table.take(slurm(GOES))
    parts.members._let_go()
    assert NAME in parts.table.nodes


def test_where_nodes_stay_nothing_is_let_go(tmp_path: Path) -> None:
    given = config(tmp_path)
    parts = node_parts(given, Reporter(given, Store(tmp_path / "outbox.sqlite")))
    parts.table.nodes[NAME] = Node(NAME)
    parts.table.take(slurm(DOWN))
    parts.members._let_go()
    assert NAME in parts.table.nodes


def test_a_silent_node_that_no_job_needs_is_lost_only_if_slurm_did_not_end_it(
    tmp_path: Path,
) -> None:
    parts, _, _ = parts_on(tmp_path)
    node = Node(NAME, "linked")
    parts.table.take(slurm(UP), node.silent_since - 1)
    assert parts.silence._may_be_powered_down(node), "Slurm was asked before the silence"
    assert parts.table.look.is_set()
    parts.table.take(slurm(GOES), node.silent_since + 1)
    assert parts.silence._may_be_powered_down(node)
    parts.table.take(slurm(UP), node.silent_since + 1)
    assert not parts.silence._may_be_powered_down(node)


def test_a_cluster_without_static_nodes_is_ready_when_slurm_answers(tmp_path: Path) -> None:
    parts, told, _ = parts_on(tmp_path, expected_workers=0)
    assert not parts.members._report_ready(), "Slurm said nothing yet"
    parts.table.take(slurm(DOWN))
    assert parts.members._report_ready()
    (event,) = told
    assert isinstance(event, ClusterReady)
    assert event.nodes == []


def test_a_cluster_with_static_nodes_waits_for_them(tmp_path: Path) -> None:
    parts, _, _ = parts_on(tmp_path, expected_workers=1)
    parts.table.take(slurm(DOWN) | slurm(UP, "q-st-nodes-1"))
    assert not parts.members._report_ready()
    parts.table.nodes["q-st-nodes-1"] = Node("q-st-nodes-1", connected=True)
    assert parts.members._report_ready()


def test_a_job_waits_for_nodes_that_are_not_linked_now(tmp_path: Path) -> None:
    parts, _, _ = parts_on(tmp_path)
    parts.table.take(slurm(DOWN))
    assert parts.table.unready() == set(), "Slurm may give it to a job, and powers it up"
    assert parts.table.awaited(NAME)
    parts.table.nodes[NAME] = Node(NAME, "linked")
    assert parts.table.awaited(NAME), "its machine of before is off"
    parts.table.nodes[NAME].connected = True
    assert not parts.table.awaited(NAME)


def test_only_addresses_of_linked_nodes_are_told_to_a_job(tmp_path: Path) -> None:
    parts, _, reporter = parts_on(tmp_path)
    parts.table.take(slurm(UP))
    parts.table.nodes["q-dy-nodes-2"] = Node("q-dy-nodes-2", "lost", address="10.0.0.7")
    parts.table.nodes[NAME] = Node(NAME, "linked", address="10.0.0.9", connected=True)
    hosts = Hosts(Attempts(config(tmp_path), reporter), parts.table)
    assert hosts.addresses() == {NAME: "10.0.0.9"}


@pytest.mark.parametrize(
    ("host", "address", "there"),
    [
        ("ip-10-0-0-9", "127.3.4.5", True),
        ("ip-10-0-0-8", "10.0.0.9", True),
        ("ip-10-0-0-8", "10.0.0.8", False),
    ],
)
def test_a_node_is_who_slurm_says_is_at_its_address(
    tmp_path: Path, host: str, address: str, there: bool
) -> None:
    async def story() -> None:
        parts, _, _ = parts_on(tmp_path)
        parts.table.take(slurm(UP))
        assert parts.registry.is_at(NAME, host, address) == there
        assert parts.table.look.is_set() != there, "Slurm is asked anew"

    asyncio.run(story())
