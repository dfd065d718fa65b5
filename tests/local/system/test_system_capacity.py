"""AWS has no capacity of the first way of a spec: the run trains on the next, and says why."""

from __future__ import annotations

from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, eventually, light_job

SCARCE = "ml.p5.48xlarge"


def test_a_run_trains_on_the_next_way_when_there_is_no_capacity_for_the_first(
    system: System,
) -> None:
    system.fault("no-capacity", "", instanceType=SCARCE)
    ways = [{"instanceTypes": [SCARCE], "tryForSeconds": 1}, {"instanceType": "ml.m5.xlarge"}]
    spec = cluster_spec("scarce", capacity=ways)
    run_id = system.submit("scarce", light_job(1, steps=5, every=5), spec)
    ended = system.ended(run_id, "Succeeded", 150)
    cluster = system.api.cluster(ended["clusterName"])
    assert (cluster["status"], cluster["generation"]) == ("Deleted", 2)
    first, second = cluster["tries"]
    assert "sufficient capacity to launch new ml.p5.48xlarge" in first["reason"]
    assert second["way"] == "ml.m5.xlarge, on demand"
    said = [line["message"] for line in system.timeline(run_id, "CapacityRefused")]
    assert len(said) == 1
    assert "AWS has no capacity for try 1 (ml.p5.48xlarge, on demand)" in said[0]
    tried = [line["message"] for line in system.timeline(run_id, "CapacityTried")]
    assert tried == [
        f"Try 1 for capacity: {SCARCE}, on demand (0 USD an hour).",
        "Try 2 for capacity: ml.m5.xlarge, on demand (0 USD an hour).",
    ]


def test_a_cluster_made_all_at_once_is_tried_in_the_next_way_too(system: System) -> None:
    system.fault("no-capacity", "", instanceType=SCARCE)
    spec = cluster_spec(
        "at-once",
        capacity=[{"instanceType": SCARCE}, {}],
        provisioning="AllAtOnce",
    )
    system.api.create_cluster(spec)
    found = eventually("it is ready, or given up", lambda: _settled(system), 120)
    assert found["status"] == "Ready", found
    assert [one["way"] for one in found["tries"]] == [
        f"{SCARCE}, on demand",
        "ml.m5.large, on demand",
    ]
    assert "sufficient capacity" in found["tries"][0]["reason"]
    system.api.delete_cluster("at-once")
    eventually("it is gone", lambda: system.api.cluster("at-once")["status"] == "Deleted", 60)


def _settled(system: System) -> Json | None:
    found = system.api.cluster("at-once")
    return found if found["status"] in ("Ready", "Deleted", "Failed") else None
