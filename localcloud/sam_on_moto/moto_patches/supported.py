"""What the local cloud does of AWS; everything else is refused with the reason.

moto would answer as if it were done.
"""

from __future__ import annotations

from collections.abc import Mapping

Operations = Mapping[str, frozenset[str]]
"""By a service's signing name, its operations."""
#: Of S3 also IAM's names, which moto gives for some requests. What a product does besides, it adds.
OPERATIONS: Operations = {
    service: frozenset(names.split())
    for service, names in {
        "dynamodb": """
            BatchGetItem BatchWriteItem CreateTable DeleteItem DeleteTable DescribeTable GetItem
            ListTables PutItem Query Scan TransactGetItems TransactWriteItems UpdateItem
            DescribeContinuousBackups DescribeTimeToLive
        """,
        "events": """
            DeleteRule DescribeEventBus DescribeRule ListEventBuses ListRules ListTargetsByRule
            PutEvents PutRule PutTargets RemoveTargets
        """,
        "iam": """
            AttachRolePolicy AttachUserPolicy CreateAccessKey CreatePolicy CreateRole CreateUser
            DeleteAccessKey DeletePolicy DeleteRole DeleteRolePolicy DeleteUser DeleteUserPolicy
            GetPolicy GetPolicyVersion GetRole GetRolePolicy GetUser GetUserPolicy ListAccessKeys
            ListAttachedRolePolicies ListPolicies ListRolePolicies ListRoles ListUserPolicies
            ListUsers PutRolePolicy PutUserPolicy TagPolicy UpdateAccessKey
        """,
        "lambda": "Invoke",
        "logs": """
            CreateLogGroup CreateLogStream DeleteSubscriptionFilter DescribeLogGroups
            DescribeLogStreams DescribeSubscriptionFilters FilterLogEvents GetLogEvents
            PutLogEvents PutSubscriptionFilter
        """,
        "s3": """
            AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket
            CreateMultipartUpload DeleteBucket DeleteObject DeleteObjects GetBucketEncryption
            GetBucketLifecycleConfiguration GetBucketLocation GetBucketPolicy GetBucketTagging
            GetBucketVersioning GetObject GetObjectAttributes GetObjectTagging GetPublicAccessBlock
            HeadBucket HeadObject ListBuckets ListMultipartUploads ListObjectVersions ListObjects
            ListObjectsV2 ListParts PutObject UploadPart UploadPartCopy DeleteObjectVersion
            GetLifecycleConfiguration GetObjectVersion ListBucket ListBucketMultipartUploads
            ListBucketVersions ListMultipartUploadParts
        """,
        "scheduler": """
            CreateSchedule DeleteSchedule GetSchedule GetScheduleGroup ListScheduleGroups
            ListSchedules UpdateSchedule
        """,
        "secretsmanager": """
            CreateSecret DeleteSecret DescribeSecret GetSecretValue ListSecrets
            ListSecretVersionIds PutSecretValue TagResource
        """,
        "sns": """
            GetTopicAttributes ListSubscriptions ListSubscriptionsByTopic ListTopics Publish
            SetSubscriptionAttributes Subscribe Unsubscribe
        """,
        "sqs": """
            ChangeMessageVisibility CreateQueue DeleteMessage DeleteMessageBatch DeleteQueue
            GetQueueAttributes GetQueueUrl ListQueues PurgeQueue ReceiveMessage SendMessage
            SendMessageBatch
        """,
        "states": """
            DescribeExecution DescribeStateMachine GetExecutionHistory ListExecutions
            ListStateMachines SendTaskFailure SendTaskHeartbeat SendTaskSuccess StartExecution
            StopExecution
        """,
        "sts": "AssumeRole GetCallerIdentity",
    }.items()
}


def refusal(service: str, operation: str | None, operations: Operations = OPERATIONS) -> str | None:
    """Why the local cloud does not do this; None if it does."""
    done = operations.get(service, frozenset())
    if operation not in done:
        return (
            f"the local cloud does not do {service}:{operation}; "
            f"of {service} it does: {', '.join(sorted(done))}"
        )
    return None
