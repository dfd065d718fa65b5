"""A cluster of a second backend: events reach their own cluster, and its log is attended to."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from tests.support.memory import MemoryBackend
from tests.support.parallelcluster_specs import spec
from tests.support.story import Story, make_cluster, record_fact

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.facts.log_batch import envelopes
from trainyard.app.sweep.sweep import sweep
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import ClusterEvent, ClusterState, NodeHealth
from trainyard.domain.errors import BackendRejected
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard.outside.seen_events import BackendEvent
from trainyard.ports import Ports
from trainyard_contracts.cluster_specs import read_cluster_spec

NAME = "demo"


class Told(MemoryBackend):
    """Reads `aws.cloudformation` and lines of logs as facts of the cluster that they name."""

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        if envelope.get("source") not in ("aws.cloudformation", "aws.logs", "aws.ec2"):
            return None
        given = envelope["detail"]
        if envelope["source"] == "aws.logs":
            given = json.loads(given["message"])
        kinds = {"aws.cloudformation": ClusterState, "aws.logs": ClusterEvent}
        fact = kinds.get(envelope["source"], NodeHealth)(id=str(envelope["id"]), at=now)
        return BackendEvent(given["name"], given.get("arn", ""), fact, given.get("mark", ""))


class World:
    def __init__(self) -> None:
        self.story = Story()
        world = self.story.world
        self.backend = Told(world.clock, "test", "parallelcluster", world.commands)
        backends = {**world.ports.backends, "parallelcluster": self.backend}
        world.ports = replace(world.ports, backends=backends)
        self.story.machines.ports = world.ports

    @property
    def ports(self) -> Ports:
        return self.story.world.ports

    @property
    def cluster(self) -> Cluster:
        return self.story.world.clusters.stored[NAME]

    def create(self) -> Cluster:
        create_cluster(self.ports, read_cluster_spec(spec()))
        self.story.machines.run_until_rest()
        return self.cluster

    def hears(self, source: str, **detail: Any) -> str:
        envelope = {"source": source, "id": "e1", "detail": {"name": NAME, **detail}}
        return record_fact(self.ports, envelope).reason

    def facts(self) -> Book:
        return Book(self.ports.clusters.facts(NAME))


@pytest.fixture
def world() -> World:
    return World()


def test_a_cluster_is_made_in_the_backend_that_its_spec_names(world: World) -> None:
    cluster = world.create()
    assert (cluster.status, cluster.backend) == ("Creating", "parallelcluster")
    assert NAME in world.backend.clusters
    assert world.story.world.backend.clusters == {}


def test_its_log_is_attended_to_while_it_is_made(world: World) -> None:
    world.create()
    assert set(world.backend.attended) == {NAME}


def test_an_event_of_a_stack_is_no_event_of_another_backends_cluster_of_that_name(
    world: World,
) -> None:
    make_cluster(world.story, NAME)
    assert world.hears("aws.cloudformation", arn=str(world.cluster.arn)) == (
        "it is from another cluster of this name"
    )


def test_an_event_without_an_arn_is_of_the_cluster_with_its_mark(world: World) -> None:
    cluster = world.create()
    assert "another cluster" in world.hears("aws.ec2", mark="7/2020-01-01")
    assert "another cluster" in world.hears("aws.ec2")
    world.hears("aws.ec2", mark=cluster.mark)
    assert len(world.facts().of(NodeHealth)) == 1


def packed(*lines: Mapping[str, Any]) -> dict[str, Any]:
    batch = {
        "messageType": "DATA_MESSAGE",
        "owner": "1",
        "logGroup": "/g",
        "logStream": "s",
        "subscriptionFilters": ["f"],
        "logEvents": [
            {"id": str(at), "timestamp": at, "message": json.dumps(line)}
            for at, line in enumerate(lines)
        ],
    }
    return {
        "awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(batch).encode())).decode()}
    }


def test_each_line_of_a_batch_is_a_fact_once(world: World) -> None:
    cluster = world.create()
    about = {"name": NAME, "arn": cluster.arn}
    for _ in range(2):
        for envelope in envelopes(packed(about, about)):
            record_fact(world.ports, dict(envelope))
    assert len(world.facts().of(ClusterEvent)) == 2


def test_a_batch_that_could_not_be_recorded_is_recorded_by_the_sweep(world: World) -> None:
    cluster = world.create()
    letters = world.story.world.dead_letters.letters
    letters["r"] = json.dumps(packed({"name": NAME, "arn": cluster.arn}))
    sweep(world.ports)
    assert len(world.facts().of(ClusterEvent)) == 1
    assert letters == {}


def test_what_the_backend_refuses_is_the_clusters_problem(world: World) -> None:
    world.backend.refuse["create"] = BackendRejected("no API", next_step="deploy it")
    cluster = world.create()
    assert cluster.problem is not None
    assert cluster.problem.detail == "no API"
    assert cluster.status in ("Failed", "Deleting", "Deleted")


def test_a_ready_cluster_is_not_attended_to_any_more(world: World) -> None:
    world.create()
    world.backend.advance(NAME, BackendStatus.IN_SERVICE)
    detail = {
        "id": world.story.world.ids.ulid(),
        "at": world.story.at,
        "clusterName": NAME,
        "clusterArn": world.cluster.arn,
        "nodes": ["a"],
    }
    ready = {"source": "trainyard.agent", "detail-type": "ClusterReady", "id": "e"}
    record_fact(world.ports, {**ready, "detail": detail})
    world.story.machines.run_until_rest()
    assert world.cluster.status == "Ready"
    before = len(world.backend.attended)
    sweep(world.ports)
    assert len(world.backend.attended) == before
