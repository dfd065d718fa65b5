"""Are the secrets there that jobs may ask for, and can nodes read them?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    if scope.cluster is None:
        return
    allowed = account.parameters.get("JobSecrets")
    for number, name in enumerate(scope.cluster.job_secrets):
        field = scope.field(f"jobSecrets.{number}")
        if allowed is not None and not fnmatchcase(name, allowed):
            yield _finding(
                field,
                f"'{name}' does not match the stack's parameter JobSecrets ('{allowed}'): nodes "
                "may not read it",
                "Name the secret so, or update the stack with another JobSecrets",
            )
        yield from _looked_at(account, field, name)


def _looked_at(account: Account, field: str, name: str) -> Iterator[Finding]:
    """Of the secret everything but its value."""
    try:
        found = account.call("secretsmanager", "DescribeSecret", SecretId=name)
    except NotAnswered as error:
        if error.code != "ResourceNotFoundException":
            raise
        yield _finding(
            field,
            f"there is no secret '{name}' in {account.region}",
            f"aws secretsmanager create-secret --name {name} --secret-string file://FILE",
        )
        return
    if found.get("DeletedDate"):
        yield _finding(
            field,
            f"secret '{name}' is scheduled for deletion, and cannot be read",
            f"aws secretsmanager restore-secret --secret-id {name}",
        )
    key = found.get("KmsKeyId")
    if key and _of_the_customer(account, key):
        yield _finding(
            field,
            f"secret '{name}' is encrypted with a KMS key of your own, which nodes may not use",
            "Encrypt it with the key aws/secretsmanager",
        )


def _of_the_customer(account: Account, key: str) -> bool:
    """Secrets that the console made name AWS's own key, too."""
    found = account.call("kms", "DescribeKey", KeyId=key)["KeyMetadata"]
    return bool(found.get("KeyManager") == "CUSTOMER")


def _finding(field: str, problem: str, remedy: str) -> Finding:
    return Finding("job_secrets", "failure", field, problem, remedy)
