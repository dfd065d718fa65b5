"""Are the buckets there that runs may copy from, where nodes can read them?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from trainyard_contracts.inputs import S3Prefix

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    if scope.cluster is None:
        return
    allowed = account.parameters.get("MountableBuckets")
    for number, source in enumerate(scope.cluster.job_inputs):
        field, bucket = scope.field(f"jobInputs.{number}"), S3Prefix.of(source).bucket
        if allowed is not None and not fnmatchcase(bucket, allowed):
            yield _finding(
                field,
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
            yield _finding(field, f"there is no bucket '{bucket}'", "Correct its name")
            continue
        region = found.get("LocationConstraint") or "us-east-1"
        if region != account.region:
            yield _finding(
                field,
                f"'{bucket}' lies in {region}, the nodes in {account.region}",
                f"Copy the data to a bucket in {account.region}",
            )


def _finding(field: str, problem: str, remedy: str) -> Finding:
    return Finding("job_inputs", "failure", field, problem, remedy)
