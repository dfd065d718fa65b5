"""What sbatch is asked for."""

from __future__ import annotations

from pathlib import Path

from tests.support.agent import RUN

from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt_files import sbatch_options
from trainyard_contracts.job_bundle import JobBundle


def test_slurm_is_not_asked_to_exclude_a_node_that_it_does_not_know() -> None:
    bundle = JobBundle(
        run_id=RUN, attempt=2, cluster_name="c", batch_script="", nodes=1, processes_per_node=1,
        program=["x"], exclude_nodes=["gone", "ip-1"], down_nodes=["ip-1"],
    )  # fmt: skip
    one, two = (SlurmNode(name, "idle+cloud", "10.0.0.1", 6818) for name in ("ip-1", "ip-2"))
    assert "--exclude=ip-1" in sbatch_options(bundle, Path("/a"), {"ip-1": one, "ip-2": two})
    assert "--exclude=gone,ip-1" in sbatch_options(bundle, Path("/a"), {})
    assert not [
        option
        for option in sbatch_options(bundle, Path("/a"), {"ip-2": two})
        if option.startswith("--exclude")
    ]


def test_a_job_asks_for_all_devices_that_every_node_of_its_partition_has() -> None:
    bundle = JobBundle(
        run_id=RUN, attempt=2, cluster_name="c", batch_script="", nodes=1, processes_per_node=1,
        program=["x"], partition="gpus", exclude_nodes=["ip-3"],
    )  # fmt: skip
    whole, half, lost, other = (
        SlurmNode(f"ip-{number}", "idle+cloud", "10.0.0.1", 6818, partitions=partitions, gres=gres)
        for number, partitions, gres in (
            (1, ("dev", "gpus"), "gpu:h100:8(S:0-1),nic:2"), (2, ("gpus",), "gpu:a100:4"),
            (3, ("gpus",), "(null)"), (4, ("dev",), ""),
        )
    )  # fmt: skip
    asked = sbatch_options(
        bundle, Path("/a"), {node.name: node for node in (whole, half, lost, other)}
    )
    assert [option for option in asked if option.startswith("--gres")] == ["--gres=gpu:4"]
    without = sbatch_options(
        bundle.model_copy(update={"exclude_nodes": []}),
        Path("/a"),
        {node.name: node for node in (whole, lost)},
    )
    assert not [option for option in without if option.startswith("--gres")]
