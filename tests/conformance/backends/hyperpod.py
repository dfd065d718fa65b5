"""How the stories break a SageMaker HyperPod cluster, and what it may leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.conformance import slurm
from tests.conformance.adapter import Adapter
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System

SCARCE = "ml.p5.48xlarge"


class HyperPod(Adapter):
    """A controller, two workers and a spare."""

    name: ClassVar[str] = "hyperpod"
    without: ClassVar[Mapping[str, str]] = {}

    def cluster(self, name: str) -> Json:
        return {"backend": self.name, **cluster_spec(name, workers=2, spares=1)}

    def scarce(self, system: System, name: str) -> Json:
        system.fault("no-capacity", "", instanceType=SCARCE)
        ways = [{"instanceTypes": [SCARCE], "tryForSeconds": 1}, {"instanceType": "ml.m5.xlarge"}]
        return {**self.cluster(name), "capacity": ways}

    def kill_worker(self, system: System, run: Json) -> None:
        system.fault("kill-process", run["clusterName"], run=run["id"])

    def lose_node(self, system: System, run: Json) -> None:
        lost = system.node(run["clusterName"], run["attempts"][-1]["nodes"][-1])
        system.fault("kill-node", run["clusterName"], node=lost["instanceId"])

    def tear(self, system: System, run: Json, checkpoint: Json) -> None:
        slurm.tear(system.run_dir(run["id"]), checkpoint)

    @contextmanager
    def refused(self, system: System) -> Iterator[str]:
        with system.denied("StepsRole", "sagemaker:CreateCluster"):
            yield "sagemaker:CreateCluster"

    @contextmanager
    def spoiled_export(self, system: System, run: Json) -> Iterator[None]:
        with slurm.nodes_may_not_export(system, run):
            yield

    def left(self, system: System, cluster: Json) -> list[str]:
        known = [name for name in system.backend_clusters() if name == cluster["name"]]
        return [*known, *slurm.files_and_processes(system, cluster)]

    def keeps(self, system: System, run: Json) -> list[str]:
        return slurm.checkpoints(system.run_dir(run["id"]))


ADAPTER = HyperPod()
