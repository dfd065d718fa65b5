"""What first-light sees of the run: our API's answers and AWS's own, each read once a stage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar

from trainyard_sdk.client import Client

from ..doctor.account import Account, NotAnswered
from ..problems import ApiProblem, CliError
from .stage_names import StageName

Json = dict[str, Any]
T = TypeVar("T")
#: What AWS's services call something that is not there.
MISSING = ("ResourceNotFound", "ResourceNotFoundException", "NoSuchEntity")
LOG_LINES = 10_000


class World:
    """Read by looks.

    They may let NotAnswered and CliError pass: then their assumption counts as not seen, with
    the reason.

    `spec` is the run's, with `cluster.spec`. The stages and the engine tell what they did by the
    methods under "What happened"; nobody else changes what is known of it: `findings` (doctor's),
    `plan` (the dry run's answer), `price`, `in_doubt`, `run_id`, `disturbed` (the node that was
    replaced, as it was before), `began` (when each stage began), `failure` (what stopped the stage
    that is looked at).
    """

    def __init__(self, api: Client, account: Account, spec: Json, cluster_name: str) -> None:
        self.api, self.account, self.spec, self.cluster_name = api, account, spec, cluster_name
        self.stage: StageName = "account"
        self.failure: CliError | None = None
        self.findings: list[Json] = []
        self.plan: Json | None = None
        self.price: Json | None = None
        #: How long nodes may be paid for, when every stage takes all its time.
        self.paid_seconds = 0.0
        #: The cluster was asked for, and no answer came: our API may make it yet.
        self.in_doubt = False
        self.run_id: str | None = None
        self.disturbed: Json | None = None
        self.began: dict[StageName, datetime] = {}
        self._read: dict[str, Any] = {}

    # What happened

    def stage_began(self, stage: StageName) -> None:
        self.stage, self.failure = stage, None
        self.began[stage] = datetime.now(timezone.utc)

    def stage_failed(self, problem: CliError) -> None:
        self.failure = problem

    def nodes_are_paid_for(self, at_most_seconds: float) -> None:
        self.paid_seconds = at_most_seconds

    def examined(self, findings: list[Json]) -> None:
        self.findings = findings

    def planned(self, plan: Json) -> None:
        self.plan = plan

    def priced(self, price: Json) -> None:
        self.price = price

    def cluster_requested(self) -> None:
        self.in_doubt = True

    def cluster_answered(self) -> None:
        """Our API said whether it makes the cluster."""
        self.in_doubt = False

    def submitted(self, run_id: str) -> None:
        self.run_id = run_id

    def replaced(self, node: Json) -> None:
        self.disturbed = node

    def went_before(self, run_id: str | None, *, in_doubt: bool) -> None:
        """An earlier first light asked for the cluster, and only its teardown is left to do."""
        self.run_id, self.in_doubt = run_id, in_doubt
        self.began["create"] = datetime.now(timezone.utc)

    # Where and what

    @property
    def local(self) -> bool:
        """Whether this is the local cloud and not AWS."""
        return self.api.connection.local is not None

    @property
    def cluster_spec(self) -> Json:
        return dict(self.spec["cluster"]["spec"])

    def forget(self) -> None:
        """From now on everything is read again."""
        self._read.clear()
        self.account.forget()

    def _once(self, key: str, read: Callable[[], T]) -> T:
        """Also what could not be read is not asked again: an API that is down answers slowly."""
        if key not in self._read:
            try:
                self._read[key] = read()
            except CliError as error:
                self._read[key] = error
        found: T | CliError = self._read[key]
        if isinstance(found, CliError):
            raise found
        return found

    # Our API

    @property
    def cluster(self) -> Json | None:
        """The cluster as our API shows it; None if it knows none of that name."""
        return self._once("cluster", lambda: _or_none(lambda: self.api.cluster(self.cluster_name)))

    @property
    def agent_heard_at(self) -> str | None:
        """When an event of the controller's agent last came; None if none did.

        ClusterReady is one, and comes before the first heartbeat does.
        """
        cluster = self.cluster or {}
        at = cluster.get("lastHeartbeatAt") or cluster.get("readyAt")
        return str(at) if at else None

    @property
    def cluster_id(self) -> str | None:
        """The end of the cluster's ARN, once AWS gave it one."""
        arn = (self.cluster or {}).get("arn")
        return str(arn).rsplit("/", 1)[-1] if arn else None

    @property
    def nodes(self) -> list[Json]:
        """The cluster's nodes as our API shows them."""
        return self._once(
            "nodes", lambda: _or_none(lambda: self.api.nodes(self.cluster_name)) or []
        )

    @property
    def run(self) -> Json | None:
        """The run; None before it was submitted."""
        run_id = self.run_id
        return None if run_id is None else self._once("run", lambda: self.api.run(run_id))

    @property
    def attempts(self) -> list[Json]:
        return list((self.run or {}).get("attempts") or [])

    @property
    def checkpoints(self) -> list[Json]:
        """The run's, newest first."""
        run_id = self.run_id
        return (
            []
            if run_id is None
            else self._once("checkpoints", lambda: self.api.checkpoints(run_id))
        )

    def timeline(self, *kinds: str) -> list[Json]:
        """The run's timeline entries of these types (or of all), oldest first.

        Empty before the run was submitted.
        """
        run_id = self.run_id
        if run_id is None:
            return []
        entries = self._once("timeline", lambda: self.api.events(run_id))
        return [entry for entry in entries if not kinds or entry["type"] in kinds]

    def log(self, kind: str = "job", lines: int = 200) -> Json:
        """{source, text}: the tail of the job's log (or of the lifecycle scripts') from our API.

        Empty before the run.
        """
        run_id = self.run_id
        if run_id is None:
            return {"source": "none", "text": ""}
        return self._once(
            f"log {kind} {lines}", lambda: self.api.logs(run_id, lines=lines, kind=kind)
        )

    # AWS's own answers

    def output(self, name: str) -> str:
        """An output of Trainyard's stack. Raises CliError."""
        found = self.account.outputs.get(name)
        if found is None:
            raise CliError(
                "The stack is not known",
                f"--stack {self.account.stack_name} has no output {name}",
                "Give the --stack of this API",
            )
        return found

    @property
    def described(self) -> Json | None:
        """DescribeCluster's answer; None where AWS knows no such cluster."""
        return self.asked("sagemaker", "DescribeCluster", ClusterName=self.cluster_name)

    @property
    def backend_nodes(self) -> list[Json]:
        """ListClusterNodes' summaries."""
        try:
            return list(
                self.account.all(
                    "sagemaker",
                    "ListClusterNodes",
                    "ClusterNodeSummaries",
                    ClusterName=self.cluster_name,
                )
            )
        except NotAnswered as error:
            if error.code in MISSING:
                return []
            raise

    def described_node(self, instance_id: str) -> Json | None:
        """DescribeClusterNode's details of it."""
        found = self.asked(
            "sagemaker", "DescribeClusterNode", ClusterName=self.cluster_name, NodeId=instance_id
        )
        return None if found is None else dict(found["NodeDetails"])

    def executions(self, machine: str, name: str) -> list[Json]:
        """Running executions of the `run`, `cluster` or `teardown` machine for this first light."""
        arn = f"{self.output('RunMachineArn').removesuffix('-run')}-{machine}"
        request: Json = {"stateMachineArn": arn, "statusFilter": "RUNNING"}
        found: list[Json] = []
        while True:
            page = self.account.call("stepfunctions", "ListExecutions", **request)
            found += [one for one in page["executions"] if one["name"].startswith(f"{name}-")]
            if not page.get("nextToken"):
                return found
            request["nextToken"] = page["nextToken"]

    @property
    def log_group(self) -> str:
        """Where HyperPod keeps the logs of this cluster's lifecycle scripts."""
        return f"/aws/sagemaker/Clusters/{self.cluster_name}/{self.cluster_id}"

    @property
    def log_streams(self) -> list[str]:
        """Names of the streams of that group."""
        request = {"logGroupName": self.log_group}
        found: list[str] = []
        while True:
            page = self.asked("logs", "DescribeLogStreams", **request)
            if page is None:
                return found
            found += [str(stream["logStreamName"]) for stream in page["logStreams"]]
            if not page.get("nextToken"):
                return found
            request["nextToken"] = page["nextToken"]

    def lifecycle_logs(self, node: Json) -> list[str]:
        """Lines of the lifecycle script's log of a node (an entry of `nodes`), oldest first.

        Empty where its stream is not there.
        """
        return self.stream(f"LifecycleConfig/{node['group']}/{node['instanceId']}")

    def stream(self, name: str) -> list[str]:
        """Lines of a stream of the cluster's log group."""
        lines: list[str] = []
        request = {"logGroupName": self.log_group, "logStreamName": name, "startFromHead": True}
        while len(lines) < LOG_LINES:
            page = self.asked("logs", "GetLogEvents", **request)
            if page is None:
                break
            lines += [str(event["message"]).rstrip("\n") for event in page["events"]]
            if page.get("nextForwardToken") in (
                None,
                request.get("nextToken"),
            ):  # a page may be empty before the end
                break
            request["nextToken"] = page["nextForwardToken"]
        return lines

    def asked(self, service: str, operation: str, **request: Any) -> Json | None:
        """AWS's answer; None where what it was asked for is not there. Raises NotAnswered."""
        try:
            return self.account.call(service, operation, **request)
        except NotAnswered as error:
            if error.code in MISSING:
                return None
            raise


def _or_none(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except ApiProblem as problem:
        if problem.status == 404:
            return None
        raise
