"""The roles that ParallelCluster makes for its nodes, in moto's IAM."""

from __future__ import annotations

import json
from typing import Any

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.parallelcluster.configuration import Permissions

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
_READ = ["s3:Get*", "s3:List*"]
_WRITE = ["s3:PutObject", "s3:DeleteObject"]


def _backend(cloud: LocalCloud) -> Any:
    from moto.iam.models import iam_backends

    return iam_backends[cloud.account_id]["aws"]


def has_policy(cloud: LocalCloud, arn: str) -> bool:
    """AWS's own policies are there; what they allow is not needed here."""
    return ":iam::aws:policy/" in arn or arn in _backend(cloud).managed_policies


def make(cloud: LocalCloud, name: str, permissions: Permissions, boundary: str) -> str:
    """The role's ARN; again and again with the same result."""
    iam = _backend(cloud)
    known = next((role for role in iam.get_roles() if role.name == name), None)
    role = known or iam.create_role(
        role_name=name,
        assume_role_policy_document=json.dumps(_TRUST),
        path="/parallelcluster/",
        permissions_boundary=boundary or None,
        description="",
        tags=[],
        max_session_duration="3600",
    )
    for arn in permissions.policies:
        if ":iam::aws:policy/" not in arn:
            iam.attach_role_policy(arn, name)
    if permissions.access:
        iam.put_role_policy(name, "S3Access", json.dumps(_access(permissions)))
    return str(role.arn)


def remove(cloud: LocalCloud, name: str) -> None:
    iam = _backend(cloud)
    role = next((role for role in iam.get_roles() if role.name == name), None)
    if role is None:
        return
    for arn in list(role.managed_policies):
        iam.detach_role_policy(arn, name)
    for policy in list(role.policies):
        iam.delete_role_policy(name, policy)
    iam.delete_role(name)


def _access(permissions: Permissions) -> dict[str, Any]:
    statements = []
    for bucket, key, write in permissions.access:
        statements.append(
            {
                "Effect": "Allow",
                "Action": [*_READ, *(_WRITE if write else [])],
                "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/{key}"],
            }
        )
    return {"Version": "2012-10-17", "Statement": statements}
