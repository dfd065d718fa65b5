"""May the caller use the API, and the stack's roles do their work? IAM's policy simulator says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..account import Account, Json
from ..findings import Finding
from ..scope import Scope


@dataclass(frozen=True)
class Need:
    """Actions on one resource; `{...}` are the account's own values."""

    actions: tuple[str, ...]
    resource: str = "*"
    context: tuple[tuple[str, str], ...] = ()


#: Of the stack's roles, by logical id in template.yaml. A role that this stack lacks is passed
#: over.
NEEDS: dict[str, tuple[Need, ...]] = {
    "StepsRole": (
        Need(
            ("sagemaker:DescribeCluster",),
            "arn:{partition}:sagemaker:{region}:{account}:cluster/abcdefghijkl",
        ),
        Need(("sagemaker:CreateCluster", "sagemaker:ListClusters")),
        Need(
            ("ssm:StartSession",),
            "arn:{partition}:ssm:{region}:{account}:managed-instance/"
            "sagemaker-cluster:abcdefghijkl_w-i-0",
        ),
        Need(("s3:PutObject", "s3:GetObject"), "arn:{partition}:s3:::{bucket}/clusters/x"),
        Need(
            ("iam:PassRole",),
            "arn:{partition}:iam::{account}:role/trainyard/{stack}/x/1/x",
            (("iam:PassedToService", "sagemaker.amazonaws.com"),),
        ),
    ),
}


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    yield from _caller(account)
    values = {
        "partition": account.partition,
        "region": account.region,
        "account": account.identity["Account"],
        "bucket": account.outputs.get("DataBucketName", ""),
        "bus": account.outputs.get("EventBusName", ""),
        "stack": account.stack_name,
    }
    for logical_id, needs in NEEDS.items():
        name = account.resource(logical_id)
        if name is None:
            continue
        arn = account.call("iam", "GetRole", RoleName=name)["Role"]["Arn"]
        for need in needs:
            resource = need.resource.format(**values)
            yield from _denied(
                account,
                f"role {logical_id} ({name})",
                arn,
                Need(need.actions, resource, need.context),
            )


def _caller(account: Account) -> Iterator[Finding]:
    url = urlsplit(account.outputs.get("ApiUrl", "")).hostname
    arn = _principal(account)
    if not url or arn is None:
        return
    api = (
        f"arn:{account.partition}:execute-api:{account.region}:{account.identity['Account']}:"
        f"{url.split('.')[0]}/*/POST/v1/runs"
    )
    yield from _denied(
        account, f"you ({account.identity['Arn']})", arn, Need(("execute-api:Invoke",), api)
    )


def _principal(account: Account) -> str | None:
    """The IAM entity behind the caller.

    None for what cannot be simulated: the root user, a federated user.
    """
    arn = str(account.identity["Arn"])
    if ":assumed-role/" in arn:
        role = arn.split("/")[1]
        return str(account.call("iam", "GetRole", RoleName=role)["Role"]["Arn"])
    return arn if ":user/" in arn else None


def _denied(account: Account, who: str, arn: str, need: Need) -> Iterator[Finding]:
    context = [
        {"ContextKeyName": name, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for name, value in need.context
    ]
    answer = account.call(
        "iam",
        "SimulatePrincipalPolicy",
        PolicySourceArn=arn,
        ActionNames=list(need.actions),
        ResourceArns=[need.resource],
        ContextEntries=context,
    )
    for result in answer["EvaluationResults"]:
        if result["EvalDecision"] != "allowed":
            problem = f"{who} may not {result['EvalActionName']} on {need.resource}: {_why(result)}"
            remedy = (
                "Allow it, or have the one who owns that policy take the denial away; "
                "docs/operations.md lists what is needed"
            )
            yield Finding("permissions", "failure", who, problem, remedy)


def _why(result: Json) -> str:
    if not (result.get("OrganizationsDecisionDetail") or {}).get("AllowedByOrganizations", True):
        return "a service control policy of the organization denies it"
    if not (result.get("PermissionsBoundaryDecisionDetail") or {}).get(
        "AllowedByPermissionsBoundary", True
    ):
        return "its permissions boundary denies it"
    return (
        "a policy denies it" if result["EvalDecision"] == "explicitDeny" else "no policy allows it"
    )
