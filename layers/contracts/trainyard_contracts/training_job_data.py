"""What a training job works on: its nodes and their network, its data, checkpoints and metrics."""

from typing import Literal

from pydantic import Field
from typing_extensions import Self

from .base import Strict, rule
from .training_job_words import (
    AttributeName,
    ChannelName,
    ContentType,
    FileSystemId,
    GroupName,
    LocalDirectory,
    MetricName,
    MetricRegex,
    S3Uri,
    SecurityGroup,
    Subnet,
    TrainingInstanceType,
)


class InstanceGroup(Strict):
    """Nodes of one type in a job whose nodes are of several types."""

    name: GroupName = Field(description="of the group; no other group of the job has it")
    instance_type: TrainingInstanceType = Field(description="of each of its nodes")
    instance_count: int = Field(ge=1, description="nodes of the group")


class S3Data(Strict):
    """Objects in a bucket of the job's region."""

    uri: S3Uri = Field(description="a prefix, or a manifest")
    data_type: Literal["S3Prefix", "ManifestFile", "AugmentedManifestFile"] = Field(
        default="S3Prefix", description="what uri names"
    )
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = Field(
        default="FullyReplicated",
        description="all objects on each node, or a part of them on each node",
    )
    instance_groups: list[GroupName] = Field(
        default_factory=list, max_length=5, description="groups that get the data; default: all"
    )
    attribute_names: list[AttributeName] = Field(
        default_factory=list, max_length=16, description="AugmentedManifestFile only"
    )

    @rule
    def _attributes(self) -> Self:
        if self.attribute_names and self.data_type != "AugmentedManifestFile":
            raise ValueError("attributeNames: are for dataType 'AugmentedManifestFile' only")
        return self


class FileSystemData(Strict):
    """A directory of a filesystem, mounted on each node; the job needs a network."""

    file_system_id: FileSystemId = Field(description="of the filesystem")
    type: Literal["FSxLustre", "EFS"] = Field(default="FSxLustre", description="of the filesystem")
    directory_path: LocalDirectory = Field(
        description="of FSx for Lustre it begins with the mount name, such as /abcd1234/tokens"
    )
    access_mode: Literal["ro", "rw"] = Field(default="ro", description="read only, or writable")


class Channel(Strict):
    """Data that the program finds at /opt/ml/input/data/NAME."""

    name: ChannelName = Field(description="of the channel; no other channel of the job has it")
    s3: S3Data | None = Field(default=None, description="data in S3")
    file_system: FileSystemData | None = Field(default=None, description="data in FSx or EFS")
    content_type: ContentType | None = Field(default=None, description="MIME type of the data")
    input_mode: Literal["File", "Pipe", "FastFile"] | None = Field(
        default=None, description="S3 only; default: the job's inputMode"
    )
    compression: Literal["Gzip"] | None = Field(default=None, description="Pipe mode only")
    record_wrapper: Literal["RecordIO"] | None = Field(default=None, description="Pipe mode only")
    shuffle_seed: int | None = Field(
        default=None, ge=-(2**63), lt=2**63, description="shuffles the objects of S3 by this seed"
    )

    @rule
    def _source(self) -> Self:
        if (self.s3 is None) == (self.file_system is None):
            raise ValueError("s3: give either s3 or fileSystem")
        return self

    @rule
    def _of_s3(self) -> Self:
        given = {
            "inputMode": self.input_mode,
            "compression": self.compression,
            "recordWrapper": self.record_wrapper,
            "shuffleSeed": self.shuffle_seed,
        }
        for name, value in given.items():
            if self.s3 is None and value is not None:
                raise ValueError(f"{name}: is for data in S3 only; remove it")
        return self


class JobNetwork(Strict):
    """The VPC that the nodes join; the security group must allow all traffic to itself."""

    subnet_ids: list[Subnet] = Field(
        min_length=1, max_length=16, description="where the nodes get their addresses"
    )
    security_group_ids: list[SecurityGroup] = Field(
        min_length=1, max_length=5, description="of every node"
    )


class Spot(Strict):
    """Managed spot training: spare capacity that AWS may take back."""

    max_wait_seconds: int = Field(
        ge=1,
        description="that the job may take in all, with its waits for capacity; at least "
        "maxRuntimeSeconds",
    )


class Checkpoints(Strict):
    """Files that AWS copies to S3 while the job runs, and back when it begins again."""

    s3_uri: S3Uri = Field(description="where they are kept")
    local_path: LocalDirectory | None = Field(
        default=None, description="where the program writes them; default: /opt/ml/checkpoints"
    )


class MetricDefinition(Strict):
    """A number that AWS reads in the job's log."""

    name: MetricName = Field(description="of the metric")
    regex: MetricRegex = Field(description="that finds it; its group is the number")
