"""A whole environment of a function."""

from __future__ import annotations

ENVIRONMENT = {
    "STAGE": "trainyard",
    "AWS_REGION": "us-east-1",
    "TABLE_NAME": "t",
    "DATA_BUCKET": "sagemaker-d",
    "EVENT_BUS_NAME": "b",
    "DEAD_LETTERS_URL": "https://sqs.us-east-1.amazonaws.com/1/dead",
    "RUN_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:trainyard-run",
    "CLUSTER_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:trainyard-cluster",
    "TEARDOWN_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:trainyard-teardown",
    "SCHEDULE_GROUP": "trainyard",
    "STEPS_FUNCTION_ARN": "arn:aws:lambda:us-east-1:1:function:trainyard-steps",
    "SCHEDULES_ROLE_ARN": "arn:aws:iam::1:role/schedules",
    "NODE_BOUNDARY_ARN": "arn:aws:iam::1:policy/n",
    "SECRET_PREFIX": "trainyard/trainyard",
    "DEFAULT_SUBNET_IDS": "subnet-1, subnet-2",
    "DEFAULT_SECURITY_GROUP_IDS": "",
    "HEARTBEAT_SECONDS": "2",
}
