"""An AWS account of recorded answers; botocore's service models check each request and answer."""

from __future__ import annotations

import functools
from typing import Any

import botocore.session
from botocore.validate import validate_parameters

from trainyard_cli.doctor.account import Account, NotAnswered

REGION, NUMBER, VPC = "us-west-2", "123456789012", "vpc-0123456789abcdef0"
SUBNET, GROUP = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
DNS = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
ROLE = f"arn:aws:iam::{NUMBER}:role/"
NOVEMBER = "2026-11-01T00:00:00Z"
_ALL = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": GROUP}]}

Answers = dict[str, Any]


def sound() -> Answers:
    """The answers of a sound account, by service:Operation.

    An answer may be a function of the request.
    """
    return {**_stack(), **_rights(), **_hyperpod(), **_network(), **_files(), **_budget()}


def _stack() -> Answers:
    outputs = {
        "ApiUrl": "https://abc123.execute-api.us-west-2.amazonaws.com",
        "DataBucketName": "sagemaker-trainyard-data", "EventBusName": "trainyard",
        "TableName": "trainyard-table",
    }  # fmt: skip
    return {
        "cloudformation:DescribeStacks": {"Stacks": [{
            "StackName": "trainyard", "StackStatus": "UPDATE_COMPLETE", "CreationTime": NOVEMBER,
            "Parameters": [
                {"ParameterKey": "SubnetIds", "ParameterValue": SUBNET},
                {"ParameterKey": "SecurityGroupIds", "ParameterValue": GROUP},
                {"ParameterKey": "JobSecrets", "ParameterValue": "trainyard-jobs/*"},
                {"ParameterKey": "MountableBuckets", "ParameterValue": "sagemaker-*"},
            ],
            "Outputs": [
                {"OutputKey": key, "OutputValue": value} for key, value in outputs.items()
            ],
        }]},
        "cloudformation:DetectStackDrift": {"StackDriftDetectionId": "d" * 36},
        "cloudformation:DescribeStackDriftDetectionStatus": {
            "StackId": "s", "StackDriftDetectionId": "d" * 36, "StackDriftStatus": "IN_SYNC",
            "DetectionStatus": "DETECTION_COMPLETE", "Timestamp": NOVEMBER,
        },
        "cloudformation:DescribeStackResourceDrifts": {"StackResourceDrifts": []},
        "cloudformation:ListStackResources": {"StackResourceSummaries": [{
            "LogicalResourceId": "StepsRole", "PhysicalResourceId": "trainyard-StepsRole",
            "ResourceType": "AWS::IAM::Role", "LastUpdatedTimestamp": NOVEMBER,
            "ResourceStatus": "CREATE_COMPLETE",
        }]},
    }  # fmt: skip


def _rights() -> Answers:
    return {
        "sts:GetCallerIdentity": {
            "Account": NUMBER, "Arn": f"arn:aws:sts::{NUMBER}:assumed-role/Team/me",
            "UserId": "AROA:me",
        },
        "iam:GetRole": lambda request: {"Role": {
            "Path": "/", "RoleName": request["RoleName"], "RoleId": "A" * 20,
            "Arn": ROLE + request["RoleName"], "CreateDate": NOVEMBER,
        }},
        "iam:SimulatePrincipalPolicy": lambda request: {"EvaluationResults": [
            {"EvalActionName": action, "EvalDecision": "allowed"}
            for action in request["ActionNames"]
        ]},
        "secretsmanager:DescribeSecret": {"Name": "trainyard-jobs/hf"},
        "ssm:GetDocument": NotAnswered(
            "ssm:GetDocument", "InvalidDocument",
            "Document with name SSM-SessionManagerRunShell does not exist.",
        ),
    }  # fmt: skip


def _hyperpod() -> Answers:
    quotas = {
        "ml.c5.xlarge for cluster usage": 4.0,
        "ml.c5.4xlarge for cluster usage": 8.0,
        "Maximum number of instances allowed per SageMaker HyperPod cluster": 20.0,
        "Total number of instances allowed across SageMaker HyperPod clusters": 20.0,
        "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance": 500.0,
    }
    arn = f"arn:aws:sagemaker:{REGION}:{NUMBER}:cluster/abcdefghijkl"
    return {
        "service-quotas:ListServiceQuotas": {
            "Quotas": [{"QuotaName": name, "Value": value} for name, value in quotas.items()],
        },
        "sagemaker:ListClusters": {"ClusterSummaries": [{
            "ClusterArn": arn, "ClusterName": "other", "CreationTime": NOVEMBER,
            "ClusterStatus": "InService",
        }]},
        "sagemaker:DescribeCluster": {
            "ClusterArn": arn, "ClusterStatus": "InService", "InstanceGroups": [
                {"InstanceGroupName": "w", "InstanceType": "ml.c5.4xlarge", "CurrentCount": 2},
            ],
        },
        "sagemaker:DescribeTrainingPlan": {
            "TrainingPlanArn": "arn", "TrainingPlanName": "plan", "Status": "Active",
            "ReservedCapacitySummaries": [{
                "ReservedCapacityArn": "a", "InstanceType": "ml.c5.4xlarge",
                "TotalInstanceCount": 3, "Status": "Active",
            }],
        },
        "ec2:DescribeInstanceTypeOfferings": {"InstanceTypeOfferings": [
            {"InstanceType": kind, "LocationType": "availability-zone", "Location": "us-west-2a"}
            for kind in ("c5.xlarge", "c5.4xlarge")
        ]},
    }  # fmt: skip


def _network() -> Answers:
    return {
        "ec2:DescribeSubnets": {"Subnets": [{
            "SubnetId": SUBNET, "VpcId": VPC, "AvailabilityZone": "us-west-2a",
            "AvailableIpAddressCount": 200, "CidrBlock": "10.1.2.0/24",
        }]},
        "ec2:DescribeSecurityGroups": {"SecurityGroups": [
            {"GroupId": GROUP, "IpPermissions": [_ALL], "IpPermissionsEgress": [_ALL]},
        ]},
        "ec2:DescribeRouteTables": {"RouteTables": [{
            "RouteTableId": "rtb-1", "VpcId": VPC, "Associations": [{"Main": True}],
            "Routes": [
                {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"},
            ],
        }]},
        "ec2:DescribeVpcEndpoints": {"VpcEndpoints": []},
        "ec2:DescribeNetworkInterfaces": {"NetworkInterfaces": [
            {"NetworkInterfaceId": "eni-1", "Groups": [{"GroupId": GROUP}]},
        ]},
    }  # fmt: skip


def _files() -> Answers:
    return {
        "s3:GetBucketLocation": {"LocationConstraint": REGION},
        "fsx:DescribeFileSystems": {"FileSystems": [{
            "FileSystemId": "fs-0123456789abcdef0", "FileSystemType": "LUSTRE",
            "Lifecycle": "AVAILABLE", "DNSName": DNS, "VpcId": VPC,
            "SubnetIds": [SUBNET], "NetworkInterfaceIds": ["eni-12345678"],
            "LustreConfiguration": {"MountName": "abcdefgh"},
        }]},
    }  # fmt: skip


def _budget() -> Answers:
    return {
        "budgets:DescribeBudgets": {"Budgets": [{
            "BudgetName": "team", "BudgetType": "COST", "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": "1000", "Unit": "USD"},
            "CalculatedSpend": {"ActualSpend": {"Amount": "10", "Unit": "USD"}},
        }]},
    }  # fmt: skip


@functools.cache
def _service(name: str) -> Any:
    return botocore.session.get_session().get_service_model(name)


class RecordedAccount(Account):
    """`answers` may be changed by a test; `asked` is what was called."""

    def __init__(self) -> None:
        super().__init__(None, REGION, "trainyard", sleep=lambda _seconds: None)
        self.answers = sound()
        self.asked: list[str] = []

    def _ask(
        self, service: str, operation: str, region: str, request: dict[str, Any]
    ) -> dict[str, Any]:
        self.asked.append(f"{service}:{operation}")
        model = _service(service).operation_model(operation)
        validate_parameters(request, model.input_shape)
        answer = self.answers[f"{service}:{operation}"]
        if isinstance(answer, NotAnswered):
            raise answer
        found = answer(request) if callable(answer) else answer
        unknown = _unknown(model.output_shape, found)
        assert not unknown, f"{service}:{operation} answers nothing like {unknown}"
        return dict(found)


def _unknown(shape: Any, value: Any, path: str = "") -> list[str]:
    """Members of a recorded answer that AWS's model does not have."""
    if shape.type_name == "structure":
        return [
            wrong
            for name, member in value.items()
            for wrong in (
                [f"{path}.{name}"]
                if name not in shape.members
                else _unknown(shape.members[name], member, f"{path}.{name}")
            )
        ]
    if shape.type_name == "list":
        return [wrong for member in value for wrong in _unknown(shape.member, member, f"{path}[]")]
    return []
