"""What nodes of ParallelCluster share: filesystems that exist, or are made with the cluster."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import Self

from .base import Name, Strict, matching, rule
from .cluster_parts import Mountable, MountPath
from .inputs import S3Source

#: ParallelCluster 3.16.1, SharedStorageMountDirValidator; what no other backend refuses.
RESERVED = ("/media", "/mnt", "/srv", "/opt/parallelcluster", "/opt/intel")
#: FSX_SSD_THROUGHPUT and FSX_HDD_THROUGHPUT of ParallelCluster 3.16.1, in MB/s per TiB.
THROUGHPUT = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
    ("PERSISTENT_1", "HDD"): (12, 40),
}
Change = Literal["new", "changed", "deleted"]
StorageName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,29}$",
        "must be 1 to 30 letters, digits and _ . -",
    ),
]
#: Of ParallelCluster's schema, with the length that EC2 gives ids today.
FsxId = Annotated[
    str,
    matching(
        r"^fs-[0-9a-f]{17}$", "must be the id of an FSx filesystem such as fs-0123456789abcdef0"
    ),
]
EfsId = Annotated[
    str,
    matching(
        r"^fs-[0-9a-f]{8}([0-9a-f]{9})?$",
        "must be the id of an EFS filesystem such as fs-0123456789abcdef0",
    ),
]
VolumeId = Annotated[
    str,
    matching(
        r"^vol-[0-9a-f]{8}([0-9a-f]{9})?$",
        "must be the id of an EBS volume such as vol-0123456789abcdef0",
    ),
]


class Repository(Strict):
    """A data repository association: objects below a prefix, as files below a directory."""

    source: S3Source = Field(description="s3://BUCKET/PREFIX/ whose objects are the files")
    path: Annotated[
        str,
        matching(r"^(/[A-Za-z0-9_.-]+)+$", "must be a path in the filesystem, such as /data"),
    ] = Field(description="in the filesystem, below its mount path")
    import_changes: list[Change] = Field(
        default=["new", "changed", "deleted"],
        max_length=3,
        description="changes of objects that files follow",
    )
    export_changes: list[Change] = Field(
        default_factory=list, max_length=3, description="changes of files that objects follow"
    )
    import_at_creation: bool = Field(
        default=True, description="list the objects when the filesystem is made"
    )


class FsxStorage(Strict):
    """FSx for Lustre: one that exists, by `fileSystemId` alone or by our name for it alone, or one
    made with the cluster.
    """

    file_system_id: FsxId | None = Field(
        default=None, description="of one that exists; then nothing else is given"
    )
    filesystem: Name | None = Field(
        default=None,
        description="name of a filesystem of /v1/filesystems; then nothing else is given",
    )
    capacity_gib: int | None = Field(
        default=None, ge=1200, description="1200 or a multiple of 2400, of one that is made"
    )
    deployment: Literal["SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"] = Field(
        default="SCRATCH_2", description="how long and how safely FSx keeps the data"
    )
    disks: Literal["SSD", "HDD"] = Field(
        default="SSD", description="what it is made of; HDD with PERSISTENT_1 only"
    )
    throughput: int | None = Field(
        default=None, description="in MB/s per TiB; with a PERSISTENT deployment it is needed"
    )
    compress: bool = Field(default=False, description="FSx compresses the data (LZ4)")
    import_path: S3Source | None = Field(
        default=None, description="the older form: the one prefix whose objects are its files"
    )
    export_path: S3Source | None = Field(
        default=None, description="the older form: where files are exported to"
    )
    import_changes: Literal["NEW", "NEW_CHANGED", "NEW_CHANGED_DELETED"] | None = Field(
        default=None, description="the older form: changes of objects that files follow"
    )
    repositories: list[Repository] = Field(
        default_factory=list, max_length=8, description="prefixes of buckets that it shows as files"
    )
    archive: S3Source | None = Field(
        default=None,
        description="s3://BUCKET/PREFIX/ that the whole filesystem is linked to: what is there is "
        "listed when it is made, and what it holds is exported there before the cluster is deleted",
    )
    keep: bool = Field(default=False, description="it stays when the cluster is deleted")

    @rule
    def _existing(self) -> Self:
        if self.filesystem is not None and self.model_fields_set != {"filesystem"}:
            raise ValueError(
                "filesystem: says which filesystem it is, so nothing else can be said of it; "
                "remove the other fields, or remove filesystem"
            )
        others = self.model_fields_set - {"file_system_id"}
        if self.file_system_id is not None and others:
            raise ValueError(
                "fileSystemId: is of a filesystem that exists, so nothing else can be said of it; "
                "remove the other fields, or remove fileSystemId"
            )
        if self.exists is None and self.capacity_gib is None:
            raise ValueError(
                "capacityGib: is needed for a filesystem that is made with the cluster; give 1200 "
                "or a multiple of 2400, or fileSystemId or filesystem of one that exists"
            )
        return self

    @rule
    def _data(self) -> Self:
        if self.repositories and (self.import_path or self.export_path):
            raise ValueError(
                "repositories: cannot be beside importPath and exportPath; name every prefix in "
                "repositories, or one in importPath"
            )
        if problem := _twice(self.repositories):
            raise ValueError(f"repositories: {problem}")
        if self.archive and (self.repositories or self.import_path or self.export_path):
            raise ValueError(
                "archive: is the whole filesystem's one repository, so it cannot be beside "
                "repositories, importPath and exportPath; remove them, or remove archive"
            )
        if self.archive and self.deployment == "SCRATCH_1":
            raise ValueError("archive: is not for SCRATCH_1; use another deployment")
        if self.repositories and self.deployment == "SCRATCH_1":
            raise ValueError("repositories: are not for SCRATCH_1; use another deployment")
        if (self.import_path or self.export_path) and self.deployment == "PERSISTENT_2":
            raise ValueError(
                "importPath: is not for deployment PERSISTENT_2; name the prefix in repositories"
            )
        if (self.export_path or self.import_changes) and not self.import_path:
            field = "exportPath" if self.export_path else "importChanges"
            raise ValueError(f"{field}: needs importPath, of which it says more; give that, too")
        if self.export_path and not self.export_path.startswith(f"{self._bucket}/"):
            raise ValueError(f"exportPath: must lie in importPath's bucket, {self._bucket}/")
        return self

    @rule
    def _size(self) -> Self:
        if self.exists is not None:
            return self
        known = THROUGHPUT.get((self.deployment, self.disks), ())
        if self.disks == "HDD" and not known:
            raise ValueError("disks: HDD is for deployment PERSISTENT_1 only; use SSD")
        if known and self.throughput not in known:
            raise ValueError(
                f"throughput: {self.deployment} of {self.disks} has one of {_words(known)}; "
                "give one of them"
            )
        if not known and self.throughput is not None:
            raise ValueError(
                f"throughput: {self.deployment} has no choice of it; remove it, or use PERSISTENT_2"
            )
        if problem := self._capacity():
            raise ValueError(f"capacityGib: {problem}")
        return self

    @property
    def exists(self) -> str | None:
        """Which one that exists: its id, or our name for it until it was looked up."""
        named = f"filesystem/{self.filesystem}" if self.filesystem is not None else None
        return self.file_system_id or named

    @property
    def _bucket(self) -> str:
        return "/".join((self.import_path or "").split("/")[:3])

    def _capacity(self) -> str | None:
        """The steps in which FSx has each kind (FsxStorageCapacityValidator of 3.16.1)."""
        size, step = self.capacity_gib or 0, 2400
        small: tuple[int, ...] = (1200,)
        if self.deployment == "SCRATCH_1":
            small, step = (1200, 2400), 3600
        elif self.disks == "HDD":
            small, step = (), 6000 if self.throughput == 12 else 1800
        if size in small or size % step == 0:
            return None
        before = "".join(f"{one} or " for one in small)
        return f"{size} is not offered; give {before}a multiple of {step}"


class EfsStorage(Strict):
    """Amazon EFS: one that exists, by `fileSystemId` alone, or one made with the cluster."""

    file_system_id: EfsId | None = Field(default=None, description="of one that exists")
    encrypted: bool = Field(default=True, description="at rest, of one that is made")
    keep: bool = Field(default=False, description="it stays when the cluster is deleted")

    @rule
    def _existing(self) -> Self:
        if self.file_system_id is not None and self.model_fields_set != {"file_system_id"}:
            raise ValueError(
                "fileSystemId: is of a filesystem that exists, so nothing else can be said of it; "
                "remove the other fields"
            )
        return self


class EbsStorage(Strict):
    """A volume of the head node, which it exports to all nodes by NFS."""

    volume_id: VolumeId | None = Field(
        default=None, description="of one that exists, in the head node's zone"
    )
    size_gib: int | None = Field(
        default=None, ge=1, le=16384, description="of one that is made with the cluster"
    )
    volume_type: Literal["gp3", "gp2", "io1", "io2", "st1", "sc1"] = Field(
        default="gp3", description="of one that is made"
    )
    keep: bool = Field(default=False, description="it stays when the cluster is deleted")

    @rule
    def _one(self) -> Self:
        if (self.volume_id is None) == (self.size_gib is None):
            raise ValueError(
                "sizeGib: give either sizeGib, of a volume that is made, or volumeId, of one that "
                "exists"
            )
        if self.volume_type in ("st1", "sc1") and self.size_gib and self.size_gib < 500:
            raise ValueError(f"sizeGib: a volume of {self.volume_type} has at least 500; give that")
        return self


class SharedStorage(Strict):
    """One filesystem that every node has; exactly one of fsx, efs and ebs is given."""

    name: StorageName = Field(description="of the filesystem; no other has it")
    mount_path: MountPath = Field(description="where every node has it")
    fsx: FsxStorage | None = Field(default=None, description="FSx for Lustre")
    efs: EfsStorage | None = Field(default=None, description="Amazon EFS")
    ebs: EbsStorage | None = Field(
        default=None, description="a volume of the head node, shared by NFS"
    )

    @rule
    def _one(self) -> Self:
        if sum(part is not None for part in (self.fsx, self.efs, self.ebs)) != 1:
            raise ValueError("fsx: give exactly one of fsx, efs and ebs")
        if self.name == "default":
            raise ValueError("name: 'default' is ParallelCluster's own word; choose another name")
        if self.mount_path in RESERVED or self.mount_path.startswith("/opt/parallelcluster/"):
            raise ValueError(
                f"mountPath: ParallelCluster keeps '{self.mount_path}' for itself; choose a "
                "directory of its own, such as /fsx or /shared"
            )
        return self

    @property
    def existing(self) -> str | None:
        """The id of one that exists; None if it is made with the cluster."""
        if self.ebs is not None:
            return self.ebs.volume_id
        return self.fsx.exists if self.fsx is not None else self._efs.file_system_id

    def with_filesystems(self, found: Mapping[str, Mountable]) -> Self:
        """The same with the id of a filesystem that is given by our name for it."""
        name = self.fsx.filesystem if self.fsx is not None else None
        if self.fsx is None or name is None or name not in found:
            return self
        return self.changed(fsx=self.fsx.changed(file_system_id=found[name].file_system_id))

    def as_asked(self) -> Self:
        """Without what was looked up."""
        if self.fsx is None or self.fsx.filesystem is None:
            return self
        return self.changed(fsx=FsxStorage(filesystem=self.fsx.filesystem))

    @property
    def kind(self) -> Literal["fsx", "efs", "ebs"]:
        if self.fsx is not None:
            return "fsx"
        return "efs" if self.efs is not None else "ebs"

    @property
    def _efs(self) -> EfsStorage:
        assert self.efs is not None
        return self.efs

    def buckets(self) -> dict[str, str]:
        """What is imported, by the field that names it."""
        if self.fsx is None:
            return {}
        older = {
            "importPath": self.fsx.import_path,
            "exportPath": self.fsx.export_path,
            "archive": self.fsx.archive,
        }
        named = {f"fsx.{field}": source for field, source in older.items() if source}
        newer = {
            f"fsx.repositories.{at}.source": one.source
            for at, one in enumerate(self.fsx.repositories)
        }
        return {**named, **newer}


def _twice(repositories: list[Repository]) -> str | None:
    """Each one has a directory and a prefix of its own (CreateDataRepositoryAssociation)."""
    for given in ([one.path for one in repositories], [one.source for one in repositories]):
        if twice := next((one for one in given if given.count(one) > 1), None):
            return f"'{twice}' is named twice; give each repository its own path and source"
    return None


def _words(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
