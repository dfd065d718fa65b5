"""What ParallelCluster's API answers, as far as Trainyard reads it.

Names are those of the API's own description (openapi.yaml of 3.16.1); what is new is passed over.
"""

from datetime import datetime

from pydantic import Field

from trainyard_contracts.base import Lenient


class ValidationMessage(Lenient):
    """One finding on a configuration. `type` is the validator that found it."""

    level: str = ""
    type: str = ""
    message: str = ""


class UpdateError(Lenient):
    """Why one parameter cannot change now. `parameter` is a path with names in brackets."""

    parameter: str = ""
    current_value: str = ""
    requested_value: str = ""
    message: str = ""


class ClusterSummary(Lenient):
    """A cluster in a list, and what create, update and delete answer of it."""

    cluster_name: str
    region: str = ""
    version: str = ""
    cluster_status: str
    cloudformation_stack_arn: str = ""
    cloudformation_stack_status: str = ""


class Accepted(Lenient):
    """Of create and update: the cluster, and findings that did not hinder it."""

    cluster: ClusterSummary
    validation_messages: list[ValidationMessage] | None = None


class HeadNodeInstance(Lenient):
    """The head node's instance, once there is one."""

    instance_id: str
    instance_type: str = ""
    state: str = ""
    private_ip_address: str | None = None
    launch_time: datetime | None = None


class Failure(Lenient):
    """Why the making failed."""

    failure_code: str = ""
    failure_reason: str = ""


class Tag(Lenient):
    key: str
    value: str = ""


class ClusterDescription(Lenient):
    """Of describe. The stack's status is spelt `cloudFormationStackStatus` here and only here."""

    cluster_name: str
    version: str = ""
    cluster_status: str
    compute_fleet_status: str = ""
    cloudformation_stack_arn: str = ""
    cloudformation_stack_status: str = Field(default="", alias="cloudFormationStackStatus")
    creation_time: datetime | None = None
    last_updated_time: str | None = None
    failure_reason: str | None = None
    failures: list[Failure] | None = None
    head_node: HeadNodeInstance | None = None
    tags: list[Tag] | None = None


class Instance(Lenient):
    """One node. `queue_name` is of a worker."""

    instance_id: str
    instance_type: str = ""
    node_type: str = ""
    state: str = ""
    queue_name: str | None = None
    pool_name: str | None = None
    private_ip_address: str | None = None
    launch_time: datetime | None = None


class StackEvent(Lenient):
    """One event of the cluster's stack."""

    event_id: str
    stack_id: str = ""
    stack_name: str = ""
    physical_resource_id: str | None = None
    logical_resource_id: str | None = None
    resource_type: str | None = None
    resource_status: str | None = None
    resource_status_reason: str | None = None
    timestamp: datetime


class LogStream(Lenient):
    """A log of one node or daemon in CloudWatch."""

    log_stream_name: str
    last_event_timestamp: datetime | None = None


class LogEvent(Lenient):
    message: str
    timestamp: datetime | None = None


class Fleet(Lenient):
    """Whether jobs can get nodes."""

    status: str
    last_status_updated_time: datetime | None = None


class Page(Lenient):
    """One page of a list."""

    next_token: str | None = None


class ClusterPage(Page):
    clusters: list[ClusterSummary]


class InstancePage(Page):
    instances: list[Instance]


class EventPage(Page):
    events: list[StackEvent]


class StreamPage(Page):
    log_streams: list[LogStream]


class LogPage(Lenient):
    """Lines of one log. Its tokens are not read: the last lines are asked for at once."""

    events: list[LogEvent]


class Deleted(Lenient):
    cluster: ClusterSummary
