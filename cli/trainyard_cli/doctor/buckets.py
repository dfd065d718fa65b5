"""Is a bucket there that nodes are to read, where they can read it?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from .account import Account, NotAnswered
from .findings import Finding


def readable(account: Account, check: str, field: str, bucket: str) -> Iterator[Finding]:
    """What is wrong with `bucket`, which `field` of the spec names. Raises NotAnswered."""

    def finding(problem: str, remedy: str) -> Finding:
        return Finding(check, "failure", field, problem, remedy)

    allowed = account.parameters.get("MountableBuckets")
    if allowed is not None and not fnmatchcase(bucket, allowed):
        yield finding(
            f"'{bucket}' does not match the stack's parameter MountableBuckets ('{allowed}'): "
            "nodes may not read it",
            "Update the stack with another MountableBuckets, or copy the data to a bucket of "
            "such a name",
        )
    try:
        # us-east-1 is None in this answer.
        found = account.call("s3", "GetBucketLocation", Bucket=bucket)
    except NotAnswered as error:
        if error.code != "NoSuchBucket":
            raise
        yield finding(f"there is no bucket '{bucket}'", "Correct its name")
        return
    region = found.get("LocationConstraint") or "us-east-1"
    if region != account.region:
        yield finding(
            f"'{bucket}' lies in {region}, the nodes in {account.region}",
            f"Copy the data to a bucket in {account.region}",
        )
