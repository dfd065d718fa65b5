"""AWS has no capacity in one backend: whole specs of others, never two clusters at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.memory import MemoryBackend
from tests.support.parallelcluster_specs import spec
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, run_spec
from tests.support.training_jobs import spec_fields

from trainyard.app.runs.dry_run import dry_run_run
from trainyard.app.runs.resume_run import resume_run
from trainyard.domain import capacity
from trainyard.domain.states import BackendStatus
from trainyard.http.problems import invalid_request

NONE = "We currently do not have sufficient capacity for the requested instance type(s)."
QUEUES = spec(name="demo", fsx={"fileSystemId": "fs-0123456789abcdef0"})
JOBS = spec_fields(name="demo", framework=None, image="1.dkr.ecr.us-east-1.amazonaws.com/a:1")


def cluster(*otherwise: dict[str, Any], **first: Any) -> dict[str, Any]:
    return {"spec": cluster_spec("demo", workers=2, **first), "otherwise": list(otherwise)}


class TwoBackends(Story):
    """HyperPod first, then ParallelCluster."""

    def begin(self, **extra: Any) -> TwoBackends:
        world = self.world
        self.other = MemoryBackend(world.clock, "test", "parallelcluster", world.commands)
        backends = {**world.ports.backends, "parallelcluster": self.other}
        world.ports = replace(world.ports, backends=backends)
        self.machines.ports = world.ports
        self.submit(cluster=cluster(QUEUES), **extra)
        self.rest()
        return self

    def goes_on_elsewhere(self) -> None:
        self.world.backend.advance(self.cluster.name, BackendStatus.FAILED, NONE)
        self.pass_time(61)
        self.pass_time(3)
        self.other.advance(self.cluster.name, BackendStatus.IN_SERVICE)
        self.send("ClusterReady", nodes=["a", "b"])
        self.rest()


@pytest.fixture
def story() -> TwoBackends:
    return TwoBackends().begin()


def test_a_run_trains_in_another_backend_when_the_first_has_no_capacity(
    story: TwoBackends,
) -> None:
    assert story.cluster.backend == "hyperpod"
    story.goes_on_elsewhere()
    assert (story.cluster.backend, story.cluster.generation) == ("parallelcluster", 2)
    assert (len(story.world.backend.clusters), len(story.other.clusters)) == (0, 1)
    story.training()
    story.end()
    assert (story.run.status, story.cluster.status) == ("Succeeded", "Deleted")
    assert "Try 1 for capacity: hyperpod: ml.m5.large" in story.said
    assert "Try 2 for capacity: parallelcluster: c5.xlarge" in story.said
    assert (story.world.backend.beside, story.other.beside) == ({}, {})


def test_a_run_that_trained_elsewhere_is_resumed_there(story: TwoBackends) -> None:
    story.goes_on_elsewhere()
    story.training()
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    resumed = resume_run(story.world.ports, story.run_id)
    assert resumed.spec.cluster.spec is not None
    assert resumed.spec.cluster.spec.backend == "parallelcluster"
    assert resumed.spec.cluster.otherwise == []


def test_what_was_trained_binds_the_next_ways_to_its_backend(story: TwoBackends) -> None:
    ways = {"spec": {**JOBS, "capacity": [{}, {"market": "spot"}]}, "otherwise": [QUEUES]}
    given = run_spec(cluster=ways).cluster
    assert given.spec is not None
    names = [way.words for way in capacity.all_ways(given.spec, given.otherwise)]
    assert [name.partition(":")[0] for name in names] == [
        "training-job",
        "training-job",
        "parallelcluster",
    ]
    made = story.cluster.changed(
        spec=given.spec.ways[1].spec,
        asked=given.spec,
        otherwise=given.otherwise,
        tries=[story.cluster.tries[0].changed(number=2, way=names[1])],
    )
    now, until = story.world.clock.now(), made.try_until
    free = capacity.next_try(capacity.wanting(made, NONE, now, until), now)
    bound = capacity.next_try(capacity.wanting(made, NONE, now, until, bound=True), now)
    assert free is not None
    assert bound is not None
    assert (free.number, free.way) == (3, names[2])
    assert (bound.number, bound.way) == (4, names[0])
    assert bound.began_at > free.began_at, "its turn is in the next round"


def test_a_dry_run_compares_the_backends(story: TwoBackends) -> None:
    given = cluster(QUEUES, capacity=[{}, {"market": "spot"}])
    plan = dry_run_run(story.world.ports, run_spec(cluster=given))
    assert [(one.backend, one.way) for one in plan.ways] == [
        ("hyperpod", "hyperpod: ml.m5.large, on demand"),
        ("hyperpod", "hyperpod: ml.m5.large, spot"),
        ("parallelcluster", "parallelcluster: c5.xlarge"),
    ]
    assert all(one.request and one.cannot for one in plan.ways)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"name": "shared", "otherwise": [QUEUES]},
            "cluster.otherwise: is for a cluster that is made for the run; give spec, too",
        ),
        (
            cluster({**QUEUES, "name": "another"}),
            "cluster.otherwise.0.name: it is the same cluster, made elsewhere; give it the name "
            "of spec, 'demo'",
        ),
        (
            cluster({**JOBS, "instanceCount": 5}),
            "cluster.otherwise.0: this run cannot be of backend 'training-job': job.nodes",
        ),
    ],
)
def test_specs_that_the_run_cannot_use_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        run_spec(cluster=given)
    assert words in invalid_request(refused.value.errors()).detail
