"""The resource types, each made in moto's backend or in one of our own parts."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_on_moto.bus import bus, patterns
from sam_on_moto.functions import step_functions
from sam_on_moto.functions.registry import MOST_WORKERS
from sam_on_moto.functions.workers import FunctionConfig
from sam_on_moto.iam.managed_policies import MANAGED_POLICIES
from sam_on_moto.template.intrinsics import TemplateError
from sam_on_moto.template.parts import Parts

Made = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """One resource to make, its properties resolved."""

    stack: str
    logical_id: str
    properties: dict[str, Any]

    def name(self, key: str) -> str:
        """The property's value, or a generated name as CloudFormation makes them."""
        return str(
            self.properties.get(key) or f"{self.stack}-{self.logical_id}-{secrets.token_hex(6)}"
        )


class Maker:
    """What the resource types need to be made: the cloud's parts, and where code lies.

    `Code` and `Content` name staged folders.
    """

    def __init__(
        self, parts: Parts, code_dir: Path, layer_dir: Callable[[list[Path]], Path]
    ) -> None:
        self.parts = parts
        self.cloud = parts.cloud
        self.code_dir = code_dir
        self.layer_dir = layer_dir
        self.layers: dict[str, Path] = {}

    def arn(self, service: str, rest: str) -> str:
        return f"arn:aws:{service}:{self.cloud.region}:{self.cloud.account_id}:{rest}"

    def staged(self, location: Mapping[str, str]) -> Path:
        path = self.code_dir / location.get("S3Key", "it has no S3Key")
        if not path.is_dir():
            raise TemplateError(f"no code was packaged for {location}")
        return path

    def backend(self, service: str, *, scope: str | None = None) -> Any:
        from moto.backends import get_backend

        return get_backend(service)[self.cloud.account_id][scope or self.cloud.region]


@dataclass(frozen=True)
class Kind:
    """A resource type: the properties it understands, and how it is made.

    `complaints` tells what can be known to be wrong with them before anything is made.
    """

    properties: frozenset[str]
    make: Callable[[Maker, Wanted], Made]
    complaints: Callable[[Mapping[str, Any]], list[str]]


#: Checks what a resource that is there, by its physical id, is to become. Returns what makes it so.
Prepare = Callable[[Maker, Wanted, str], Callable[[], object]]


@dataclass(frozen=True)
class Update:
    """How a resource that is there becomes another, and which of its properties that reaches."""

    properties: frozenset[str]
    prepare: Prepare


TYPES: dict[str, Kind] = {}
#: A resource of any other type stays as it is.
UPDATES: dict[str, Update] = {}
#: What is there may refer to a new one of these, so an update makes them before it looks at the
#: rest. One of an update that is refused then stays, and nothing uses it.
ADDED = frozenset(
    {
        "AWS::Lambda::LayerVersion",
        "AWS::IAM::Role",
        "AWS::Logs::LogGroup",
        "AWS::Scheduler::ScheduleGroup",
        "AWS::SNS::Topic",
    }
)
#: An update makes these once all else is found right.
ADDED_LATE = frozenset(
    {
        "AWS::CloudWatch::Alarm",
        "AWS::Events::Rule",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::Function",
        "AWS::Lambda::Permission",
    }
)


def update_of(type_name: str, properties: str) -> Callable[[Prepare], Prepare]:
    """Register how a resource of this type gets other values of these properties."""

    def register(prepare: Prepare) -> Prepare:
        UPDATES[type_name] = Update(frozenset(properties.split()), prepare)
        return prepare

    return register


def resource(
    type_name: str,
    properties: str,
    complaints: Callable[[Mapping[str, Any]], list[str]] = lambda properties: [],
) -> Callable[[Callable[[Maker, Wanted], Made]], Callable[[Maker, Wanted], Made]]:
    """Register a resource type.

    A property that is not listed is an error. One that is listed is honoured, or has no meaning
    locally.
    """

    def register(make: Callable[[Maker, Wanted], Made]) -> Callable[[Maker, Wanted], Made]:
        TYPES[type_name] = Kind(frozenset(properties.split()), make, complaints)
        return make

    return register


@resource(
    "AWS::DynamoDB::Table",
    "TableName BillingMode AttributeDefinitions KeySchema GlobalSecondaryIndexes "
    "TimeToLiveSpecification PointInTimeRecoverySpecification "
    "SSESpecification Tags DeletionProtectionEnabled",
)
def _table(maker: Maker, want: Wanted) -> Made:
    """TTL is recorded but never acted upon: moto keeps expired items."""
    p, name, backend = want.properties, want.name("TableName"), maker.backend("dynamodb")
    table = backend.create_table(
        name=name,
        schema=p["KeySchema"],
        attr=p["AttributeDefinitions"],
        global_indexes=p.get("GlobalSecondaryIndexes", []),
        indexes=[],
        throughput=None,
        streams=None,
        billing_mode=p.get("BillingMode", "PROVISIONED"),
        sse_specification=p.get("SSESpecification"),
        tags=p.get("Tags", []),
        deletion_protection_enabled=p.get("DeletionProtectionEnabled", False),
        warm_throughput=None,
    )
    if "TimeToLiveSpecification" in p:
        backend.update_time_to_live(name, p["TimeToLiveSpecification"])
    if p.get("PointInTimeRecoverySpecification"):
        backend.update_continuous_backups(name, p["PointInTimeRecoverySpecification"])
    return name, {"Arn": table.table_arn}


@update_of("AWS::DynamoDB::Table", "AttributeDefinitions GlobalSecondaryIndexes")
def _update_table(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    """Another index, made of what is there. As on AWS, none that is there becomes another."""
    p, backend = want.properties, maker.backend("dynamodb")
    there = {index.name for index in backend.get_table(physical_id).global_indexes}
    asked = {index["IndexName"]: index for index in p.get("GlobalSecondaryIndexes", [])}
    if gone := sorted(there - set(asked)):
        raise ValueError(f"the indexes {gone} would go; take the local cloud down and up")
    new = [{"Create": index} for name, index in asked.items() if name not in there]

    def change() -> None:
        backend.update_table(
            physical_id,
            attr_definitions=p["AttributeDefinitions"],
            global_index=new,
            throughput={},
            billing_mode="",
            stream_spec={},
            deletion_protection_enabled=None,
            warm_throughput=None,
        )

    return change


@resource(
    "AWS::S3::Bucket",
    "BucketName BucketEncryption OwnershipControls PublicAccessBlockConfiguration "
    "VersioningConfiguration LifecycleConfiguration Tags",
)
def _bucket(maker: Maker, want: Wanted) -> Made:
    """Private, since every request is authorized anyway.

    Lifecycle rules never act: the local cloud does not live that long.
    """
    name = want.name("BucketName").lower()
    backend = maker.backend("s3", scope="aws")
    backend.create_bucket(name, maker.cloud.region)
    if want.properties.get("VersioningConfiguration", {}).get("Status"):
        backend.put_bucket_versioning(name, want.properties["VersioningConfiguration"]["Status"])
    return name, {"Arn": f"arn:aws:s3:::{name}", "DomainName": f"{name}.s3.amazonaws.com"}


@update_of("AWS::S3::Bucket", "LifecycleConfiguration")
def _update_bucket(_maker: Maker, _want: Wanted, _physical_id: str) -> Callable[[], object]:
    """Its rules never act."""
    return lambda: None


@resource("AWS::S3::BucketPolicy", "Bucket PolicyDocument")
def _bucket_policy(maker: Maker, want: Wanted) -> Made:
    bucket = want.properties["Bucket"]
    maker.cloud.access.bucket_policies[bucket] = want.properties["PolicyDocument"]
    return bucket, {}


@resource(
    "AWS::SQS::Queue",
    "QueueName MessageRetentionPeriod SqsManagedSseEnabled VisibilityTimeout Tags",
)
def _queue(maker: Maker, want: Wanted) -> Made:
    name = want.name("QueueName")[:80]
    attributes = {
        k: str(v)
        for k, v in want.properties.items()
        if k in ("MessageRetentionPeriod", "VisibilityTimeout")
    }
    maker.backend("sqs").create_queue(name=name, **attributes)
    url = f"{maker.cloud.endpoint}/{maker.cloud.account_id}/{name}"
    return url, {"Arn": maker.arn("sqs", name), "QueueName": name, "QueueUrl": url}


@resource("AWS::SQS::QueuePolicy", "Queues PolicyDocument")
def _queue_policy(maker: Maker, want: Wanted) -> Made:
    for url in want.properties["Queues"]:
        maker.backend("sqs").set_queue_attributes(
            url.split("/")[-1], {"Policy": json.dumps(want.properties["PolicyDocument"])}
        )
    return want.name(""), {}


@resource("AWS::SNS::Topic", "TopicName Subscription")
def _topic(maker: Maker, want: Wanted) -> Made:
    """Queues and HTTP hear it. Alarms do not change state here, and mail is not sent."""
    topic = maker.backend("sns").create_topic(want.name("TopicName"))
    for entry in want.properties.get("Subscription", []):
        maker.backend("sns").subscribe(topic.arn, entry["Endpoint"], entry["Protocol"])
    return topic.arn, {"TopicName": topic.name, "TopicArn": topic.arn}


@resource("AWS::Logs::LogGroup", "LogGroupName RetentionInDays Tags")
def _log_group(maker: Maker, want: Wanted) -> Made:
    name = want.name("LogGroupName")
    maker.backend("logs").create_log_group(name, {})
    if "RetentionInDays" in want.properties:
        maker.backend("logs").put_retention_policy(name, int(want.properties["RetentionInDays"]))
    return name, {"Arn": maker.arn("logs", f"log-group:{name}:*")}


@resource(
    "AWS::IAM::Role",
    "RoleName AssumeRolePolicyDocument Policies ManagedPolicyArns Description Path Tags "
    "MaxSessionDuration",
)
def _role(maker: Maker, want: Wanted) -> Made:
    p, name = want.properties, want.name("RoleName")
    policies = _policies(p)
    role = maker.backend("iam", scope="aws").create_role(
        role_name=name,
        assume_role_policy_document=json.dumps(p["AssumeRolePolicyDocument"], default=str),
        path=p.get("Path", "/"),
        permissions_boundary="",
        description=p.get("Description", ""),
        tags=[],
        max_session_duration=p.get("MaxSessionDuration", 3600),
    )
    for policy, document in policies.items():
        role.put_policy(policy, document)
    return name, {"Arn": role.arn, "RoleId": role.id}


def _policies(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The documents of a role by their names."""
    found = {one["PolicyName"]: one["PolicyDocument"] for one in properties.get("Policies", [])}
    for arn in properties.get("ManagedPolicyArns", []):
        if arn not in MANAGED_POLICIES:
            raise TemplateError(
                f"the local cloud does not know the managed policy {arn}; "
                "add its document to managed_policies.py"
            )
        found[arn.split("/")[-1]] = MANAGED_POLICIES[arn]
    return found


@update_of("AWS::IAM::Role", "Policies ManagedPolicyArns Description Tags")
def _update_role(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    role = maker.backend("iam", scope="aws").get_role(physical_id)
    policies = _policies(want.properties)

    def change() -> None:
        role.policies.clear()
        for name, document in policies.items():
            role.put_policy(name, document)

    return change


@resource("AWS::IAM::ManagedPolicy", "ManagedPolicyName PolicyDocument Description Path")
def _managed_policy(maker: Maker, want: Wanted) -> Made:
    p = want.properties
    document = json.dumps(p["PolicyDocument"], default=str)
    policy = maker.backend("iam", scope="aws").create_policy(
        p.get("Description", ""), p.get("Path", "/"), document, want.name("ManagedPolicyName"), []
    )
    return policy.arn, {"PolicyArn": policy.arn}


@update_of("AWS::IAM::ManagedPolicy", "PolicyDocument")
def _update_managed_policy(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    """As on AWS, whoever has the policy has its new version at once."""
    document = json.dumps(want.properties["PolicyDocument"], default=str)
    backend = maker.backend("iam", scope="aws")

    def change() -> None:
        older = backend.get_policy(physical_id).default_version_id
        backend.create_policy_version(physical_id, document, "true")
        backend.delete_policy_version(physical_id, older)

    return change


@resource(
    "AWS::Lambda::LayerVersion",
    "LayerName Content Description CompatibleRuntimes CompatibleArchitectures LicenseInfo",
)
def _layer(maker: Maker, want: Wanted) -> Made:
    arn = maker.arn("lambda", f"layer:{want.name('LayerName')}:1")
    maker.layers[arn] = maker.staged(want.properties["Content"])
    return arn, {"LayerVersionArn": arn}


@update_of("AWS::Lambda::LayerVersion", "Content Description CompatibleRuntimes LicenseInfo")
def _update_layer(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    """AWS makes a version with another number; here only the functions of this stack have it.

    The maker is this update's own: functions that follow in it take the folder from there.
    """
    maker.layers[physical_id] = maker.staged(want.properties["Content"])
    return lambda: None


def _function_complaints(properties: Mapping[str, Any]) -> list[str]:
    """A function of another language would be run as Python; one of another Python is run."""
    lacking = [f"it needs {name}" for name in ("Handler", "Runtime") if name not in properties]
    runtime = properties.get("Runtime")
    if isinstance(runtime, str) and not runtime.startswith("python3."):
        own = f"python{sys.version_info.major}.{sys.version_info.minor}"
        lacking.append(f"the runtime {runtime} is not supported; functions run in {own} here")
    return lacking


@resource(
    "AWS::Lambda::Function",
    "FunctionName Code Handler Role Runtime Timeout MemorySize Environment Layers Architectures "
    "Description Tags LoggingConfig DeadLetterConfig TracingConfig ReservedConcurrentExecutions",
    _function_complaints,
)
def _function(maker: Maker, want: Wanted) -> Made:
    """Architectures and the version of the Runtime say what AWS uses.

    The worker is the local cloud's own Python.
    """
    p, name = want.properties, want.name("FunctionName")
    config = _function_config(maker, p, name)
    maker.parts.functions.add(
        config,
        most=_most_workers(p),
        dead_letters=p.get("DeadLetterConfig", {}).get("TargetArn"),
    )
    return name, {"Arn": config.arn}


@update_of(
    "AWS::Lambda::Function",
    "Code Handler Role Runtime Timeout MemorySize Environment Layers Architectures Description "
    "Tags LoggingConfig TracingConfig ReservedConcurrentExecutions",
)
def _update_function(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    config = _function_config(maker, want.properties, physical_id)
    most = _most_workers(want.properties)
    return lambda: maker.parts.functions.replace(config, most=most)


def _most_workers(properties: Mapping[str, Any]) -> int:
    return int(properties.get("ReservedConcurrentExecutions", MOST_WORKERS))


def _function_config(maker: Maker, p: Mapping[str, Any], name: str) -> FunctionConfig:
    if wrong := _function_complaints(p):  # what the template computes is known only now
        raise TemplateError("; ".join(wrong))
    log_group = p.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}")
    return FunctionConfig(
        name=name,
        arn=maker.arn("lambda", f"function:{name}"),
        handler=p["Handler"],
        role=p["Role"],
        timeout=float(p.get("Timeout", 3)),
        memory=int(p.get("MemorySize", 128)),
        runtime=p["Runtime"],
        code=maker.staged(p["Code"]),
        opt=maker.layer_dir([maker.layers[layer] for layer in p.get("Layers", [])]),
        environment={k: str(v) for k, v in p.get("Environment", {}).get("Variables", {}).items()},
        log_group=log_group,
    )


@resource("AWS::Lambda::Permission", "Action FunctionName Principal SourceArn SourceAccount")
def _permission(maker: Maker, want: Wanted) -> Made:
    p = want.properties
    maker.parts.functions.get(p["FunctionName"]).permissions.append(
        (p["Principal"], p.get("SourceArn"))
    )
    return want.name(""), {}


@resource(
    "AWS::Lambda::EventInvokeConfig",
    "FunctionName Qualifier MaximumRetryAttempts MaximumEventAgeInSeconds DestinationConfig",
)
def _event_invoke_config(maker: Maker, want: Wanted) -> Made:
    p = want.properties
    function = maker.parts.functions.get(p["FunctionName"])
    function.retries = int(p.get("MaximumRetryAttempts", 2))
    function.most_age = float(p.get("MaximumEventAgeInSeconds", function.most_age))
    if set(p.get("DestinationConfig", {})) - {"OnFailure"}:
        raise TemplateError("only the OnFailure destination is supported")
    function.dead_letters = (
        p.get("DestinationConfig", {})
        .get("OnFailure", {})
        .get("Destination", function.dead_letters)
    )
    return want.name(""), {}


@resource("AWS::Events::EventBus", "Name Tags Description")
def _event_bus(maker: Maker, want: Wanted) -> Made:
    name = want.name("Name")
    maker.backend("events").create_event_bus(name)
    return name, {"Arn": maker.arn("events", f"event-bus/{name}"), "Name": name}


def _rule_complaints(properties: Mapping[str, Any]) -> list[str]:
    if "ScheduleExpression" in properties:
        return ["no rule fires by a schedule here; a function's event of the type ScheduleV2 does"]
    return []


@resource(
    "AWS::Events::Rule",
    "Name EventBusName EventPattern State Targets Description",
    _rule_complaints,
)
def _rule(maker: Maker, want: Wanted) -> Made:
    _check_rule(want)
    name, on = want.name("Name")[:64], want.properties.get("EventBusName", "default")
    arn = _put_rule(maker, want, name, on)
    return (name if on == "default" else f"{on}|{name}"), {"Arn": arn}


def _check_rule(want: Wanted) -> None:
    patterns.check(want.properties["EventPattern"])
    for target in want.properties.get("Targets", []):
        bus.check_target(target)


def _put_rule(maker: Maker, want: Wanted, name: str, on: str) -> str:
    p = want.properties
    rule = maker.backend("events").put_rule(
        name, event_pattern=json.dumps(p["EventPattern"]), event_bus_arn=on, state=p.get("State")
    )
    rule.targets = list(p.get("Targets", []))
    return str(rule.arn)


@update_of("AWS::Events::Rule", "EventPattern State Targets Description")
def _update_rule(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    _check_rule(want)
    *_, name = physical_id.split("|")
    on = want.properties.get("EventBusName", "default")
    return lambda: _put_rule(maker, want, name, on)


@resource("AWS::Scheduler::ScheduleGroup", "Name Tags")
def _schedule_group(maker: Maker, want: Wanted) -> Made:
    name = want.name("Name")
    group = maker.backend("scheduler").create_schedule_group(
        name=name, tags=want.properties.get("Tags") or []
    )
    return name, {"Arn": group.arn}


@resource(
    "AWS::Scheduler::Schedule",
    "Name GroupName ScheduleExpression FlexibleTimeWindow Target State Description",
)
def _schedule(maker: Maker, want: Wanted) -> Made:
    p, name = want.properties, want.name("Name")
    if p.get("FlexibleTimeWindow", {}).get("Mode", "OFF") != "OFF":
        raise TemplateError("only FlexibleTimeWindow Mode OFF is supported")
    if p.get("State", "ENABLED") != "ENABLED":
        return name, {"Arn": maker.arn("scheduler", f"schedule/default/{name}")}
    schedule = maker.parts.schedules.add(
        name, p["ScheduleExpression"], p["Target"], group=p.get("GroupName", "default")
    )
    return name, {"Arn": schedule.arn}


@resource(
    "AWS::StepFunctions::StateMachine",
    "StateMachineName StateMachineType DefinitionString Definition DefinitionSubstitutions "
    "RoleArn LoggingConfiguration TracingConfiguration Tags",
)
def _state_machine(maker: Maker, want: Wanted) -> Made:
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    p, name = want.properties, want.name("StateMachineName")
    definition = _definition(p, name)
    if p.get("StateMachineType", "STANDARD") != "STANDARD":
        raise TemplateError("only STANDARD state machines are supported")
    backend = stepfunctions_parser_backends[maker.cloud.account_id][maker.cloud.region]
    machine = backend.create_state_machine(name=name, definition=definition, roleArn=p["RoleArn"])
    return machine.arn, {"Arn": machine.arn, "Name": name}


@update_of(
    "AWS::StepFunctions::StateMachine",
    "DefinitionString Definition DefinitionSubstitutions RoleArn LoggingConfiguration "
    "TracingConfiguration Tags",
)
def _update_state_machine(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    """Executions that run go on by the definition that they began with, as on AWS."""
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    p = want.properties
    definition = _definition(p, physical_id.rsplit(":", 1)[-1])
    backend = stepfunctions_parser_backends[maker.cloud.account_id][maker.cloud.region]
    return lambda: backend.update_state_machine(
        physical_id, definition=definition, role_arn=p["RoleArn"]
    )


def _definition(p: Mapping[str, Any], name: str) -> str:
    definition = str(p.get("DefinitionString") or json.dumps(p["Definition"]))
    for key, value in p.get("DefinitionSubstitutions", {}).items():
        definition = definition.replace("${" + key + "}", str(value))
    step_functions.check_definition(name, definition)
    return definition


@resource("AWS::ApiGatewayV2::Api", "Body FailOnWarnings Tags")
def _api(maker: Maker, want: Wanted) -> Made:
    api = maker.parts.gateway.add(want.properties["Body"])
    return api.id, {"ApiId": api.id, "ApiEndpoint": maker.parts.gateway.url(api.id)}


@resource(
    "AWS::ApiGatewayV2::Stage",
    "ApiId StageName AutoDeploy DefaultRouteSettings AccessLogSettings Tags",
)
def _stage(maker: Maker, want: Wanted) -> Made:
    """Throttling and access logs have no meaning for one user on loopback."""
    maker.parts.gateway.apis[want.properties["ApiId"]].stages.add(want.properties["StageName"])
    return want.properties["StageName"], {}


@resource(
    "AWS::CloudWatch::Alarm",
    "AlarmName AlarmDescription Namespace MetricName Dimensions Statistic Period "
    "EvaluationPeriods DatapointsToAlarm Threshold ComparisonOperator TreatMissingData "
    "AlarmActions OKActions InsufficientDataActions Metrics ExtendedStatistic",
)
def _alarm(maker: Maker, want: Wanted) -> Made:
    """Checked for what every alarm needs, and named.

    It never fires: nothing here emits the metrics that an alarm would watch.
    """
    for needed in ("ComparisonOperator", "EvaluationPeriods"):
        if needed not in want.properties:
            raise TemplateError(f"an alarm needs {needed}")
    name = want.name("AlarmName")
    return name, {"Arn": maker.arn("cloudwatch", f"alarm:{name}")}


@resource("AWS::CloudWatch::Dashboard", "DashboardName DashboardBody")
def _dashboard(maker: Maker, want: Wanted) -> Made:
    name = want.name("DashboardName")
    json.loads(want.properties["DashboardBody"])  # a body that is no JSON fails on AWS too
    return name, {}


@update_of("AWS::CloudWatch::Dashboard", "DashboardBody")
def _update_dashboard(maker: Maker, want: Wanted, physical_id: str) -> Callable[[], object]:
    json.loads(want.properties["DashboardBody"])
    return lambda: None
