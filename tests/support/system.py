"""The whole system for the trouble tests: the SDK, boto3 on the local cloud, faults, leftovers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.support import waiting
from ulid import ULID

from trainyard.aws.items import document
from trainyard_contracts import signatures
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.processes import Process
from trainyard_sdk.client import Client

Json = dict[str, Any]
ENDED = ("Succeeded", "Failed", "Cancelled")
LIGHT_TRAINER = (Path(__file__).parent / "light_trainer.py").read_text()
#: Each look asks the cloud, which has to work as well.
eventually = partial(waiting.eventually, poll=0.3)


def light_job(nodes: int = 1, **options: Any) -> Json:
    """A job of the light trainer; `fail_at=7` becomes `--fail-at 7`."""
    arguments = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return {
        "recipe": "command",
        "nodes": nodes,
        "script": "light_trainer.py",
        "arguments": arguments,
        "files": {"light_trainer.py": LIGHT_TRAINER},
    }


def total(steps: int) -> int:
    """What the light trainer adds up to in so many steps, however often it was interrupted."""
    return sum(range(1, steps + 1))


@dataclass(frozen=True)
class Invocations:
    """A Lambda function's runtime processes, and how many invocations it has had."""

    workers: list[int]
    started: int
    failed: int


@dataclass(frozen=True)
class System:
    """One local cloud that is up. `local` is its local.json."""

    state_dir: Path
    local: Json
    api: Client

    def aws(self, service: str) -> Any:
        """A boto3 client with the owner's keys."""
        return boto3.client(
            service,
            endpoint_url=self.local["endpoint"],
            region_name=self.local["region"],
            aws_access_key_id=self.local["accessKeyId"],
            aws_secret_access_key=self.local["secretAccessKey"],
            config=Config(retries={"max_attempts": 2}, read_timeout=90),
        )

    @cached_property
    def events(self) -> Any:
        return self.aws("events")

    @cached_property
    def table(self) -> Any:
        return self.aws("dynamodb")

    # -- runs -------------------------------------------------------------------------------------
    def submit(self, name: str, job: Json, cluster: str | Json, **more: Any) -> str:
        """Submit a run on a cluster that exists (a name) or is made for it (a spec); its id."""
        where = {"name": cluster} if isinstance(cluster, str) else {"spec": cluster}
        return str(self.api.submit_run({"name": name, "cluster": where, "job": job, **more})["id"])

    def until(
        self, run_id: str, what: str, condition: Callable[[Json], Any], seconds: float = 60.0
    ) -> Json:
        """The run once the condition holds; if it ends before, fails early with the timeline."""

        def look() -> Json | None:
            run = self.api.run(run_id)
            if condition(run):
                return run
            assert run["status"] not in ENDED, f"the run is {run['status']} before: {what}"
            return None

        try:
            return dict(eventually(what, look, seconds))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(run_id)}") from None

    def training(
        self, run_id: str, attempt: int = 1, *, checkpoints: int = 0, seconds: float = 60.0
    ) -> Json:
        """The run once this attempt made its first step and so many whole checkpoints are known."""

        def trains(run: Json) -> bool:
            known = {found["number"]: found for found in run["attempts"]}
            stepped = attempt in known and known[attempt]["firstStepAt"]
            assert stepped or not any(number > attempt for number in known), (
                f"attempt {attempt} is over and made no step"
            )
            ready = bool(stepped and known[attempt]["nodes"])
            return ready and len(self.whole(run_id)) >= checkpoints

        return self.until(
            run_id,
            f"attempt {attempt} trains and {checkpoints} checkpoints are whole",
            trains,
            seconds,
        )

    def ended(self, run_id: str, status: str, seconds: float = 90.0) -> Json:
        """The run at its end: the expected status, a clear reason, nothing left of it."""
        try:
            if seconds:
                eventually(f"run {run_id} ends", lambda: _if_ended(self.api.run(run_id)), seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(run_id)}") from None
        run = self.api.run(run_id)
        assert run["status"] == status, f"{run['status']}, not {status}\n{self.story(run_id)}"
        self.assert_closed(run)
        return dict(run)

    def whole(self, run_id: str) -> list[Json]:
        """The run's whole checkpoints, newest first."""
        return [found for found in self.api.checkpoints(run_id) if found["status"] == "whole"]

    def timeline(self, run_id: str, *types: str) -> list[Json]:
        """The run's timeline entries of these types; all without any."""
        return [entry for entry in self.api.events(run_id) if not types or entry["type"] in types]

    def story(self, run_id: str) -> str:
        """The run's timeline as text, for whoever reads a failed test.

        Of checkpoints in a row the first and the last: CI keeps the end of what is printed.
        """
        run = self.api.run(run_id)
        lines = [f"{run_id} is {run['status']}: {run['reason']}"]
        for kind, entries in groupby(self.api.events(run_id), lambda entry: entry["type"]):
            found = list(entries)
            if kind == "CheckpointCommitted" and len(found) > 2:
                found = [found[0], {**found[-1], "message": f"... {found[-1]['message']}"}]
            lines += [
                f"{entry['at'][11:23]} {entry['kind']:8} {entry['type']:18} {entry['message']}"
                for entry in found
            ]
        return "\n".join(lines)

    def value(self, run_id: str) -> int:
        """What the light trainer's exported final model adds up to."""
        key = f"{self.export_prefix(run_id)}final/payload.json"
        body = self.aws("s3").get_object(Bucket=self.local["bucket"], Key=key)["Body"].read()
        return int(json.loads(body)["value"])

    def export_prefix(self, run_id: str) -> str:
        """Where the run's export lies in the data bucket."""
        return f"{self.api.run(run_id)['objectsPrefix']}/export/"

    def exported(self, run_id: str) -> list[str]:
        """Keys of the run's export in the data bucket."""
        pages = (
            self.aws("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=self.local["bucket"], Prefix=self.export_prefix(run_id))
        )
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def attempt_dir(self, run: Json, attempt: int) -> Path:
        """The attempt's directory on the cluster's shared filesystem."""
        return self.run_dir(run["id"]) / "attempts" / str(attempt)

    def checkpoints_dir(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "checkpoints"

    def release(self, run_id: str) -> None:
        """Let the light trainer go on that waits at --hold-at."""
        (self.run_dir(run_id) / "go").touch()

    def run_dir(self, run_id: str) -> Path:
        """The run's directory in the one that stands for FSx."""
        found = [top / "trainyard" / "runs" / run_id for top in (self.state_dir / "fsx").iterdir()]
        return next((path for path in found if path.exists()), found[0])

    # -- trouble ----------------------------------------------------------------------------------
    def fault(self, kind: str, cluster: str = "", **given: str) -> Json:
        """Inject a fault into the local cloud; returns what was done.

        Those of training jobs name no cluster.
        """
        url = f"{self.local['endpoint']}/_trainyard/fault"
        answer = httpx.post(
            url,
            json={"kind": kind, **({"cluster": cluster} if cluster else {}), **given},
            headers=self._token(),
            timeout=120,
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def quirk(self, name: str, *, on: bool = True) -> None:
        """Let AWS differ from what is taken for true of it, or end that."""
        url = f"{self.local['endpoint']}/_trainyard/quirk"
        answer = httpx.post(url, json={"name": name, "on": on}, headers=self._token(), timeout=120)
        assert answer.status_code == 200, answer.text

    @contextmanager
    def denied(self, role: str, action: str, resource: str = "*") -> Iterator[None]:
        """Take a permission from one of the stack's roles for a while."""
        iam, name = self.aws("iam"), self.local["resources"][role]
        statement = {"Effect": "Deny", "Action": action, "Resource": resource}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_role_policy(RoleName=name, PolicyName="trouble", PolicyDocument=document)
        try:
            yield
        finally:
            iam.delete_role_policy(RoleName=name, PolicyName="trouble")

    def sweep(self) -> None:
        """Do now what happens each minute. A failed duty is an error here, as on AWS an alarm."""
        answer = self.aws("lambda").invoke(FunctionName="trainyard-sweep", Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read().decode()

    def invoke(self, function: str, payload: Json) -> Json:
        """Invoke a function as a state machine does; the answer of a failure has `errorType`."""
        answer = self.aws("lambda").invoke(
            FunctionName=f"trainyard-{function}", Payload=json.dumps(payload).encode()
        )
        return dict(json.loads(answer["Payload"].read()))

    def invocations(self, function: str) -> Invocations:
        found = self.status()["functions"]["deployed"][f"trainyard-{function}"]
        return Invocations(list(found["workers"]), int(found["invocations"]), int(found["errors"]))

    def status(self) -> Json:
        """The local cloud's own status."""
        url = f"{self.local['endpoint']}/_trainyard/status"
        return dict(httpx.get(url, headers=self._token(), timeout=120).json())

    def _token(self) -> dict[str, str]:
        return {"X-Trainyard-Token": self.local["adminToken"]}

    def put_event(
        self, source: str, detail_type: str, detail: Mapping[str, Any], *, ours: bool
    ) -> None:
        """Put one event on the agents' bus (`ours`) or on the account's default one.

        An agent's event is signed by the cluster that it names.
        """
        told = (
            self.signed(detail_type, detail) if source == "trainyard.agent" else json.dumps(detail)
        )
        entry = {"Source": source, "DetailType": detail_type, "Detail": told}
        entry |= {"EventBusName": self.local["outputs"]["EventBusName"]} if ours else {}
        answer = self.events.put_events(Entries=[entry])
        assert answer["FailedEntryCount"] == 0, answer

    def signed(self, detail_type: str, detail: Mapping[str, Any]) -> str:
        """An event's detail as the agent of the cluster that it names would send it."""
        try:
            name = f"trainyard/trainyard/{detail.get('clusterName')}/agent-key"
            key = self.aws("secretsmanager").get_secret_value(SecretId=name)["SecretString"]
        except ClientError:
            key = "of no cluster"
        return signatures.signed(detail_type, json.dumps(detail), key.encode())

    def dead_letters(self, queue: str) -> int:
        """Messages in one of the stack's queues."""
        sqs, url = self._queue(queue)
        found = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
        )["Attributes"]
        return int(found["ApproximateNumberOfMessages"])

    def park(self, queue: str, body: str) -> None:
        """Put a message into one of the stack's queues."""
        sqs, url = self._queue(queue)
        sqs.send_message(QueueUrl=url, MessageBody=body)

    def _queue(self, queue: str) -> tuple[Any, str]:
        sqs, name = self.aws("sqs"), self.local["resources"][queue]
        return sqs, name if name.startswith("http") else sqs.get_queue_url(QueueName=name)[
            "QueueUrl"
        ]

    def said(self, function: str, *words: str) -> bool:
        """Whether one line of a function's log holds all of these words."""
        logs = self.aws("logs")
        groups = [
            found["logGroupName"]
            for found in logs.describe_log_groups()["logGroups"]
            if found["logGroupName"].endswith(f"-{function}")
        ]
        for group in groups:
            for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
                if any(all(word in event["message"] for word in words) for event in page["events"]):
                    return True
        return False

    # -- clusters ---------------------------------------------------------------------------------
    def cluster_ready(self, name: str, seconds: float = 90.0) -> Json:
        return dict(
            eventually(
                f"cluster {name} is ready", lambda: _if(self.api.cluster(name), "Ready"), seconds
            )
        )

    def workers_serve(self, name: str, seconds: float = 60.0) -> list[Json]:
        """The workers once all of them serve jobs and their agents are linked."""

        def serve() -> list[Json] | None:
            workers = [node for node in self.api.nodes(name) if node["role"] == "worker"]
            good = [
                n
                for n in workers
                if n["status"] == "Running"
                and n["agent"] == "linked"
                and n["scheduler"].startswith("idle")
            ]
            return workers if workers and len(good) == len(workers) else None

        return list(eventually(f"every worker of {name} serves", serve, seconds))

    def heal(self, name: str) -> None:
        """Ask for another node in the place of every worker that is off."""
        for node in self.api.nodes(name):
            if (
                node["role"] == "worker"
                and node["status"] in ("Running", "Failure")
                and not self.processes(TRAINYARD_NODE=node["instanceId"])
            ):
                self.api.replace_node(name, node["instanceId"])

    def node(self, cluster: str, slurm_name: str) -> Json:
        """The API's node of that Slurm name, which its address tells before its first sample."""
        address = slurm_name.removeprefix("ip-").replace("-", ".")
        return next(
            node
            for node in self.api.nodes(cluster)
            if address in (node["address"], node["name"]) or node["name"] == slurm_name
        )

    def controller(self, cluster: str) -> Json:
        return next(node for node in self.api.nodes(cluster) if node["role"] == "controller")

    def slurm(self, cluster: str, *argv: str) -> str:
        """One of Slurm's commands on the cluster's controller, as a person there runs it."""
        daemon = self.daemon(self.controller(cluster)["instanceId"])
        environment = {
            "PATH": os.environ["PATH"],
            "TRAINYARD_LOCAL": str(self.state_dir),
            "TMPDIR": daemon.environment["TMPDIR"],
        }
        environment["SLURM_CONF"] = daemon.environment["SLURM_CONF"]
        done = subprocess.run(
            argv, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.strip()

    @contextmanager
    def job_of_a_person(self, cluster: str, nodes: int = 1) -> Iterator[str]:
        """A job unknown to Trainyard that holds nodes until the end of the block; its id."""
        options = (
            "--parsable",
            "--exclusive",
            f"--nodes={nodes}",
            "--output=/dev/null",
            "--wrap=sleep 600",
        )
        job = self.slurm(cluster, "sbatch", *options)
        try:
            state = lambda: self.slurm(cluster, "squeue", "-h", "-j", job, "-o", "%T")  # noqa: E731
            eventually(f"job {job} of a person runs", lambda: state() == "RUNNING")
            yield job
            assert state() == "RUNNING", "nobody touched the person's job"
        finally:
            self.slurm(cluster, "scancel", job)

    # -- processes --------------------------------------------------------------------------------
    def processes(self, **variables: str) -> list[Process]:
        """Living processes of this cloud whose environment has these values."""
        wanted = {"TRAINYARD_LOCAL": str(self.state_dir), **variables}
        return node_processes.matching(
            lambda environment: all(
                environment.get(name) == value for name, value in wanted.items()
            )
        )

    def daemon(self, instance_id: str) -> Process:
        """The agent's own process on a node."""
        found = [
            p
            for p in self.processes(TRAINYARD_NODE=instance_id)
            if "trainyard_agent" in p.command and " daemon " in p.command + " "
        ]
        return next(p for p in found if "supervise" not in p.command)

    # -- what must be left: nothing ---------------------------------------------------------------
    def assert_closed(self, run: Json) -> None:
        """A run that ended waits for nothing, runs nowhere, and says why it ended."""
        run_id, story = run["id"], self.story(run["id"])
        assert run["reason"], story
        assert run["finishedAt"], story
        assert all(attempt["endedAt"] and attempt["outcome"] for attempt in run["attempts"]), story
        assert not self.actions(run_id), story
        assert self.timeline(run_id, run["status"]), story
        if run["status"] == "Succeeded":
            assert run["problem"] is None, story
        else:
            assert run["problem"] is not None, story
            assert all(run["problem"][part] for part in ("code", "title", "detail", "nextStep")), (
                run["problem"]
            )
        eventually(
            f"no process of {run_id} is left",
            lambda: not self.processes(TRAINYARD_RUN_ID=run_id),
            15,
        )
        eventually(
            f"no machine of {run_id} runs\n{story}", lambda: not self.running("run", run_id), 15
        )
        assert self.wait(f"run:{run_id}") is None, f"a wait of {run_id} is left"

    def assert_gone(self, cluster: Json) -> None:
        """The cluster is deleted: AWS has it no more, and nothing of it is left."""
        name, short = cluster["name"], str(cluster["arn"] or "").rsplit("/", 1)[-1]
        try:
            eventually(
                f"cluster {name} is Deleted", lambda: self.api.cluster(name)["status"] == "Deleted"
            )
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self.api.cluster(name)}") from None
        assert name not in self.backend_clusters()
        if short:
            left = self.processes(TRAINYARD_CLUSTER=short)
            assert not left, [(process.pid, process.command) for process in left]
            assert not (self.state_dir / "clusters" / short).exists()
        secrets = [
            secret["Name"]
            for secret in self.aws("secretsmanager").list_secrets(MaxResults=100)["SecretList"]
        ]
        assert f"trainyard/trainyard/{name}/agent-key" not in secrets
        roles = self.aws("iam").list_roles(PathPrefix=f"/trainyard/trainyard/{name}/")["Roles"]
        assert not roles, [role["Arn"] for role in roles]
        for machine in ("cluster", "teardown"):
            eventually(
                f"no {machine} machine of {name} runs",
                lambda machine=machine: not self.running(machine, name),
                15,
            )
            assert self.wait(f"{machine}:{name}") is None

    def backend_clusters(self) -> list[str]:
        """Clusters that SageMaker itself knows."""
        return [
            found["ClusterName"]
            for found in self.aws("sagemaker").list_clusters(MaxResults=100)["ClusterSummaries"]
        ]

    def running(self, machine: str, name: str) -> list[str]:
        """Executions of a machine that run and whose names begin with `name`."""
        arn = self.local["outputs"]["RunMachineArn"].removesuffix("-run") + f"-{machine}"
        found = self.aws("stepfunctions").list_executions(
            stateMachineArn=arn, statusFilter="RUNNING"
        )["executions"]
        return [
            execution["executionArn"]
            for execution in found
            if execution["name"].startswith(f"{name}-")
        ]

    def wait(self, owner: str) -> Json | None:
        """The stored task token of a machine that waits."""
        key = {"pk": {"S": f"wait#{owner}"}, "sk": {"S": "wait"}}
        return self.table.get_item(TableName=self.local["table"], Key=key, ConsistentRead=True).get(
            "Item"
        )

    def actions(self, run_id: str) -> list[Json]:
        """What the run's record still has to be done."""
        key = {"pk": {"S": f"run#{run_id}"}, "sk": {"S": "run"}}
        item = self.table.get_item(TableName=self.local["table"], Key=key, ConsistentRead=True)[
            "Item"
        ]
        return list(json.loads(document(item))["actions"])

    def change_document(self, pk: str, sk: str, change: Callable[[Json], Json]) -> None:
        """Change a stored record's document behind everybody's back."""
        key = {"pk": {"S": pk}, "sk": {"S": sk}}
        item = self.table.get_item(TableName=self.local["table"], Key=key, ConsistentRead=True)[
            "Item"
        ]
        changed = json.dumps(change(json.loads(item["doc"]["S"])))
        self.table.update_item(
            TableName=self.local["table"],
            Key=key,
            UpdateExpression="SET doc = :doc",
            ExpressionAttributeValues={":doc": {"S": changed}},
        )


def files_with(text: str, top: Path) -> list[Path]:
    """Files below that hold it. The nodes go on: what was there a moment ago may be gone."""
    return [
        path
        for directory, _, names in os.walk(top)
        for path in (Path(directory, name) for name in names)
        if _holds(path, text.encode())
    ]


def _holds(path: Path, text: bytes) -> bool:
    try:
        return path.is_file() and text in path.read_bytes()
    except FileNotFoundError:
        return False


def ulid() -> str:
    """A new id as agents make them."""
    return str(ULID())


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each; what is gone already is fine."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _if(found: Json, status: str) -> Json | None:
    assert status == found["status"] or found["status"] not in ("Failed", "Deleted"), (
        f"{found['name']} is {found['status']}: {found['problem']}"
    )
    return found if found["status"] == status else None


def _if_ended(run: Json) -> Json | None:
    return run if run["status"] in ENDED else None
