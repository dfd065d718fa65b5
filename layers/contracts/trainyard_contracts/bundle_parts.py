"""Parts of a job's bundle: its code, image, data, and the checkpoint that it starts from."""

from pydantic import Field

from .base import Lenient, Sha256Hex


class BundleCode(Lenient):
    """The upload that becomes the working directory: tree and packs lie there by their hashes."""

    tree: Sha256Hex
    prefix: str = Field(description="of the bundle's own bucket, without a slash at its end")


class BundleImage(Lenient):
    """The container image in which the job runs."""

    name: str = Field(description="as the spec names it")
    digest: str = Field(
        default="",
        description="of the image that the run's first attempt had; empty: not known yet, or a "
        "file's",
    )
    mounts: list[str] = Field(
        default_factory=list, description="what a job finds besides the shared filesystem"
    )


class BundleGit(Lenient):
    """The commit that is to be fetched; its tree and packs go below `prefix`."""

    url: str
    ref: str
    path: str | None = None
    secret: str | None = Field(default=None, description="its name; never its value")
    known_hosts: list[str] = Field(default_factory=list)
    ca_certificate: str | None = None
    prefix: str = Field(description="of the bundle's own bucket, without a slash at its end")


class BundleStart(Lenient):
    """The checkpoint of another run that this run begins with."""

    run_id: str
    path: str = Field(description="relative to that run's directory")
    step: int
    export: str = Field(
        default="",
        description="where its files lie in the bundle's own bucket, without a slash at its end; "
        "'' = nowhere that this cluster's nodes can read",
    )


class KeptCode(Lenient):
    """code/<tree> of the data bucket: where a run keeps this tree and its packs."""

    prefix: str
    files: int = Field(ge=0)
    bytes: int = Field(ge=0, description="of the files")


class BundleInput(Lenient):
    """Data for the program at `path`: one of `source`, `code` and `mounted` says whence."""

    path: str = Field(description="in the working directory, or absolute as jobs see it")
    source: str = Field(default="", description="s3://BUCKET/PREFIX/ that is copied")
    code: BundleCode | None = Field(default=None, description="data that were uploaded")
    mounted: str = Field(default="", description="where every node has them mounted")


class SyncOrder(Lenient):
    """What is copied to S3 while the job runs."""

    every_seconds: float = Field(gt=0)
    checkpoints: bool = True
    prefix: str = Field(description="of the bundle's own bucket, without a slash at its end")
