"""How the stories break a cluster of AWS ParallelCluster, and what it may leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.conformance.slurm import OnSlurm
from tests.support.system import Json, System

#: Of a queue's nodes.
SCARCE = "c5.24xlarge"
SUBNET = "subnet-0123456789abcdef0"


class ParallelCluster(OnSlurm):
    """A head node and a queue of three nodes that run: two for the job, and a spare."""

    name: ClassVar[str] = "parallelcluster"
    without: ClassVar[Mapping[str, str]] = {}
    #: The looks of clustermgtd and of Slurm's power saving, which are a minute and half a minute.
    settings: ClassVar[Mapping[str, str]] = {
        "TRAINYARD_LOCAL_CLUSTERMGTD_SECONDS": "1",
        "TRAINYARD_LOCAL_POWER_SECONDS": "1",
        "TRAINYARD_LOCAL_SUSPEND_SECONDS": "3",
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

    def take_back(self, system: System, run: Json) -> None:
        """EC2 gives notice to one of the run's nodes, which is a spot instance."""
        lost = system.node(run["clusterName"], run["attempts"][-1]["nodes"][-1])
        system.fault("interrupt-spot", run["clusterName"], node=lost["instanceId"])

    @contextmanager
    def refused(self, system: System) -> Iterator[str]:
        creates = "arn:aws:execute-api:*:*:*/POST/v3/clusters"
        with system.denied("StepsRole", "execute-api:Invoke", creates):
            yield "execute-api:Invoke"

    def roles(self, run: Json) -> str:
        # ParallelCluster makes the roles of all clusters below one path; the policy names the run.
        return "/parallelcluster/"


ADAPTER = ParallelCluster()
