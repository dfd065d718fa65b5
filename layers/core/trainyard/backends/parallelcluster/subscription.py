"""Brings the lines of a cluster's log that tell of trouble to the function that records facts.

ParallelCluster's head node sends no event. Its daemon writes them as lines of JSON into the
cluster's log group. A subscription filter hands those that matter to the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.backends.parallelcluster.events import SCRIPT_FAILED, TROUBLES
from trainyard.domain import errors

#: Of a group's own two filters at most, ours; the stack and the cluster's stack id are in its name.
_PREFIX = "trainyard"
#: Log groups of all of ParallelCluster's clusters.
GROUPS = "/aws/parallelcluster/"
_STAMP = re.compile(r"^-[0-9]{8,14}$")
_COUNTED = " || ".join(f'($.event-type = "{kind}")' for kind in TROUBLES if kind != SCRIPT_FAILED)
#: A figure is written each minute, most often 0.
PATTERN = f'{{ ($.event-type = "{SCRIPT_FAILED}") || (({_COUNTED}) && ($.detail.count > 0)) }}'


class _Gone(errors.TrainyardError):
    """The group or the filter is not there."""


_KNOWN: dict[str, type[errors.TrainyardError]] = {
    "ResourceNotFoundException": _Gone,
    "OperationAbortedException": errors.RetryableError,
}


def group_prefix(cluster: str) -> str:
    """ParallelCluster adds the time at which the cluster was made."""
    return f"{GROUPS}{cluster}"


def filter_name(stage: str, stack_arn: str) -> str:
    """Whose lines they are: the id of the cluster's stack is in it, for a name is used again."""
    return f"{_PREFIX}/{stage}/{stack_arn.rsplit('/', 1)[-1]}"


def stack_of(name: str, stage: str) -> str:
    """The id of the cluster's stack; '' where the filter is not this stage's."""
    prefix = f"{_PREFIX}/{stage}/"
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


class Subscriptions:
    """Subscription filters on the log groups of clusters. `logs` is botocore's client."""

    def __init__(self, logs: Any, stage: str, function_arn: str) -> None:
        self._logs = logs
        self._stage = stage
        self._function_arn = function_arn

    def ensure(self, cluster: str, stack_arn: str, since_ms: int) -> bool:
        """Subscribe to the newest group that is not older; False while there is none."""
        groups = [one for one in self._groups(cluster) if one["creationTime"] >= since_ms]
        newest = max(groups, key=lambda one: int(one["creationTime"]), default=None)
        if newest is None:
            return False
        with translated("subscribe to a cluster's log", _KNOWN):
            self._logs.put_subscription_filter(
                logGroupName=newest["logGroupName"],
                filterName=filter_name(self._stage, stack_arn),
                filterPattern=PATTERN,
                destinationArn=self._function_arn,
            )
        return True

    def remove(self, cluster: str) -> None:
        """Take our filters off the groups of a cluster that is gone; the logs stay."""
        for group in self._groups(cluster):
            try:
                for name in self._filters(group["logGroupName"]):
                    with translated("end a subscription", _KNOWN):
                        self._logs.delete_subscription_filter(
                            logGroupName=group["logGroupName"], filterName=name
                        )
            except _Gone:
                continue

    def _groups(self, cluster: str) -> Iterator[Mapping[str, Any]]:
        """Of clusters of this very name: another one's name may begin with it."""
        prefix = group_prefix(cluster)
        request: dict[str, Any] = {"logGroupNamePrefix": f"{prefix}-"}
        while True:
            with translated("list a cluster's logs", _KNOWN):
                answer = self._logs.describe_log_groups(**request)
            for group in answer["logGroups"]:
                if _STAMP.match(group["logGroupName"].removeprefix(prefix)):
                    yield group
            if not answer.get("nextToken"):
                return
            request["nextToken"] = answer["nextToken"]

    def _filters(self, group: str) -> list[str]:
        with translated("list subscriptions", _KNOWN):
            answer = self._logs.describe_subscription_filters(
                logGroupName=group, filterNamePrefix=f"{_PREFIX}/{self._stage}/"
            )
        return [str(one["filterName"]) for one in answer["subscriptionFilters"]]
