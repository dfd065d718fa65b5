"""Nodes and their states are read from Slurm's answers, whatever these are."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trainyard_agent.host.test_slurm import NODES

from trainyard_agent.host import slurm_nodes
from trainyard_agent.host.slurm_nodes import SlurmNode, parse_nodes, workers


def test_nodes_are_read() -> None:
    nodes = parse_nodes(NODES)
    assert (nodes["ip-127-23-0-11"].port, nodes["ip-127-23-0-11"].state) == (23001, "idle+drain")
    assert nodes["ip-127-23-0-11"].reason.startswith("trainyard: node lost")
    assert (nodes["ip-10-0-0-2"].port, nodes["ip-10-0-0-2"].state) == (6818, "down*")
    assert not nodes["ip-10-0-0-2"].serves
    assert [node.registered for node in nodes.values()] == [True, False, False]
    began = datetime(2026, 11, 20, 10, 1).timestamp()  # in this machine's zone, as scontrol does
    assert [node.slurmd_started for node in nodes.values()] == [began, began, None]


@given(st.text(max_size=200))
def test_no_output_of_slurm_breaks_the_parsers(text: str) -> None:
    parse_nodes(text)
    slurm_nodes.fields(text)


@pytest.mark.parametrize(
    ("state", "serves"),
    [
        ("idle", True), ("idle+cloud", True), ("mixed+cloud", True),
        ("allocated+cloud+completing", True), ("completing", True), ("idle+cloud+drain", False),
        ("down+cloud", False), ("down+cloud+fail+not_responding", False), ("idle*+cloud", False),
        ("idle+cloud+not_responding", False), ("idle+cloud+maintenance", False),
        ("idle+cloud+reboot_requested", False), ("idle+cloud+powered_down", False),
        ("down*", False), ("unknown", False), ("error", False), ("idle+drain", False),
    ],
)  # fmt: skip
def test_a_node_serves_by_its_base_state_whatever_harmless_flag_it_carries(
    state: str, serves: bool
) -> None:
    """Every HyperPod node is CLOUD, which Slurm prints as a flag."""
    assert SlurmNode("ip-10-0-0-1", state, "10.0.0.1", 6818).serves is serves


def test_a_login_node_is_no_worker_though_it_runs_slurmd_and_is_in_the_partition_of_all() -> None:
    shown = (
        "NodeName=ip-1 NodeAddr=10.0.0.1 State=IDLE+CLOUD Partitions=dev,main\n"
        "NodeName=ip-2 NodeAddr=10.0.0.2 State=IDLE+CLOUD Partitions=dev\n"
        "NodeName=ip-3 NodeAddr=10.0.0.3 State=DOWN+CLOUD Partitions=large,dev\n"
    )
    known = parse_nodes(shown)
    assert set(workers(known, ["large", "main"])) == {"ip-1", "ip-3"}
    assert set(workers(known, [])) == {"ip-1", "ip-2", "ip-3"}
