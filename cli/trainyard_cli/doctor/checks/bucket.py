"""Can HyperPod read lifecycle scripts from the data bucket, and is the bucket in this region?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope

#: HyperPod's managed policy AmazonSageMakerClusterInstanceRolePolicy lets nodes read buckets of
#: this prefix only.
PREFIX = "sagemaker-"


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    bucket = account.outputs.get("DataBucketName")
    if bucket is None:
        return
    if not bucket.startswith(PREFIX):
        yield _finding(
            bucket,
            f"its name does not begin with '{PREFIX}', which HyperPod asks for",
            "Deploy the template as it is",
        )
    try:
        # us-east-1 is None in this answer.
        region = (
            account.call("s3", "GetBucketLocation", Bucket=bucket).get("LocationConstraint")
            or "us-east-1"
        )
    except NotAnswered as error:
        if error.code != "NoSuchBucket":
            raise
        yield _finding(
            bucket,
            "it is gone",
            "Deploy the stack again under another name; a retained bucket cannot be made anew",
        )
        return
    if region != account.region:
        yield _finding(
            bucket,
            f"it lies in {region}, the clusters in {account.region}",
            f"Deploy the stack in {account.region}",
        )


def _finding(bucket: str, problem: str, remedy: str) -> Finding:
    return Finding("bucket", "failure", f"bucket {bucket}", problem, remedy)
