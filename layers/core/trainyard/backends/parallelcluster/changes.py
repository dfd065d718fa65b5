"""Gives a cluster that is there another configuration, and stops and starts its compute fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from trainyard.backends.parallelcluster.answers import ClusterDescription
from trainyard.backends.parallelcluster.api import ParallelClusterApi
from trainyard.backends.parallelcluster.config import configuration, document
from trainyard.backends.parallelcluster.failures import why_it_was_undone
from trainyard.backends.parallelcluster.fields import words_of
from trainyard.backends.parallelcluster.making import Making, ParallelClusterSettings, making_of
from trainyard.backends.parallelcluster.node_files import generated_files
from trainyard.backends.parallelcluster.refusals import Gone, Invalid, NoChanges
from trainyard.domain.records import Cluster
from trainyard.outside.blobs import Blobs
from trainyard.outside.changes import ChangePlan, ChangeSeen
from trainyard.outside.seen_clusters import BackendRequest
from trainyard_contracts import places
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.parallelcluster import ParallelClusterSpec

#: The stack's words at which a change is over.
_OVER: Mapping[str, Literal["complete", "rolled-back", "failed"]] = {
    "CREATE_COMPLETE": "complete",
    "UPDATE_COMPLETE": "complete",
    "UPDATE_ROLLBACK_COMPLETE": "rolled-back",
    "UPDATE_FAILED": "failed",
    "UPDATE_ROLLBACK_FAILED": "failed",
}
#: A fleet in protected mode serves its other queues.
_FLEETS: Mapping[str, Literal["running", "stopped"]] = {
    "RUNNING": "running",
    "PROTECTED": "running",
    "STOPPED": "stopped",
}
_MEANWHILE = (
    "The compute fleet is stopped for it, which ends all workers, and started again afterwards."
)


class ClusterChanges:
    """The port `Changes`. `api` gives the client, or refuses where the stack knows none."""

    def __init__(
        self,
        api: Callable[[], ParallelClusterApi],
        blobs: Blobs,
        settings: ParallelClusterSettings,
    ) -> None:
        self._api, self._blobs, self._settings = api, blobs, settings

    def plan(self, cluster: Cluster, wanted: ClusterBase) -> ChangePlan:
        """ParallelCluster is asked as if the fleet were as it is.

        Where all that it minds is a fleet that runs, the fleet is to be stopped.
        """
        making = self._making(cluster, wanted)
        try:
            said = self._api().update_dry_run(cluster.name, document(making))
        except NoChanges:
            return ChangePlan(self._request(making, []), nothing=True)
        except Invalid as refused:
            if not refused.needs_stop:
                raise refused.told_of(making.spec) from refused
            minds = [f"{one.parameter}: {one.message}" for one in refused.updates]
            return ChangePlan(self._request(making, [_MEANWHILE, *minds]), stops_fleet=True)
        words = [words_of(making.spec, finding) for finding in said.findings]
        return ChangePlan(self._request(making, words))

    def apply(self, cluster: Cluster, wanted: ClusterBase) -> bool:
        """The head node reads its files again once its Slurm has the new configuration."""
        making = self._making(cluster, wanted)
        self._write(making)
        try:
            self._api().update(cluster.name, document(making))
        except NoChanges:
            return False
        except Invalid as refused:
            raise refused.told_of(making.spec) from refused
        return True

    def restore(self, cluster: Cluster) -> None:
        self._write(making_of(cluster, self._settings))

    def look(self, cluster: Cluster) -> ChangeSeen | None:
        try:
            known = self._api().describe(cluster.name)
        except Gone:
            return None
        if known.cloudformation_stack_arn != cluster.arn:
            return None
        over = _OVER.get(known.cloudformation_stack_status)
        undone = over in ("rolled-back", "failed")
        return ChangeSeen(
            state=over or "changing",
            fleet=_FLEETS.get(known.compute_fleet_status) or "changing",
            said=_said(known),
            reason=why_it_was_undone(self._api(), cluster.name) if undone else "",
            updated=known.last_updated_time or "",
        )

    def set_fleet(self, cluster: Cluster, *, running: bool) -> None:
        self._api().set_fleet(cluster.name, running=running)

    def _making(self, cluster: Cluster, wanted: ClusterBase) -> Making:
        """Of the same record and generation: name, tags, policy and bundle stay."""
        assert isinstance(wanted, ParallelClusterSpec)
        return making_of(cluster.changed(spec=wanted), self._settings)

    def _request(self, making: Making, warnings: Sequence[str]) -> BackendRequest:
        request = {
            "clusterName": making.spec.name,
            "clusterConfiguration": configuration(making),
        }
        files = {key: len(body) for key, body in _files(making).items()}
        return BackendRequest("UpdateCluster", request, files, warnings)

    def _write(self, making: Making) -> None:
        for key, body in _files(making).items():
            self._blobs.put(key, body)


def _files(making: Making) -> dict[str, bytes]:
    """Those made of the spec: nodes keep the agent that the cluster was made with."""
    prefix = places.lifecycle_prefix(making.spec.name, making.generation)
    return {f"{prefix}/{path}": body for path, body in generated_files(making).items()}


def _said(known: ClusterDescription) -> str:
    fleet = f", its fleet {known.compute_fleet_status}" if known.compute_fleet_status else ""
    return f"{known.cloudformation_stack_status}{fleet}"
