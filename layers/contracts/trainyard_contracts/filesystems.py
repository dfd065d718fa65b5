"""A filesystem with a life of its own: what a person asks for, before FSx is asked."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from typing_extensions import Self

from . import spec_rules
from .base import Name, Strict, matching, rule
from .cluster_parts import SecurityGroupId, SubnetId
from .inputs import S3Source

Change = Literal["new", "changed", "deleted"]
Deployment = Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
#: Of FSx (CreateFileSystem, PerUnitStorageThroughput of SSD), in MB/s per TiB.
THROUGHPUT: dict[str, tuple[int, ...]] = {
    "PERSISTENT_1": (50, 100, 200),
    "PERSISTENT_2": (125, 250, 500, 1000),
    "SCRATCH_2": (),
}
#: Of FSx (CreateFileSystem, StorageCapacity of SSD), in GiB.
SMALLEST_GIB, STEP_GIB = 1200, 2400
#: Below the repository's prefix: where FSx writes which files an export could not copy.
REPORTS = "trainyard-export-reports/"


class DataRepository(Strict):
    """Objects below a prefix, as the files of the whole filesystem."""

    source: S3Source = Field(
        description="s3://BUCKET/PREFIX/: its objects are files when the filesystem is made, and "
        "exports go there"
    )
    import_changes: list[Change] = Field(
        default=["new", "changed"],
        max_length=3,
        description="changes of objects that files follow by themselves; with 'deleted', a file "
        "goes when its object does",
    )
    export_changes: list[Change] = Field(
        default_factory=list,
        max_length=3,
        description="changes of files that objects follow by themselves; default: only exports "
        "change objects",
    )

    @rule
    def _once(self) -> Self:
        for field, given in (
            ("importChanges", self.import_changes),
            ("exportChanges", self.export_changes),
        ):
            if len(set(given)) != len(given):
                raise ValueError(f"{field}: names a change twice; name each once")
        return self


class FilesystemSpec(Strict):
    """An FSx for Lustre filesystem that several clusters share and that outlives them."""

    name: Name = Field(description="of the filesystem; clusters name it by that")
    storage_gib: int = Field(
        default=SMALLEST_GIB, description="1200, 2400 or more in steps of 2400; billed as a whole"
    )
    deployment: Deployment = Field(
        default="PERSISTENT_2",
        description="how safely FSx keeps the data; SCRATCH_2 keeps no second copy",
    )
    throughput: int | None = Field(
        default=None,
        description="in MB/s per TiB; default: the least that the deployment has",
    )
    compress: bool = Field(default=True, description="FSx compresses the data (LZ4)")
    subnet_id: SubnetId | None = Field(
        default=None,
        description="its zone is the filesystem's; default: the first of the stack's SubnetIds",
    )
    security_group_ids: list[SecurityGroupId] | None = Field(
        default=None,
        min_length=1,
        max_length=5,
        description="they must let the nodes reach ports 988 and 1018 to 1023; default: the "
        "stack's SecurityGroupIds",
    )
    repository: DataRepository | None = Field(
        default=None, description="the bucket that it is linked to; default: none"
    )
    nightly_export: (
        Annotated[
            str,
            matching(
                r"^([01][0-9]|2[0-3]):[0-5][0-9]Z$", "must be a time of day in UTC such as 02:00Z"
            ),
        ]
        | None
    ) = Field(default=None, description="each day at this time what changed is exported")
    deletion_policy: Literal["export", "keep"] = Field(
        default="export",
        description="'export': what it holds is exported before it is deleted; 'keep': it is not "
        "deleted at all",
    )
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = Field(default_factory=dict, max_length=40, description="at AWS, beside ours")

    @rule
    def _size(self) -> Self:
        if self.storage_gib != SMALLEST_GIB and (
            self.storage_gib < STEP_GIB or self.storage_gib % STEP_GIB
        ):
            raise ValueError(
                f"storageGib: {self.storage_gib} is not offered; give {SMALLEST_GIB} or a "
                f"multiple of {STEP_GIB}"
            )
        known = THROUGHPUT[self.deployment]
        if not known and self.throughput is not None:
            raise ValueError(
                f"throughput: {self.deployment} has no choice of it; remove it, or use PERSISTENT_2"
            )
        if self.throughput is not None and self.throughput not in known:
            offered = ", ".join(map(str, known))
            raise ValueError(
                f"throughput: {self.deployment} has one of {offered}; give one of them"
            )
        return self

    @rule
    def _exports(self) -> Self:
        if self.nightly_export is None:
            return self
        if self.repository is None:
            raise ValueError(
                "nightlyExport: needs a repository to export to; give repository.source, or "
                "remove it"
            )
        if self.repository.export_changes:
            raise ValueError(
                "nightlyExport: FSx exports changes by itself already (repository.exportChanges), "
                "and cannot do both at once; remove one of the two"
            )
        return self

    @rule
    def _tags(self) -> Self:
        if problem := spec_rules.tags_not_ours(self.tags):
            raise ValueError(f"tags: {problem}")
        return self

    @property
    def unit_throughput(self) -> int | None:
        """What FSx is asked for, in MB/s per TiB; None where it has no choice."""
        known = THROUGHPUT[self.deployment]
        return self.throughput or (known[0] if known else None)
