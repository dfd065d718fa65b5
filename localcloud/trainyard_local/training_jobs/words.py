"""SageMaker's words about a training job: status messages, and why a job failed.

The messages are those of the API reference of SecondaryStatusTransition and of logs that people
published. AWS says that they may change, so nothing may depend on them.
"""

from __future__ import annotations

STARTING = "Starting the training job"
WAITING = "Training job waiting for capacity"
NO_CAPACITY = "Insufficient capacity error from EC2 while launching instances, retrying!"
PREPARING = "Preparing the instances for training"
DOWNLOADING = "Downloading input data"
IMAGE = "Downloading the training image"
TRAINING = "Training image download completed. Training in progress."
UPLOADING = "Uploading generated training model"
STOPPING = "Stopping the training job"
INTERRUPTED = "Training job interrupted"
#: By the secondary status that a job ends with.
ENDED = {
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job exceeded MaxWaitTimeInSeconds provided",
}

CAPACITY_ERROR = (
    "CapacityError: Unable to provision requested ML compute capacity. "
    "Please retry using a different ML instance type."
)
INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again."
#: DescribeTrainingJob gives so much of /opt/ml/output/failure.
FAILURE_CHARACTERS = 1024


def algorithm_error(failure: str, exit_code: int) -> str:
    """FailureReason of a container that ended badly; `failure` is what it wrote about it."""
    return f"AlgorithmError: {failure[:FAILURE_CHARACTERS]}, exit code: {exit_code}"


def client_error(what: str) -> str:
    """FailureReason of what only the job's owner can put right."""
    return f"ClientError: {what}"


def nothing_below(uri: str, bucket: str, role: str, region: str, because: str) -> str:
    """A channel's prefix has no object, or the role may not list it."""
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. '
        f"Please ensure that the bucket exists in the selected region ({region}), "
        f"that objects exist under that S3 prefix, and that the role "
        f'"{role}" has "s3:ListBucket" permissions on bucket "{bucket}". '
        f"Error message from S3: {because}"
    )
