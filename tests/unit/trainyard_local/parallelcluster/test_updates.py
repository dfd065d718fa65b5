"""What of a cluster may change while its fleet runs, what when it is stopped, and what never."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.parallelcluster_specs import OTHER_SUBNET, making, spec

from trainyard.backends.parallelcluster.config import configuration
from trainyard_local.parallelcluster.judging import BadRequest
from trainyard_local.parallelcluster.updates import Refused, judged

OTHER = {"instanceTypes": ["c5.2xlarge"]}
WHERE = "Scheduling.SlurmQueues[workers].ComputeResources[nodes]"


def made(**changes: Any) -> dict[str, Any]:
    return configuration(making(spec(**changes)))


def parameters(wanted: dict[str, Any], *, stopped: bool = False) -> list[str]:
    return [one.parameter for one in judged(made(), wanted, fleet_stopped=stopped)]


def refusals(wanted: dict[str, Any], *, stopped: bool = False) -> dict[str, str]:
    with pytest.raises(Refused) as refused:
        judged(made(), wanted, fleet_stopped=stopped)
    return {one.parameter: one.refusal for one in refused.value.changes if one.refusal}


def test_more_nodes_come_while_the_fleet_runs() -> None:
    assert parameters(made(queue={"max": 9})) == [f"{WHERE}.MaxCount"]


def test_more_nodes_that_always_run_come_with_as_many_more_at_most() -> None:
    before = made()["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]
    low, high = before["MinCount"], before["MaxCount"]
    both = {"min": low + 1, "max": high + 1}
    assert set(parameters(made(queue=both))) == {f"{WHERE}.MinCount", f"{WHERE}.MaxCount"}
    assert set(refusals(made(queue={"min": low + 1}))) == {f"{WHERE}.MinCount"}


def test_a_queue_is_added_while_the_fleet_runs_and_removed_while_it_is_stopped() -> None:
    two, one = made(), made()
    two["Scheduling"]["SlurmQueues"].append({**two["Scheduling"]["SlurmQueues"][0], "Name": "more"})
    assert [c.parameter for c in judged(one, two, fleet_stopped=False)] == [
        "Scheduling.SlurmQueues"
    ]
    with pytest.raises(Refused) as refused:
        judged(two, one, fleet_stopped=False)
    assert "TERMINATE" in refused.value.changes[0].refusal
    assert judged(two, one, fleet_stopped=True)


@pytest.mark.parametrize("queue", [{"max": 1}, {"min": 1}, OTHER])
def test_what_takes_nodes_away_or_changes_them_needs_a_fleet_that_is_stopped(
    queue: dict[str, Any],
) -> None:
    words = refusals(made(queue=queue))
    assert all("Stop the compute fleet" in one for one in words.values()), words
    assert parameters(made(queue=queue), stopped=True)


def test_what_a_strategy_covers_changes_while_nodes_are_drained() -> None:
    spot = made(queue={"capacity": "spot"})
    assert parameters(spot) == ["Scheduling.SlurmQueues[workers].CapacityType"]
    del spot["Scheduling"]["SlurmSettings"]["QueueUpdateStrategy"]
    (words,) = refusals(spot).values()
    assert "QueueUpdateStrategy must be set" in words


def test_a_queue_gets_no_other_subnet_where_the_filesystem_was_made_in_its_own() -> None:
    moved = {"subnetIds": [OTHER_SUBNET]}
    words = refusals(made(queue=moved), stopped=True)
    (refusal,) = words.values()
    assert [*words] == ["Scheduling.SlurmQueues[workers].Networking.SubnetIds"]
    assert "deletion of the existing file system" in refusal
    assert "Stop the compute fleet" not in refusal, "a stop would not help"
    there = {"fileSystemId": "fs-0123456789abcdef0"}
    assert judged(made(fsx=there), made(fsx=there, queue=moved), fleet_stopped=True)


def test_a_head_node_is_never_another_one() -> None:
    words = refusals(made(head={"instanceType": "c5.2xlarge", "rootVolumeGib": 99}), stopped=True)
    assert "resize operation" in words["HeadNode.LocalStorage.RootVolume.Size"]
    assert "Restore 'InstanceType' value to" in words["HeadNode.InstanceType"]


def test_an_update_that_changes_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="No changes"):
        parameters(made())


def test_each_change_is_told_with_both_values() -> None:
    (change,) = judged(made(), made(queue={"max": 9}), fleet_stopped=False)
    assert change.told()["requestedValue"] == "9"
    assert set(change.error()) == {"parameter", "currentValue", "requestedValue", "message"}
