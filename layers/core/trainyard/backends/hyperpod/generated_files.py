"""Files that the lifecycle scripts read."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from trainyard.backends import lifecycle_bundle
from trainyard.backends.hyperpod.naming import HyperPodSettings
from trainyard.domain.records import Cluster
from trainyard_contracts import places
from trainyard_contracts.files import ClusterFile, WorkerGroup
from trainyard_contracts.hyperpod import HyperPodClusterSpec, InstanceGroup


def cluster_file(cluster: Cluster, settings: HyperPodSettings) -> ClusterFile:
    """What each node of the cluster reads first."""
    spec = own_spec(cluster)
    return lifecycle_bundle.cluster_file(
        cluster.name,
        spec,
        settings,
        shared_filesystem=spec.shared_filesystem.changed(filesystem=None),
        slurm_setup=spec.slurm_setup,
        controller_group=_names(spec, "controller")[0],
        worker_groups=[
            WorkerGroup(name=group.name, partition=spec.partition_of(group))
            for group in _workers(spec)
        ],
        expected_workers=spec.worker_count(),
    )


def provisioning_parameters(spec: HyperPodClusterSpec) -> dict[str, Any]:
    """HyperPod's `provisioning_parameters.json`.

    It is for clusters whose Slurm is not set up through the API.
    """
    workers = [
        {"instance_group_name": group.name, "partition_name": spec.partition_of(group)}
        for group in _workers(spec)
    ]
    parameters: dict[str, Any] = {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": _names(spec, "controller")[0],
        "worker_groups": workers,
        "fsx_dns_name": spec.shared_filesystem.dns_name,
        "fsx_mountname": spec.shared_filesystem.mount_name,
    }
    if logins := _names(spec, "login"):
        parameters["login_group"] = logins[0]
    return parameters


def generated_files(cluster: Cluster, settings: HyperPodSettings) -> dict[str, bytes]:
    """The files of the bundle that are made of the spec, by path below the lifecycle prefix."""
    files = {places.CLUSTER_FILE: _wire(cluster_file(cluster, settings))}
    if own_spec(cluster).slurm_setup == "ProvisioningParameters":
        files["provisioning_parameters.json"] = provisioning_parameters(own_spec(cluster))
    return {path: lifecycle_bundle.as_file(content) for path, content in files.items()}


def _wire(part: BaseModel) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True)


def own_spec(cluster: Cluster) -> HyperPodClusterSpec:
    """The spec by its own class: every cluster that comes here has it."""
    assert isinstance(cluster.spec, HyperPodClusterSpec)
    return cluster.spec


def _names(spec: HyperPodClusterSpec, role: str) -> list[str]:
    return [group.name for group in spec.instance_groups if group.role == role]


def _workers(spec: HyperPodClusterSpec) -> list[InstanceGroup]:
    return [group for group in spec.instance_groups if group.role == "worker"]
