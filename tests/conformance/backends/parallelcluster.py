"""How the stories break a cluster of AWS ParallelCluster, and what it may leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.conformance import slurm
from tests.conformance.adapter import Adapter
from tests.support.system import Json, System

#: Of a queue's nodes.
SCARCE = "c5.24xlarge"
SUBNET = "subnet-0123456789abcdef0"


class ParallelCluster(Adapter):
    """A head node and a queue of three nodes that run: two for the job, and a spare."""

    name: ClassVar[str] = "parallelcluster"
    without: ClassVar[Mapping[str, str]] = {}
    #: The looks of clustermgtd and of Slurm's power saving, which are a minute and half a minute.
    settings: ClassVar[Mapping[str, str]] = {
        "TRAINYARD_LOCAL_CLUSTERMGTD_SECONDS": "1",
        "TRAINYARD_LOCAL_POWER_SECONDS": "1",
        "TRAINYARD_LOCAL_NO_CAPACITY_SECONDS": "5",
    }

    def cluster(self, name: str) -> Json:
        queue = {
            "name": "workers",
            "instanceTypes": ["c5.xlarge"],
            "min": 3,
            "max": 4,
            "subnetIds": [SUBNET],
        }
        shared = {"name": "data", "mountPath": "/fsx", "fsx": {"fileSystemId": f"fs-{'0' * 17}"}}
        return {
            "backend": self.name,
            "name": name,
            "headNode": {"instanceType": "c5.xlarge", "subnetId": SUBNET},
            "queues": [queue],
            "sharedStorage": [shared],
            "environment": {"kind": "existing"},
        }

    def scarce(self, system: System, name: str) -> Json:
        system.fault("no-capacity", instanceType=SCARCE)
        ways = [{"instanceType": SCARCE, "tryForSeconds": 1}, {"instanceType": "c5.2xlarge"}]
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
        creates = "arn:aws:execute-api:*:*:*/POST/v3/clusters"
        with system.denied("StepsRole", "execute-api:Invoke", creates):
            yield "execute-api:Invoke"

    @contextmanager
    def spoiled_export(self, system: System, run: Json) -> Iterator[None]:
        # ParallelCluster makes the roles of all clusters below one path; the policy names the run.
        with slurm.nodes_may_not_export(system, run, "/parallelcluster/"):
            yield

    def left(self, system: System, cluster: Json) -> list[str]:
        return slurm.files_and_processes(system, cluster)

    def keeps(self, system: System, run: Json) -> list[str]:
        return slurm.checkpoints(system.run_dir(run["id"]))


ADAPTER = ParallelCluster()
