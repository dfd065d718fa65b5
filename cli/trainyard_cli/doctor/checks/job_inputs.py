"""Are the buckets there that runs may copy from, where nodes can read them?"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_contracts.inputs import S3Prefix

from .. import buckets
from ..account import Account
from ..findings import Finding
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    if scope.cluster is None:
        return
    for number, source in enumerate(scope.cluster.job_inputs):
        field, bucket = scope.field(f"jobInputs.{number}"), S3Prefix.of(source).bucket
        yield from buckets.readable(account, "job_inputs", field, bucket)
