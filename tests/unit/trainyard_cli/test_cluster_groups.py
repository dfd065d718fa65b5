"""Groups of clusters of each backend, and of one that is newer than the program."""

from __future__ import annotations

import pytest
from tests.support.parallelcluster_specs import RICH
from tests.support.spec_parts import cluster_spec

from trainyard_cli.cluster_groups import Group, groups_of, nodes_of
from trainyard_contracts.cluster_specs import read_cluster_spec


@pytest.mark.parametrize("given", [cluster_spec("a", workers=3, spares=2), RICH])
def test_names_roles_and_counts_are_those_of_the_spec_itself(given: dict[str, object]) -> None:
    read = read_cluster_spec(given)
    shown = read.model_dump(mode="json", by_alias=True)
    assert [(one.name, one.role, one.number, one.spares) for one in groups_of(shown)] == [
        (one.name, one.role, one.count, one.spares) for one in read.groups()
    ]


def test_a_queue_of_several_types_shows_them_all() -> None:
    assert Group("spot", "worker", 8, 0, "g5.xlarge, g4dn.xlarge") in groups_of(RICH)


def test_a_spec_of_another_kind_has_no_groups() -> None:
    assert groups_of({"backend": "of-tomorrow"}) == []
    assert nodes_of(groups_of({"backend": "of-tomorrow"})) == 0
