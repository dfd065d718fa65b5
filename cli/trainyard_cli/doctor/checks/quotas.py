"""Does Service Quotas allow the instances of the spec, by type, beside those that run now?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..account import Account
from ..findings import Finding
from ..scope import Scope

#: Names as the Developer Guide and Service Quotas write them; the guide leaves out an "of".
PER_CLUSTER = (
    "maximum number instances allowed per sagemaker hyperpod cluster",
    "maximum number of instances allowed per sagemaker hyperpod cluster",
)
TOTAL = ("total number of instances allowed across sagemaker hyperpod clusters",)
EBS = ("maximum size of ebs volume in gb for a sagemaker hyperpod cluster instance",)


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    ways = [wanted for wanted in scope.instances() if wanted]
    if not ways:
        return
    quotas = {
        str(quota["QuotaName"]).lower(): float(quota["Value"])
        for quota in account.all(
            "service-quotas", "ListServiceQuotas", "Quotas", ServiceCode="sagemaker", MaxResults=100
        )
    }
    used = _in_use(account)
    found = (one for wanted in ways for one in _of_one_way(account, quotas, wanted, used))
    yield from dict.fromkeys(found)
    yield from _volumes(quotas, scope)


def _of_one_way(
    account: Account, quotas: dict[str, float], wanted: Counter[str], used: Counter[str]
) -> Iterator[Finding]:
    for kind, count in sorted(wanted.items()):
        name = f"{kind} for cluster usage"
        if name.lower() not in quotas:
            yield _finding(
                name,
                "warning",
                f"Service Quotas lists no '{name}' in {account.region}",
                "Ask whether HyperPod offers the type there",
            )
        elif quotas[name.lower()] < count + used[kind]:
            yield _short(name, quotas[name.lower()], count, used[kind])
    yield from _of_all(quotas, wanted, used)


def _of_all(
    quotas: dict[str, float], wanted: Counter[str], used: Counter[str]
) -> Iterator[Finding]:
    for names, running in ((PER_CLUSTER, 0), (TOTAL, used.total())):
        for name in names:
            if name in quotas and quotas[name] < wanted.total() + running:
                yield _short(name, quotas[name], wanted.total(), running)


def _volumes(quotas: dict[str, float], scope: Scope) -> Iterator[Finding]:
    largest = max((group.ebs.size_gib for group in scope.groups if group.ebs), default=0)
    for name in EBS:
        if name in quotas and quotas[name] < largest:
            yield _finding(
                name,
                "failure",
                f"{largest} GiB asked, the quota is {quotas[name]:g}",
                "Ask for more, or take a smaller ebs.sizeGib",
            )


def _in_use(account: Account) -> Counter[str]:
    """Instances that clusters of this account and region have now, by type."""
    used: Counter[str] = Counter()
    for summary in account.all("sagemaker", "ListClusters", "ClusterSummaries", MaxResults=100):
        described = account.call("sagemaker", "DescribeCluster", ClusterName=summary["ClusterArn"])
        for group in described.get("InstanceGroups") or []:
            used[group.get("InstanceType", "")] += group.get("CurrentCount", 0)
    return used


def _short(name: str, value: float, count: int, running: int) -> Finding:
    problem = f"{count} asked and {running} run already, the quota is {value:g}"
    return _finding(
        name, "failure", problem, "Ask for more in Service Quotas (Amazon SageMaker); it takes days"
    )


def _finding(name: str, severity: str, problem: str, remedy: str) -> Finding:
    return Finding(
        "quotas",
        "failure" if severity == "failure" else "warning",
        f"quota '{name}'",
        problem,
        remedy,
    )
