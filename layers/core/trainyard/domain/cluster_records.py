"""A cluster."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.adoption_records import Adoption
from trainyard.domain.archive_records import Archive
from trainyard.domain.change_records import CapacityTry, ClusterChange
from trainyard.domain.record import Problem, Record
from trainyard_contracts import places
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingSpec
from trainyard_contracts.slurm_cluster import SlurmCluster

ClusterStatus = Literal[
    "Pending",
    "Creating",
    "InService",
    "Ready",
    "Updating",
    "Stopped",
    "Failed",
    "Deleting",
    "Deleted",
]


class Cluster(Record):
    """A cluster we made (or are making). Only the cluster and teardown state machines write it."""

    name: str
    spec: ClusterSpec
    labels: dict[str, str] = Field(
        default_factory=dict, description="as people changed them since; the spec has the first"
    )
    status: ClusterStatus = "Pending"
    generation: int = 1
    version: int = 0
    created_at: datetime
    created_by: Person | None = Field(
        default=None,
        description="whose it is; null: an older version did not keep it. A run's own cluster is "
        "that of the run's owner, whatever is here",
    )
    shared_with: list[str] = Field(
        default_factory=list, description="patterns of ARNs of others who may change it"
    )
    updated_at: datetime
    arn: str | None = None
    owner_run: str | None = Field(
        default=None, description="the run it was made for; None = stands on its own"
    )
    ready_at: datetime | None = None
    last_used_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    create_requested: bool = False
    asked: ClusterSpec | None = Field(
        default=None,
        description="what was asked for, where spec is one of the ways that it names, or a person "
        "has updated it since",
    )
    otherwise: list[ClusterSpec] = Field(
        default_factory=list, description="whole specs that are tried after all ways of asked"
    )
    bound: bool = Field(
        default=False,
        description="only ways of this backend are tried: others lack what was trained",
    )
    tries: list[CapacityTry] = Field(default_factory=list)
    try_until: datetime | None = Field(
        default=None, description="no way is tried any more, and none lasts longer"
    )
    not_before: datetime | None = Field(
        default=None, description="it is not created earlier: AWS had no capacity in any way"
    )
    given_up: bool = Field(default=False, description="nobody wants another try")
    warnings: list[str] = Field(
        default_factory=list, description="what could surprise who asked for it, said then"
    )
    signs_events: bool = Field(
        default=False, description="its agents sign what they report; older ones do not"
    )
    delete_requested_at: datetime | None = None
    delete_asked: bool = Field(
        default=False,
        description="its deletion was asked for while the machine of an earlier one still ran",
    )
    delete_forced: bool = Field(
        default=False, description="a person gave up what only it holds, and people's jobs on it"
    )
    deleted_by: Person | None = Field(default=None, description="who asked for its deletion")
    sharing: SharingSpec | None = Field(
        default=None, description="as people changed it since; null: as the spec has it"
    )
    archive: Archive | None = Field(
        default=None, description="of its own filesystem, where the spec names an archive"
    )
    adoption: Adoption | None = Field(
        default=None, description="of a cluster that others made; null: we made it"
    )
    machine_tries: int = Field(
        default=0, description="restarts of its state machines; part of their execution names"
    )
    problem: Problem | None = None
    change: ClusterChange | None = Field(default=None, description="the newest one")
    idempotency_key: str | None = Field(default=None, description="of the request that made it")

    @property
    def backend(self) -> str:
        """The name of the backend that it lives in."""
        return self.spec.backend

    @property
    def id(self) -> str | None:
        """Last segment of the ARN, the id Session Manager targets use."""
        return self.arn.rsplit("/", 1)[-1] if self.arn else None

    @property
    def idle_since(self) -> datetime:
        """When its idle time began, if nobody uses it now."""
        moments = (self.last_used_at, self.ready_at, self.created_at)
        return max(moment for moment in moments if moment is not None)

    @property
    def shared_by(self) -> SharingSpec:
        """Who has a turn when."""
        if self.sharing is not None:
            return self.sharing
        return self.spec.sharing if isinstance(self.spec, SlurmCluster) else SharingSpec()

    @property
    def filesystem(self) -> str:
        """The shared filesystem that its nodes mount; one made with it is this generation's."""
        return self.spec.filesystem or f"{self.name}/{self.generation}"

    @property
    def mark(self) -> str:
        """The value of RECORD_TAG: the record's generation and the moment at which it was made."""
        return mark_of(self.generation, self.created_at)

    @property
    def restoring(self) -> bool:
        """What its archive holds is not listed yet, as far as is known."""
        return bool(self.spec.archive) and (
            self.archive is None or self.archive.restored_at is None
        )

    @property
    def unarchived(self) -> bool:
        """Its own filesystem may hold what its archive does not."""
        if not self.spec.archive or self.ready_at is None or self.delete_forced:
            return False
        return not self._archived

    @property
    def lost_archive(self) -> bool:
        """Its own filesystem is gone, or goes, and its archive may lack what that held."""
        if not self.spec.archive or self.ready_at is None or self._archived:
            return False
        return self.status == "Deleted" or (self.status == "Deleting" and self.delete_forced)

    @property
    def went_unarchived(self) -> bool:
        """What its runs left went with its own filesystem, and the archive may lack it."""
        return self.filesystem == self.spec.archive and self.lost_archive

    @property
    def _archived(self) -> bool:
        export = self.archive.export if self.archive is not None else None
        return export is not None and export.state == "verified"

    @property
    def possible_specs(self) -> list[ClusterSpec]:
        """What it is, and what a later try may make of it."""
        if not self.tries or self.given_up:
            return [self.spec]
        return [self.spec, *([self.asked] if self.asked else []), *self.otherwise]

    @property
    def status_if_kept(self) -> ClusterStatus:
        """What it is again if its deletion is given up: as its newest change left or has it."""
        change = self.change
        if change is None:
            return "Ready"
        if not change.over and change.state != "waiting":
            return "Updating"
        if change.state in ("waiting", "refused", "withdrawn"):
            return change.was
        return "Stopped" if change.fleet == "stopped" else "Ready"

    def tags(self, stage: str) -> dict[str, str]:
        """Of all that a backend makes for it: the user's, and those by which we know ours."""
        ours = {
            places.STAGE_TAG: stage,
            places.CLUSTER_TAG: self.name,
            places.RECORD_TAG: self.mark,
        }
        run = {places.RUN_TAG: self.owner_run} if self.owner_run else {}
        return {**self.spec.tags, **ours, **run}

    def is_marked(self, tags: Mapping[str, str]) -> bool:
        """Whether these tags are of the very cluster that was asked for with this record."""
        return tags.get(places.RECORD_TAG) == self.mark


def mark_of(generation: int, created_at: datetime) -> str:
    """The `mark` of a cluster's record."""
    return f"{generation}/{created_at.isoformat()}"
