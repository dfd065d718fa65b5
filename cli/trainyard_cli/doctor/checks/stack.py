"""Is Trainyard's stack there, whole, and as it was deployed?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, Json
from ..findings import Finding
from ..scope import Scope

OUTPUTS = ("ApiUrl", "DataBucketName", "EventBusName", "TableName")
DRIFT_LOOKS, DRIFT_SECONDS = 30, 3.0


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    stack = account.stack
    if stack is None:
        problem = f"there is no stack '{account.stack_name}' in {account.region}"
        yield _finding(
            account,
            problem,
            (
                "Deploy it (docs/operations.md, step 5), or name the right one with --stack and "
                "--region"
            ),
        )
        return
    status = str(stack["StackStatus"])
    if not status.endswith("_COMPLETE") or status in ("ROLLBACK_COMPLETE", "DELETE_COMPLETE"):
        yield _finding(
            account,
            f"its status is {status}",
            "Look at the stack's events in CloudFormation, mend what failed, and deploy again",
        )
    missing = [name for name in OUTPUTS if name not in account.outputs]
    if missing:
        yield _finding(
            account,
            f"it has no output {', '.join(missing)}",
            "It is another template's, or an old one's: deploy this version",
        )
    yield from _drift(account)


def _drift(account: Account) -> Iterator[Finding]:
    found = _detected(account)
    if found["DetectionStatus"] != "DETECTION_COMPLETE":
        late = f"drift detection is not through after {DRIFT_LOOKS * DRIFT_SECONDS:.0f} s"
        yield Finding(
            "stack",
            "unknown",
            f"stack {account.stack_name}",
            found.get("DetectionStatusReason") or late,
            "Look again later",
        )
    if found.get("StackDriftStatus") != "DRIFTED":
        return
    drifted = account.all(
        "cloudformation",
        "DescribeStackResourceDrifts",
        "StackResourceDrifts",
        StackName=account.stack_name,
        StackResourceDriftStatusFilters=["MODIFIED", "DELETED"],
    )
    yield from map(_drifted, drifted)


def _detected(account: Account) -> Json:
    """The answer about a new detection of drift, when it is through or the looks are used up."""
    begun = account.call("cloudformation", "DetectStackDrift", StackName=account.stack_name)
    for _ in range(DRIFT_LOOKS):
        found = account.call(
            "cloudformation",
            "DescribeStackDriftDetectionStatus",
            StackDriftDetectionId=begun["StackDriftDetectionId"],
            again=True,
        )
        if found["DetectionStatus"] != "DETECTION_IN_PROGRESS":
            break
        account.sleep(DRIFT_SECONDS)
    return found


def _drifted(resource: Json) -> Finding:
    name, gone = resource["LogicalResourceId"], resource["StackResourceDriftStatus"] == "DELETED"
    changed = ", ".join(one["PropertyPath"] for one in resource.get("PropertyDifferences") or [])
    problem = (
        f"{name} ({resource['ResourceType']}) was "
        f"{'deleted' if gone else f'changed by hand: {changed}'}"
    )
    return Finding(
        "stack",
        "failure" if gone else "warning",
        name,
        problem,
        "Deploy the template again, or undo the change",
    )


def _finding(account: Account, problem: str, remedy: str) -> Finding:
    return Finding("stack", "failure", f"stack {account.stack_name}", problem, remedy)
