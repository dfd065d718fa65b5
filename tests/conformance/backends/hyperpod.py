"""How the stories break a SageMaker HyperPod cluster, and what it may leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.conformance.slurm import OnSlurm
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System

SCARCE = "ml.p5.48xlarge"


class HyperPod(OnSlurm):
    """A controller, two workers and a spare."""

    name: ClassVar[str] = "hyperpod"
    without: ClassVar[Mapping[str, str]] = {}

    def cluster(self, name: str) -> Json:
        return {"backend": self.name, **cluster_spec(name, workers=2, spares=1)}

    def scarce(self, system: System, name: str) -> Json:
        system.fault("no-capacity", "", instanceType=SCARCE)
        ways = [{"instanceTypes": [SCARCE], "tryForSeconds": 1}, {"instanceType": "ml.m5.xlarge"}]
        return {**self.cluster(name), "capacity": ways}

    @contextmanager
    def refused(self, system: System) -> Iterator[str]:
        with system.denied("StepsRole", "sagemaker:CreateCluster"):
            yield "sagemaker:CreateCluster"

    def roles(self, run: Json) -> str:
        return f"/trainyard/trainyard/{run['clusterName']}/"

    def left(self, system: System, cluster: Json) -> list[str]:
        known = [name for name in system.backend_clusters() if name == cluster["name"]]
        return [*known, *super().left(system, cluster)]


ADAPTER = HyperPod()
