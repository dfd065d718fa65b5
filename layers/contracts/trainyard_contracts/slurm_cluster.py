"""What clusters with Slurm have in common: users, mounted buckets, partitions of workers."""

from collections.abc import Mapping

from pydantic import Field
from typing_extensions import Self

from . import spec_rules
from .base import rule
from .cluster_base import ClusterBase, GroupBase
from .cluster_parts import ClusterUser, S3Mount
from .inputs import S3Prefix
from .sharing import SharingSpec


class SlurmCluster(ClusterBase):
    """Its nodes live as long as the cluster does, and people log in to them."""

    s3_mounts: list[S3Mount] = Field(
        default_factory=list, max_length=16, description="buckets that every node can read"
    )
    users: list[ClusterUser] = Field(
        default_factory=list, max_length=256, description="people's accounts on every node"
    )
    sharing: SharingSpec = Field(
        default=SharingSpec(), description="who of those that share it has a turn when"
    )

    @rule
    def _meetings(self) -> Self:
        mounts = [mount.mount_path for mount in self.s3_mounts]
        found = {
            "s3Mounts": spec_rules.mounts_that_meet([self.shared_path, *mounts]),
            "users": spec_rules.account_taken([(user.name, user.uid) for user in self.users]),
        }
        for field, problem in found.items():
            if problem is not None:
                raise ValueError(f"{field}: {problem}")
        return self

    def read_buckets(self) -> Mapping[str, str]:
        mounts = {f"s3Mounts.{at}.bucket": one.bucket for at, one in enumerate(self.s3_mounts)}
        return {**mounts, **super().read_buckets()}

    def may_copy(self, source: S3Prefix) -> bool:
        return super().may_copy(source) or self.mounted(source) is not None

    def mounted(self, source: S3Prefix) -> str | None:
        for mount in self.s3_mounts:
            if mount.objects.holds(source):
                below = source.prefix.removeprefix(mount.objects.prefix)
                return f"{mount.mount_path}/{below}".rstrip("/")
        return None

    def mount_paths(self) -> list[str]:
        return [mount.mount_path for mount in self.s3_mounts]

    def partition_of(self, group: GroupBase) -> str:
        """The Slurm partition of a worker group."""
        return group.partition or "main"
