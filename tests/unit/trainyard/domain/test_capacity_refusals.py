"""AWS's words for what it cannot give."""

from __future__ import annotations

import pytest

from trainyard.domain.capacity_refusals import Refusal, classify

#: AWS's own words, with the code where they come with one.
WORDS = [
    (
        "We currently do not have sufficient capacity for the requested instance type(s). "
        "Please try again.",
        "",
        Refusal.CAPACITY,
    ),
    (
        "We currently do not have sufficient capacity to launch new ml.g5.8xlarge instances. "
        "Please try again.",
        "",
        Refusal.CAPACITY,
    ),
    (
        "We currently do not have sufficient capacity in the Availability Zone you requested.",
        "",
        Refusal.CAPACITY,
    ),
    (
        "We currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you "
        "requested (us-east-1a). Our system will be working on provisioning additional capacity. "
        "You can currently get g4dn.xlarge capacity by not specifying an Availability Zone in "
        "your request or choosing us-east-1b, us-east-1c, us-east-1d, us-east-1f.",
        "InsufficientInstanceCapacity",
        Refusal.CAPACITY,
    ),
    ("Insufficient capacity.", "InsufficientInstanceCapacity", Refusal.CAPACITY),
    ("Insufficient capacity.", "InsufficientReservedInstanceCapacity", Refusal.CAPACITY),
    ("Max spot instance count exceeded", "MaxSpotInstanceCountExceeded", Refusal.CAPACITY),
    (
        "Your requested instance type (p5.48xlarge) is not supported in your requested "
        "Availability Zone (us-east-1e).",
        "Unsupported",
        Refusal.CAPACITY,
    ),
    (
        "CapacityError: Unable to provision requested ML compute capacity. "
        "Please retry using a different ML instance type.",
        "",
        Refusal.CAPACITY,
    ),
    (
        "CapacityError: Unable to provision requested ML compute capacity due to "
        "InsufficientInstanceCapacity error.",
        "",
        Refusal.CAPACITY,
    ),
    ("An error occurred (InsufficientHostCapacity)", "", Refusal.CAPACITY),
    (
        "The account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances, "
        "with current utilization of 0 Instances and a request delta of 1 Instances. Please "
        "contact AWS support to request an increase for this limit.",
        "ResourceLimitExceeded",
        Refusal.QUOTA,
    ),
    (
        "ResourceLimitExceeded: The account-level service limit 'ml.p5.48xlarge for cluster "
        "usage' is 0 Instances.",
        "",
        Refusal.QUOTA,
    ),
    (
        "You have requested more vCPU capacity than your current vCPU limit of 32 allows",
        "VcpuLimitExceeded",
        Refusal.QUOTA,
    ),
    (
        "The account-level service limit 'ml.p4d.24xlarge for spot training job usage' is 0 "
        "Instances, with current utilization of 0 Instances and a request delta of 2 Instances.",
        "ResourceLimitExceeded",
        Refusal.QUOTA,
    ),
    (
        "Insufficient capacity error from EC2 while launching instances, retrying!",
        "",
        Refusal.CAPACITY,
    ),
    # EC2's codes as ParallelCluster's head node tells them: ice-failures, vcpu-limit-failures,
    # volume-limit-failures, custom-ami-errors, iam-policy-errors.
    ("InsufficientInstanceCapacity", "", Refusal.CAPACITY),
    ("InsufficientHostCapacity", "", Refusal.CAPACITY),
    ("InsufficientReservedInstanceCapacity", "", Refusal.CAPACITY),
    ("MaxSpotInstanceCountExceeded", "", Refusal.CAPACITY),
    ("Unsupported", "", Refusal.CAPACITY),
    ("SpotMaxPriceTooLow", "", Refusal.CAPACITY),
    ("LimitedInstanceCapacity", "", Refusal.CAPACITY),
    ("InsufficientVolumeCapacity", "", Refusal.CAPACITY),
    ("VcpuLimitExceeded", "", Refusal.QUOTA),
    ("VolumeLimitExceeded", "", Refusal.QUOTA),
    ("InvalidBlockDeviceMapping", "", Refusal.CONFIGURATION),
    ("UnauthorizedOperation", "", Refusal.PERMISSION),
    ("InsufficientInstanceCapacity, LimitedInstanceCapacity", "", Refusal.CAPACITY),
    ("InsufficientInstanceCapacity, VcpuLimitExceeded", "", Refusal.QUOTA),
    (
        "HeadNode (AWS::EC2::Instance): We currently do not have sufficient c5.24xlarge capacity "
        "in the Availability Zone you requested (us-east-1a). (Service: Ec2, Status Code: 500)",
        "",
        Refusal.CAPACITY,
    ),
    (
        "The following resource(s) failed to create: [HeadNodeWaitCondition20240602214453].",
        "",
        Refusal.UNKNOWN,
    ),
    ("Rate exceeded", "ThrottlingException", Refusal.THROTTLED),
    ("Rate exceeded", "", Refusal.THROTTLED),
    (
        "User: arn:aws:sts::123456789012:assumed-role/steps is not authorized to perform: "
        "sagemaker:CreateCluster",
        "AccessDeniedException",
        Refusal.PERMISSION,
    ),
    (
        "1 validation error detected: Value 'ml.p9' at 'instanceType' failed",
        "ValidationException",
        Refusal.CONFIGURATION,
    ),
    ("Unsupported instance type", "", Refusal.UNKNOWN),
    ("Lifecycle scripts did not run successfully.", "", Refusal.UNKNOWN),
]


@pytest.mark.parametrize(("message", "code", "kind"), WORDS)
def test_awss_words_are_known(message: str, code: str, kind: Refusal) -> None:
    assert classify(message, code) == kind
