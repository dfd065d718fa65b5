"""A job has all devices and cores of its nodes, also where Slurm lets it have nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent import RUN
from tests.support.agent_cluster import AgentCluster
from tests.support.agent_jobs import event, submit
from tests.support.waiting import eventually

DEVICES = 4
LOOK = """
import json, os, subprocess
step = os.environ["SLURM_JOB_ID"] + "." + os.environ["SLURM_STEP_ID"]
show = ["scontrol", "-o", "show", "step", step]
shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
found = {
    "gpus": os.environ.get("SLURM_GPUS_ON_NODE"),
    "cores": os.environ["SLURM_CPUS_ON_NODE"],
    "step": shown,
}
name = os.environ["SLURMD_NODENAME"] + ".json"
with open(os.path.join(os.environ["TRAINYARD_OUTPUT_DIR"], name), "w") as out:
    json.dump(found, out)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    """Two workers whose Slurm gives devices and cores to whoever asks for them, and no others."""
    files = tmp_path / "cluster" / "devices"
    files.mkdir(parents=True)
    for number in range(DEVICES):
        (files / f"device{number}").touch()
    (tmp_path / "cluster" / "gres.conf").write_text(
        f"Name=gpu Type=a100 File={files}/device[0-{DEVICES - 1}]\nName=card Count=2\n"
    )
    (tmp_path / "cluster" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    settings = ("SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "GresTypes=gpu,card")
    made = AgentCluster(
        tmp_path / "cluster",
        workers=2,
        settings=settings,
        of_workers=f"Gres=gpu:a100:{DEVICES},card:2",
    )
    try:
        made.start()
        eventually("ClusterReady", lambda: made.sink.of("ClusterReady"), 20)
        yield made
    finally:
        made.stop()


def test_a_jobs_step_has_every_device_and_core_of_its_nodes(cluster: AgentCluster) -> None:
    files = {"look.py": LOOK}
    assert "jobId" in submit(cluster, nodes=2, program=["look.py"], files=files, arguments=[])
    event(cluster, "AttemptEnded", outcome="succeeded")
    output = cluster.shared / "trainyard/runs" / RUN / "output"
    found = eventually(
        "what the job saw",
        lambda: [json.loads(path.read_text()) for path in output.glob("*.json")],
        5,
    )
    assert [(one["gpus"], one["cores"]) for one in found] == [(str(DEVICES), "2")] * 2, found
    assert all(f"TresPerNode=gres:card:2,gres:gpu:{DEVICES}" in one["step"] for one in found), found
