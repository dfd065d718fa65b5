"""Is the training plan that a group names active, and for that type of instance?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    for number, group in enumerate(scope.groups):
        if group.training_plan_arn is None:
            continue
        subject = scope.field(f"instanceGroups.{number}.trainingPlanArn")
        try:
            plan = account.call(
                "sagemaker",
                "DescribeTrainingPlan",
                TrainingPlanName=group.training_plan_arn.rpartition("/")[2],
            )
        except NotAnswered as error:
            if error.code not in (
                "ResourceNotFound",
                "ResourceNotFoundException",
                "ValidationException",
            ):
                raise
            yield _finding(
                subject,
                f"there is no such plan in {account.region}",
                "Correct the ARN, or take the plan's region",
            )
            continue
        if plan["Status"] not in ("Active", "Scheduled"):
            yield _finding(
                subject,
                f"its status is {plan['Status']}",
                "Buy another plan, or leave trainingPlanArn out",
            )
        types = {one.get("InstanceType") for one in plan.get("ReservedCapacitySummaries") or []}
        if types and group.instance_type not in types:
            yield _finding(
                subject,
                (
                    f"it is for {', '.join(sorted(map(str, types)))}, the group for "
                    f"{group.instance_type}"
                ),
                "Make them agree",
            )


def _finding(subject: str, problem: str, remedy: str) -> Finding:
    return Finding("training_plans", "failure", subject, problem, remedy)
