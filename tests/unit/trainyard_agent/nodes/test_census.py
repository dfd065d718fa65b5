"""A census counts who is looked into."""

from __future__ import annotations

from trainyard_agent.nodes.census import census
from trainyard_agent.nodes.node_table import Node
from trainyard_agent.nodes.questions import Questions


def test_a_census_counts_who_is_looked_into_and_whom_it_heard_last() -> None:
    nodes = [
        Node("a", "linked", heard=1.0),
        Node("b", "silent", heard=3.0, questions=Questions()),
        Node("c", "lost", heard=9.0),
        Node("d", "linked", heard=2.0),
    ]
    found = census(nodes, 10.0)
    assert (found.at, found.silent, list(found.heard)) == (10.0, 1, [(3.0, "b"), (2.0, "d")])
