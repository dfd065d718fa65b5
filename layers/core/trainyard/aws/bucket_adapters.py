"""All adapters of S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from trainyard.aws.blobs import S3Blobs
from trainyard.aws.clients import Lazy
from trainyard.aws.directories import S3Directories
from trainyard.aws.exports import S3Exports
from trainyard.aws.sources import S3Sources
from trainyard.aws.uploads import S3Uploads

if TYPE_CHECKING:
    from trainyard.outside.blobs import Blobs
    from trainyard.outside.directories import Directories
    from trainyard.outside.exports import Exports
    from trainyard.outside.uploads import Sources, Uploads


class BucketAdapters(TypedDict):
    """By the names that they have in `Ports`."""

    blobs: Blobs
    uploads: Uploads
    sources: Sources
    exports: Exports
    directories: Directories


def bucket_adapters(s3: Lazy, data_bucket: str) -> BucketAdapters:
    """Those of the data bucket, and of buckets that are not ours (`sources`)."""
    return {
        "blobs": S3Blobs(s3, data_bucket),
        "uploads": S3Uploads(s3, data_bucket),
        "sources": S3Sources(s3),
        "exports": S3Exports(s3, data_bucket),
        "directories": S3Directories(s3, data_bucket),
    }
