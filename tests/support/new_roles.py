"""A role that was just made: IAM tells everybody of it after a moment, here as on AWS."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError
from tests.support.waiting import eventually


def made_cluster(sagemaker: Any, **request: Any) -> str:
    """CreateCluster's ARN, asked again while the request's new role cannot be assumed yet."""

    def taken() -> str | None:
        try:
            return str(sagemaker.create_cluster(**request)["ClusterArn"])
        except ClientError as refusal:
            if "Could not assume role" not in str(refusal):
                raise
            return None

    name = request["ClusterName"]
    return str(eventually(f"{name} is taken: its role can be assumed", taken, 10))
