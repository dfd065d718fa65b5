"""Tell a run's story: a cloud in memory, a scripted agent, and events as EventBridge sends them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.support.machines import Machines
from tests.support.memory import Died, World
from tests.support.spec_parts import cluster_spec

from trainyard.app.facts.record_fact import record_fact as record_unsigned
from trainyard.app.facts.recorded import Recorded
from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.app.sweep.sweep import Swept, sweep
from trainyard.domain.records import Cluster, Run
from trainyard.domain.states import BackendStatus
from trainyard.outside.commands import CommandResult
from trainyard.ports import Ports
from trainyard_contracts import places, signatures
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.specs import RunSpec


def run_spec(*, cluster: dict[str, Any] | None = None, nodes: int = 2, **extra: Any) -> RunSpec:
    """A small run as a client writes it."""
    return RunSpec.model_validate({
        "name": "ddp-demo", "cluster": cluster or {"spec": cluster_spec(workers=2, spares=1)},
        "job": {"nodes": nodes, "module": "trainyard_trainers.ddp"},
        "checkpoint": {"everySeconds": 5}, **extra,
    })  # fmt: skip


def as_signed(ports: Ports, envelope: dict[str, Any]) -> dict[str, Any]:
    """The event as the agent of the cluster that it names would have signed it."""
    detail, kind = envelope.get("detail"), str(envelope.get("detail-type"))
    if envelope.get("source") != "trainyard.agent" or not isinstance(detail, dict):
        return envelope
    key = ports.secrets.read(
        places.agent_key_secret(ports.config.secret_prefix, str(detail.get("clusterName")))
    )
    return {
        **envelope,
        "detail": json.loads(signatures.signed(kind, json.dumps(detail), (key or "none").encode())),
    }


def record_fact(ports: Ports, envelope: dict[str, Any]) -> Recorded:
    """Record an event as its cluster's agent signs it."""
    return record_unsigned(ports, as_signed(ports, envelope))


@dataclass
class Agent:
    """The controller's agent as the control plane sees it: idempotent, fenced, honest."""

    story: Story
    jobs: dict[tuple[str, int], str] = field(default_factory=dict)
    active: dict[str, int] = field(default_factory=dict)
    excluded: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    export_ok: bool = True
    corrupt: bool = False
    composite: str = ""
    final_model: bool = True
    checks_hash: bool = True
    manifest: dict[str, Any] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)

    def __call__(self, cluster: Cluster, argv: list[str]) -> CommandResult:
        assert argv[0] == "trainyard-agent"
        words = [part for word in argv[2:] for part in word.split("=", 1)]
        options = dict(zip(words[::2], words[1::2], strict=True))
        return CommandResult(0, json.dumps(getattr(self, argv[1])(options)), "")

    def submit(self, options: dict[str, str]) -> dict[str, Any]:
        run, attempt = options["--run"], int(options["--attempt"])
        key = options["--bundle"].split("/", 3)[3]
        body = self.story.world.blobs.objects[key]
        assert not self.checks_hash or options["--sha256"] == hashlib.sha256(body).hexdigest()
        bundle = json.loads(body)
        self.excluded.setdefault((run, attempt), bundle["excludeNodes"])
        self.jobs.setdefault((run, attempt), str(100 + len(self.jobs)))
        self.active[run] = attempt
        return {"jobId": self.jobs[run, attempt], "state": "PENDING", "attempt": attempt}

    def exclude(self, options: dict[str, str]) -> dict[str, Any]:
        key = options["--run"], int(options["--attempt"])
        waits = self.active.get(key[0]) == key[1]
        if waits:
            self.excluded[key] = [node for node in options["--nodes"].split(",") if node]
        return {"jobId": self.jobs[key], "state": "submitted", "waits": waits}

    def status(self, options: dict[str, str]) -> dict[str, Any]:
        number = max(attempt for run, attempt in self.jobs if run == options["--run"])
        ended = self.active.get(options["--run"]) != number
        state = "ended" if ended else self.states.get(options["--run"], "submitted")
        return {"attempt": number, "state": state}

    def cancel(self, options: dict[str, str]) -> dict[str, Any]:
        run = options["--run"]
        attempt = self.active.pop(run, None)
        if attempt is not None:
            self.story.later.append(
                (
                    "AttemptEnded",
                    {"attempt": attempt, "jobId": self.jobs[run, attempt], "outcome": "cancelled"},
                    run,
                )
            )
        return {"state": "cancelled"}

    def export(self, options: dict[str, str]) -> dict[str, Any]:
        run, export_id = options["--run"], options["--export-id"]
        if export_id not in self.exported:
            self.exported.add(export_id)
            self.story.later.append(("ExportFinished", self._upload(run, export_id), run))
        return {"state": "running"}

    def _upload(self, run: str, export_id: str) -> dict[str, Any]:
        body = b"weights of " + run.encode()
        blobs = self.story.world.blobs
        entry = {
            "key": "final/model.pt",
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "checksum": self.composite,
        }
        prefix = self.story.world.runs.stored[run].export_prefix
        blobs.put(f"{prefix}final/model.pt", body + b"!" if self.corrupt else body)
        blobs.checksums[f"{prefix}final/model.pt"] = self.composite
        at = self.story.world.clock.now().isoformat()
        manifest = {
            "schema": "trainyard.export.v1",
            "runId": run,
            "createdAt": at,
            "objects": [entry],
            "finalModel": self.final_model,
        }
        manifest |= self.manifest
        key = f"{prefix}export-manifest.json"
        written = json.dumps(manifest).encode()
        blobs.put(key, written)
        reason = "" if self.export_ok else "the disk of the controller is full"
        return {
            "exportId": export_id, "ok": self.export_ok, "reason": reason, "objects": 1,
            "bytes": len(body), "manifestKey": key,
            "manifestSha256": hashlib.sha256(written).hexdigest(),
        }  # fmt: skip


@dataclass
class Story:
    """One test's cloud; `rest` sends the agent's facts, so all happens in the test's own order."""

    world: World = field(default_factory=World)
    later: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    run_id: str = ""
    #: How much the controller's clock differs from the right one.
    wrong_by: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        self.agent = Agent(self)
        self.world.commands.answer = self.agent
        self.machines = Machines(self.world)

    # what a person does
    def submit(self, spec: RunSpec | None = None, **extra: Any) -> Run:
        run = submit_run(self.world.ports, spec or run_spec(**extra))
        self.run_id = self.run_id or run.id
        return run

    def cancel(self, run_id: str | None = None) -> Run:
        return cancel_run(self.world.ports, run_id or self.run_id)

    # what time does
    def rest(self) -> None:
        """Let the machines go on until all of them wait, sending what the agent owes."""
        self.machines.run_until_rest()
        while self.later:
            type_, detail, run = self.later.pop(0)
            self.send(type_, run=run, **detail)
            self.machines.run_until_rest()

    def pass_time(self, seconds: float) -> None:
        self.world.clock.tick(seconds)
        self.rest()

    def sweep(self) -> list[Swept]:
        done = sweep(self.world.ports)
        self.rest()
        return done

    # what the cluster does
    def ready(self) -> None:
        """The cluster comes up."""
        self.rest()
        self.world.backend.advance(self.cluster.name, BackendStatus.IN_SERVICE)
        names = [
            node.name
            for node in self.world.backend.node_lists[self.cluster.name]
            if node.role == "worker"
        ]
        self.send("ClusterReady", nodes=names)
        self.rest()

    def training(self, *nodes: str, step: int = 1) -> None:
        """The newest attempt starts on these nodes and makes its first step."""
        number = self.attempt
        self.send(
            "AttemptStarted",
            run=self.run_id,
            attempt=number,
            jobId=self.job,
            nodes=list(nodes or ("ip-127-0-1-12", "ip-127-0-1-13")),
        )
        self.send(
            "AttemptStepped",
            run=self.run_id,
            attempt=number,
            step=step,
            resumedFrom=step - 1 or None,
            steppedAt=self.at,
        )
        self.rest()

    def checkpoint(self, step: int, **fields: object) -> None:
        path = f"checkpoints/step-{step:012d}-attempt-{self.attempt}"
        self.send(
            "CheckpointCommitted",
            run=self.run_id,
            attempt=self.attempt,
            step=step,
            **{
                "path": path,
                "bytes": 3_100_000,
                "files": 4,
                "committedAt": self.at,
                **fields,
            },
        )

    def prune(self, step: int) -> None:
        path = f"checkpoints/step-{step:012d}-attempt-{self.attempt}"
        self.send("CheckpointPruned", run=self.run_id, attempt=self.attempt, step=step, path=path)

    def lose(self, node: str) -> None:
        """A node dies: both signals, as the controller's agent reports them."""
        evidence = {
            "node": node,
            "instanceId": f"i-{int(node.rsplit('-', 1)[1]):08d}",
            "agent": "silent",
            "scheduler": "down",
        }
        self.send("NodeLost", about=evidence)
        self.rest()

    def end(self, outcome: str = "succeeded", **detail: Any) -> None:
        self.agent.active.pop(self.run_id, None)
        self.send(
            "AttemptEnded",
            run=self.run_id,
            attempt=self.attempt,
            jobId=self.job,
            outcome=outcome,
            **detail,
        )
        self.rest()

    def send(
        self, type_: str, *, run: str = "", envelope: dict[str, Any] | None = None, **detail: Any
    ) -> Recorded:
        """One event of an agent, as EventBridge delivers it."""
        cluster = (
            self.world.clusters.stored[self.world.runs.stored[run].cluster_name]
            if run in self.world.runs.stored
            else self.cluster
        )
        self.world.clock.tick(0.01)
        full = {
            "id": self.world.ids.ulid(),
            "at": self.at,
            "clusterName": cluster.name,
            "clusterArn": cluster.arn or "arn",
            **detail,
        }
        if run:
            full["runId"] = run
        self.sent = {
            "source": "trainyard.agent",
            "detail-type": type_,
            "id": "e-1",
            "detail": full,
            **(envelope or {}),
        }
        try:
            return record_fact(self.world.ports, self.sent)
        except Died:
            # EventBridge delivers at least once: a delivery that died is repeated.
            self.world.fuse.arm(None)
            return record_fact(self.world.ports, self.sent)

    def beat(self, name: str | None = None, **detail: Any) -> Recorded:
        """A heartbeat of a cluster, by its name or the run's own."""
        cluster = self.world.clusters.stored[name] if name else self.cluster
        full = {
            "id": self.world.ids.ulid(),
            "at": self.at,
            "clusterName": cluster.name,
            "clusterArn": cluster.arn,
            "nodes": [],
            **detail,
        }
        return record_fact(
            self.world.ports,
            {
                "source": "trainyard.agent",
                "detail-type": "ClusterHeartbeat",
                "id": "e",
                "detail": full,
            },
        )

    # what is
    @property
    def at(self) -> str:
        return (self.world.clock.now() + self.wrong_by).isoformat()

    @property
    def run(self) -> Run:
        return self.world.runs.stored[self.run_id]

    @property
    def cluster(self) -> Cluster:
        return self.world.clusters.stored[self.run.cluster_name]

    @property
    def attempt(self) -> int:
        assert self.run.attempt is not None
        return self.run.attempt.number

    @property
    def job(self) -> str:
        return self.agent.jobs[self.run_id, self.attempt]

    @property
    def said(self) -> str:
        return "\n".join(self.world.runs.messages(self.run_id))


def make_cluster(story: Story, name: str = "shared", **extra: Any) -> Cluster:
    """A ready cluster that stands on its own."""
    from trainyard.app.clusters.create_cluster import create_cluster

    spec = read_cluster_spec(cluster_spec(name, **{"workers": 2, "spares": 1, **extra}))
    create_cluster(story.world.ports, spec)
    story.machines.run_until_rest()
    story.world.backend.advance(name, BackendStatus.IN_SERVICE)
    cluster = story.world.clusters.stored[name]
    detail = {
        "id": story.world.ids.ulid(),
        "at": story.at,
        "clusterName": name,
        "clusterArn": cluster.arn,
        "nodes": ["a"],
    }
    record_fact(
        story.world.ports,
        {"source": "trainyard.agent", "detail-type": "ClusterReady", "id": "e", "detail": detail},
    )
    story.machines.run_until_rest()
    return story.world.clusters.stored[name]


def in_training() -> Story:
    """A story whose run trains on a cluster of its own."""
    story = Story()
    story.submit()
    story.ready()
    story.training()
    return story
