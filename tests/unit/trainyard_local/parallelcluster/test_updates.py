"""What of a cluster may change while its fleet runs, what when it is stopped, and what never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.parallelcluster_specs import making, spec

from trainyard.backends.parallelcluster.config import configuration
from trainyard_local.parallelcluster.configuration import Configuration, read
from trainyard_local.parallelcluster.judging import BadRequest
from trainyard_local.parallelcluster.updates import judged

OTHER = {"instanceTypes": ["c5.2xlarge"]}


def made(**changes: Any) -> Configuration:
    return read("", configuration(making(spec(**changes))))


def cluster(fleet: str) -> Any:
    return SimpleNamespace(configuration=made(), fleet=fleet)


def parameters(fleet: str, **changes: Any) -> list[str]:
    return [one["parameter"] for one in judged(cluster(fleet), made(**changes))]


def test_more_nodes_come_while_the_fleet_runs() -> None:
    assert parameters("RUNNING", queue={"max": 9}) == [
        "SlurmQueues[workers].ComputeResources[nodes].MaxCount"
    ]


@pytest.mark.parametrize("queue", [{"max": 1}, {"min": 1}, OTHER, {"capacity": "spot"}])
def test_what_takes_nodes_away_or_changes_them_needs_a_fleet_that_is_stopped(
    queue: dict[str, Any],
) -> None:
    with pytest.raises(BadRequest, match="must be stopped"):
        parameters("RUNNING", queue=queue)
    assert parameters("STOPPED", queue=queue)


def test_a_head_node_is_never_another_one() -> None:
    with pytest.raises(BadRequest, match="HeadNode"):
        parameters("STOPPED", head={"instanceType": "c5.2xlarge"})


def test_an_update_that_changes_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="No changes"):
        parameters("RUNNING")
