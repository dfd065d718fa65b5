"""Is the training plan that a group names active, and for that type of instance?"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_contracts.hyperpod import HyperPodClusterSpec

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    for subject, arn, wanted in _named(scope):
        try:
            plan = account.call(
                "sagemaker", "DescribeTrainingPlan", TrainingPlanName=arn.rpartition("/")[2]
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
        if types and wanted not in types:
            planned = ", ".join(sorted(map(str, types)))
            yield _finding(
                subject, f"it is for {planned}, the group for {wanted}", "Make them agree"
            )


def _named(scope: Scope) -> Iterator[tuple[str, str, str]]:
    """Each plan that the spec names: in which field, its ARN, and the type that it should have."""
    for number, group in enumerate(scope.groups):
        if group.training_plan_arn is not None:
            field = scope.field(f"instanceGroups.{number}.trainingPlanArn")
            yield field, group.training_plan_arn, group.instance_type
    capacity = scope.cluster.capacity if isinstance(scope.cluster, HyperPodClusterSpec) else []
    for number, entry in enumerate(capacity):
        if entry.training_plan_arn is not None:
            field = scope.field(f"capacity.{number}.trainingPlanArn")
            for group in scope.groups:
                if group.role == "worker":
                    for planned in entry.groups(group):
                        yield field, entry.training_plan_arn, planned.instance_type


def _finding(subject: str, problem: str, remedy: str) -> Finding:
    return Finding("training_plans", "failure", subject, problem, remedy)
