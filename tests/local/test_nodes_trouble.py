"""Local clusters in trouble while made and ended: hung scripts, early deletion, a server's end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node_cloud import NodeCloud
from tests.support.waiting import eventually


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[NodeCloud]:
    cloud = NodeCloud(tmp_path / "state", lifecycle_timeout_seconds=1.5, duplicate_events=True)
    yield cloud
    cloud.close()
    assert cloud.leftovers() == []


def test_a_hanging_lifecycle_script_is_ended_and_the_log_says_so(nodes: NodeCloud) -> None:
    nodes.files["on_create.sh"] = b"#!/bin/bash\necho waiting for the end\nsleep 300 & sleep 301\n"
    nodes.sagemaker.create_cluster(**nodes.request("hanging", workers=1))
    cluster = nodes.hyperpod.find("hanging")
    eventually("failed", lambda: cluster.status == "Failed")
    assert "waiting for the end" in nodes.log_text(cluster)
    assert "on_create.sh did not finish within 1.5 seconds" in nodes.log_text(cluster)
    nodes.delete("hanging")


def test_a_deletion_does_not_wait_for_a_hanging_script(nodes: NodeCloud) -> None:
    nodes.files["on_create.sh"] = (
        b"#!/bin/bash\n[[ $TRAINYARD_ADDRESS == *.10 ]] && exit 0\nsleep 302\n"
    )
    nodes.sagemaker.create_cluster(**nodes.request("hanging", workers=1))
    cluster = nodes.hyperpod.find("hanging")
    eventually("in service", lambda: cluster.status == "InService")
    nodes.delete("hanging")
    assert not cluster.directory.exists()


def test_a_script_that_is_missing_or_leaves_its_directory_fails_the_cluster(
    nodes: NodeCloud,
) -> None:
    for files, words in (
        ({}, "on_create.sh was not found in the provided S3 path"),
        ({"../evil": b""}, "leaves the lifecycle directory"),
    ):
        nodes.files = files
        nodes.sagemaker.create_cluster(**nodes.request("empty", workers=1))
        cluster = nodes.hyperpod.find("empty")
        eventually("failed", lambda cluster=cluster: cluster.status == "Failed")
        assert words in nodes.log_text(cluster)
        nodes.delete("empty")


def test_state_changes_may_come_twice(nodes: NodeCloud) -> None:
    nodes.files = {}
    nodes.sagemaker.create_cluster(**nodes.request("twice", workers=1))
    eventually(
        "each event twice",
        lambda: nodes.statuses("twice") == ["Creating", "Creating", "Failed", "Failed"],
    )


def test_the_end_of_the_cloud_ends_clusters_in_every_state(nodes: NodeCloud) -> None:
    ready = nodes.create("ready", workers=1)
    nodes.submit(ready)
    nodes.sagemaker.create_cluster(**nodes.request("in-the-making", workers=2))
    nodes.close()
    assert nodes.leftovers() == []
    assert list((nodes.cloud.state_dir / "clusters").iterdir()) == []
