"""The AWS managed policies that a template's roles can attach.

moto has a copy of all 1,582, which takes most of a second to load.
"""

from __future__ import annotations

from typing import Any

_LAMBDA_LOGS = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]

#: ARN -> document. https://docs.aws.amazon.com/aws-managed-policy/latest/reference/
MANAGED_POLICIES: dict[str, dict[str, Any]] = {
    "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole": {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": _LAMBDA_LOGS, "Resource": "*"}],
    },
    "arn:aws:iam::aws:policy/AWSXRayDaemonWriteAccess": {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
                "Resource": "*",
            }
        ],
    },
}
