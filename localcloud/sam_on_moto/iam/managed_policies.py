"""The AWS managed policies that the template's roles attach.

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
    "arn:aws:iam::aws:policy/AmazonSageMakerClusterInstanceRolePolicy": {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["logs:PutLogEvents", "logs:CreateLogStream", "logs:DescribeLogStreams"],
                "Resource": "arn:aws:logs:*:*:log-group:/aws/sagemaker/Clusters/*:log-stream:*",
            },
            {
                "Effect": "Allow",
                "Action": "logs:CreateLogGroup",
                "Resource": "arn:aws:logs:*:*:log-group:/aws/sagemaker/Clusters/*",
            },
            {
                "Effect": "Allow",
                "Action": "cloudwatch:PutMetricData",
                "Resource": "*",
                "Condition": {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Clusters"}},
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket", "s3:GetObject"],
                "Resource": "arn:aws:s3:::sagemaker-*",
                "Condition": {"StringEquals": {"aws:ResourceAccount": "${aws:PrincipalAccount}"}},
            },
            {
                "Effect": "Allow",
                "Action": [
                    f"ssmmessages:{verb}{kind}Channel"
                    for verb in ("Create", "Open")
                    for kind in ("Control", "Data")
                ],
                "Resource": "*",
            },
        ],
    },
}
