"""A cluster that others made: adopted, used, a node killed, another replaced, released."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.support.foreign_cluster import ForeignCluster
from tests.support.system import System, eventually, light_job, total

from trainyard_cli.problems import ApiProblem

NAME = "theirs"


@pytest.fixture(scope="module")
def theirs(system: System) -> Iterator[ForeignCluster]:
    cluster = ForeignCluster(system, NAME, workers=3)
    eventually("their cluster serves", cluster.serves, 90)
    yield cluster
    cluster.sagemaker.delete_cluster(ClusterName=NAME)


def state(system: System) -> str:
    return str(system.api.cluster(NAME)["status"])


@pytest.mark.long
def test_without_rights_the_missing_statements_are_named_and_nothing_is_left(
    system: System, theirs: ForeignCluster
) -> None:
    system.api.adopt_cluster({"name": NAME})
    eventually("it is given up", lambda: state(system) == "Released", 120)
    problem = system.api.cluster(NAME)["problem"]
    assert problem["code"] == "adoption-failed"
    assert "ReadBundles" in problem["detail"]
    assert theirs.leftovers() == []


def test_adopted_used_a_node_killed_another_replaced_and_released_with_nothing_left(
    system: System, theirs: ForeignCluster
) -> None:
    before = theirs.described()
    disks = {node["InstanceId"]: theirs.files(node["InstanceId"]) for node in theirs.nodes()}
    theirs.allow(system.api.plan_adoption({"name": NAME})["policy"])
    system.api.adopt_cluster({"name": NAME})
    system.cluster_ready(NAME)
    with pytest.raises(ApiProblem, match="adopted already"):
        system.api.adopt_cluster({"name": NAME})
    with pytest.raises(ApiProblem, match="does not delete it"):
        system.api.delete_cluster(NAME, force=True)

    run = system.submit("on-theirs", light_job(2, steps=60, every=5, step_seconds=0.2), NAME)
    seen = system.training(run, checkpoints=1)
    with pytest.raises(ApiProblem, match=run):
        system.api.release_cluster(NAME, force=True)
    victim = seen["attempts"][0]["nodes"][1]
    with system.job_of_a_person(NAME) as job:
        assert job
        system.fault("kill-node", NAME, node=victim)
        ended_attempt = lambda found: len(found["attempts"]) > 1  # noqa: E731
        system.until(run, "another attempt", ended_attempt)
    system.ended(run, "Succeeded", 120)
    assert system.value(run) == total(60)
    lost = next(
        node for node in system.api.nodes(NAME) if victim in (node["name"], node["address"])
    )
    assert lost["status"] in ("Failure", "Running"), "nobody replaced it: it is not ours"

    theirs.sagemaker.batch_replace_cluster_nodes(ClusterName=NAME, NodeIds=[lost["instanceId"]])
    eventually("its owner's replacement serves", theirs.serves, 90)
    system.sweep()
    known = eventually("the new node has the agent", lambda: _whole(system, theirs), 60)
    assert lost["instanceId"] not in known

    system.api.release_cluster(NAME)
    eventually("it is released", lambda: state(system) == "Released", 120)
    assert theirs.leftovers() == []
    assert theirs.described() == before
    for node in theirs.nodes():
        if node["InstanceId"] in disks:
            assert theirs.files(node["InstanceId"]) == disks[node["InstanceId"]]
    names = json.dumps(system.aws("secretsmanager").list_secrets()["SecretList"], default=str)
    assert f"/{NAME}/" not in names
    assert system.api.cluster(NAME)["adoption"]["left"] == []


def _whole(system: System, theirs: ForeignCluster) -> dict[str, dict[str, str]] | None:
    known = system.api.cluster(NAME)["adoption"]["nodes"]
    there = {node["InstanceId"] for node in theirs.nodes()}
    whole = there == set(known) and all(one["state"] == "installed" for one in known.values())
    return dict(known) if whole else None
