"""A local HyperPod without an instance of a type tries workers for ever; only an event says why."""

from __future__ import annotations

from pathlib import Path

from tests.support.node_cloud import NodeCloud
from tests.support.waiting import eventually

from trainyard_local.sagemaker.capacity import Capacity


def test_why_there_is_no_worker_is_told_by_a_described_event_only(tmp_path: Path) -> None:
    nodes = NodeCloud(tmp_path, capacity=Capacity(["ml.p5.48xlarge"]))
    try:
        request = nodes.request("scarce", workers=1)
        request["InstanceGroups"][1]["InstanceType"] = "ml.p5.48xlarge"
        nodes.sagemaker.create_cluster(**request)
        cluster = nodes.hyperpod.find("scarce")
        sent = eventually(
            "a failure is told",
            lambda: [
                d["EventDetails"] for _, d in list(nodes.events) if "Failed to provision" in str(d)
            ],
        )
        assert sent[0]["EventDetails"] == {"EventMetadata": None}
        described = nodes.sagemaker.describe_cluster_event(
            ClusterName="scarce", EventId=sent[0]["EventId"]
        )["EventDetails"]
        assert (
            "sufficient capacity"
            in described["EventDetails"]["EventMetadata"]["Instance"]["FailureMessage"]
        )
        eventually("it is tried again", lambda: len(cluster.event_reasons) > 6)
        assert cluster.status == "InService"
    finally:
        nodes.close()
