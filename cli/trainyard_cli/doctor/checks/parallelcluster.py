"""Is ParallelCluster's API there, of the version that is spoken here, and may Trainyard call it?"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ..account import Account, Json, NotAnswered
from ..findings import Finding
from ..scope import Scope

#: trainyard.backends.parallelcluster.refusals.VERSION, which this program does not import.
VERSION = "3.16.1"
PARAMETER = "ParallelClusterApiUrl"
#: On the API, by AWS's template.
VERSION_TAG = "parallelcluster:version"
#: In the API's own policy, where only this role may call it.
USER_ROLE = "ParallelClusterApiUserRole"
_DEPLOY = "Deploy it (docs/operations.md, ParallelCluster's API)"


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    if scope.parallelcluster is None or account.stack is None:
        return
    url = account.parameters.get(PARAMETER, "")
    if not url:
        problem = f"the stack's parameter {PARAMETER} is empty, so no such cluster can be made"
        yield _finding(f"stack {account.stack_name}", problem, f"{_DEPLOY} and give its address")
        return
    yield from _of_api(account, url)
    yield Finding(
        "parallelcluster",
        "unknown",
        "quotas of EC2",
        "doctor does not compare the queues with the quotas of vCPUs (on demand and spot)",
        "Look at Service Quotas, Amazon EC2, for the families of your instance types",
    )


def _of_api(account: Account, url: str) -> Iterator[Finding]:
    name = (urlsplit(url).hostname or "").split(".")[0]
    try:
        api = account.call("apigateway", "GetRestApi", restApiId=name)
    except NotAnswered as error:
        if error.code != "NotFoundException":
            raise
        problem = f"API Gateway has no API '{name}' in {account.region}"
        yield _finding(url, problem, f"{_DEPLOY} in this region, or correct {PARAMETER}")
        return
    version = (api.get("tags") or {}).get(VERSION_TAG, "")
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        problem = f"it is of version '{version}', and Trainyard speaks {VERSION}"
        yield _finding(url, problem, f"Deploy version {VERSION} beside it, and give its address")
    yield from _closed(url, api)


def _closed(url: str, api: Json) -> Iterator[Finding]:
    if USER_ROLE in str(api.get("policy") or ""):
        problem = f"its own policy lets only the role {USER_ROLE} call it, and not Trainyard"
        yield _finding(url, problem, "Update the API's stack with CreateApiUserRole=false")


def _finding(subject: str, problem: str, remedy: str) -> Finding:
    return Finding("parallelcluster", "failure", subject, problem, remedy)
