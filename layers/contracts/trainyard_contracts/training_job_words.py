"""Words of a training job's spec: patterns and lengths of its strings, and what is said of them.

They are those of CreateTrainingJob in botocore's model, unless a comment says more.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from .base import judged, matching

#: No control character and no end of a line: what the API's pattern '.' takes.
PLAIN = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"
S3_URI_PATTERN = rf"^s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9](/{PLAIN}*)?$"
ROLE_ARN_PATTERN = r"^arn:aws[a-z\-]*:iam::[0-9]{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$"

TrainingInstanceType = Annotated[
    str,
    matching(
        r"^ml\.[a-z0-9-]+\.[a-z0-9]+$",
        "must be a training instance type such as ml.p4d.24xlarge",
        max_length=64,
    ),
]
S3Uri = Annotated[
    str,
    matching(
        S3_URI_PATTERN,
        "must be s3://BUCKET/KEY, such as s3://my-corpus/tokens/",
        max_length=1024,
    ),
]
LocalDirectory = Annotated[
    str,
    matching(
        rf"^/{PLAIN}*$",
        "must be an absolute path, such as /opt/ml/checkpoints",
        max_length=4096,
    ),
]
KmsKey = Annotated[
    str,
    matching(
        r"^[a-zA-Z0-9:/_-]+$",
        "must be the id or the ARN of a KMS key, such as 1234abcd-12ab-34cd-56ef-1234567890ab",
        max_length=2048,
    ),
]
ImageUri = Annotated[
    str,
    matching(
        r"^[^\s\x00-\x1f\x7f-\x9f]+$",
        "must be the URI of an image, such as "
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1.0",
        max_length=255,
    ),
]
RoleArn = Annotated[
    str,
    matching(
        ROLE_ARN_PATTERN,
        "must be the ARN of a role, such as arn:aws:iam::123456789012:role/training",
        max_length=2048,
    ),
]
TrainingPlanArn = Annotated[
    str,
    matching(
        r"^arn:aws[a-z\-]*:sagemaker:[a-z0-9\-]{5,}:[0-9]{12}:training-plan/[^\s\x00-\x1f\x7f-\x9f]+$",
        "must be the ARN of a training plan, such as "
        "arn:aws:sagemaker:us-east-1:123456789012:training-plan/NAME",
        max_length=2048,
    ),
]
Version = Annotated[
    str,
    matching(
        r"^[0-9]+\.[0-9]+(\.[0-9]+)?$", "must be a version such as 2.8.0 or 2.8", max_length=20
    ),
]
# EC2's kinds of ids, within the API's own bounds.
Subnet = Annotated[
    str,
    matching(
        r"^subnet-[0-9a-zA-Z-]+$",
        "must be the id of a subnet such as subnet-0123456789abcdef0",
        max_length=32,
    ),
]
SecurityGroup = Annotated[
    str,
    matching(
        r"^sg-[0-9a-zA-Z-]+$",
        "must be the id of a security group such as sg-0123456789abcdef0",
        max_length=32,
    ),
]
#: Of one line, in ASCII: as a hyperparameter it is encoded as JSON, where others take six times the
#: room of a value.
ModelDirectory = Annotated[
    str,
    matching(
        r"^((s3://|/)[!-~]+|none)$",
        "must be s3://BUCKET/KEY or an absolute path, or 'none' for no model_dir",
        max_length=1024,
    ),
]
MpiOptions = Annotated[
    str,
    matching(r"^[ -~]*$", "must be options for mpirun on one line, in ASCII", max_length=1200),
]
PythonVersion = Annotated[
    str,
    matching(r"^py3[0-9]*$", "must be a Python such as py310, as tags of images have it"),
    StringConstraints(max_length=8),
]


def plain(what: str, max_length: int) -> StringConstraints:
    """One line that is not empty; `what` is named in the answer to any other."""
    return matching(
        rf"^{PLAIN}{{1,{max_length}}}$", f"must be {what}: one line of 1 to {max_length} characters"
    )


GroupName = Annotated[str, plain("the name of an instance group", 64)]
AttributeName = Annotated[str, plain("the name of an attribute", 256)]
MetricName = Annotated[str, plain("the name of a metric", 255)]
MetricRegex = Annotated[str, plain("a regular expression", 500)]
ContentType = Annotated[str, plain("a MIME type such as text/csv", 256)]
FileSystemId = Annotated[
    str,
    matching(
        r"^fs-[0-9a-f]{8,18}$", "must be the id of a filesystem, such as fs-0123456789abcdef0"
    ),
]
ChannelName = Annotated[
    str,
    matching(r"^[A-Za-z0-9.\-_]{1,64}$", "must be 1 to 64 letters, digits, dots, hyphens and _"),
]
_TAG_PUNCTUATION = set(" _.:/=+-@")


def _tag_text(value: str) -> str:
    wrong = [one for one in value if not (one.isalnum() or one in _TAG_PUNCTUATION)]
    if wrong:
        raise ValueError(
            f"must not contain {wrong[0]!r}: tags are letters, digits, spaces and _ . : / = + - @"
        )
    return value


TagKey = Annotated[str, StringConstraints(min_length=1, max_length=128), judged(_tag_text)]
TagValue = Annotated[str, StringConstraints(max_length=256), judged(_tag_text)]
