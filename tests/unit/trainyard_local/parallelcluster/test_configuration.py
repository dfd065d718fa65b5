"""Of a configuration the local cloud reads queues, scripts, permissions and settings of Slurm."""

from __future__ import annotations

from tests.support.parallelcluster_specs import RICH, SETTINGS, making, spec

from trainyard.backends.parallelcluster.config import configuration, document
from trainyard_local.parallelcluster.configuration import is_static, read


def test_what_our_backend_writes_is_read_whole() -> None:
    made = making(spec(queue={"min": 1, "max": 3, "capacity": "spot"}))
    found = read(document(made), configuration(made))
    (queue,) = found.queues
    assert (queue.name, queue.types, queue.spot) == ("workers", ("c5.xlarge",), True)
    assert queue.static() == ["workers-st-nodes-1"]
    assert queue.dynamic() == ["workers-dy-nodes-1", "workers-dy-nodes-2"]
    assert list(found.node_names()) == [*queue.static(), *queue.dynamic()]
    assert found.head_scripts[0].arguments[-1] == "controller"
    assert queue.scripts[0].arguments[-1] == "worker"
    assert found.storage == (("scratch", "/fsx"),)
    assert found.boundary == SETTINGS.node_boundary_arn
    assert found.slurm_settings["EpilogSlurmctld"] == "/opt/trainyard/bin/slurm-job-end"
    assert found.tags == made.tags


def test_each_queue_of_a_rich_one_has_its_own() -> None:
    found = read("", configuration(making(RICH)))
    assert [queue.name for queue in found.queues] == [one["name"] for one in RICH["queues"]]
    name = found.queues[0].static()[0]
    assert found.queue_of(name) == found.queues[0]


def test_static_nodes_are_told_by_their_names() -> None:
    assert is_static("a-st-b-st-nodes-1")
    assert is_static("queue-st-nodes-12")
    assert not is_static("queue-dy-nodes-1")
    assert not is_static("ip-10-0-0-1")
