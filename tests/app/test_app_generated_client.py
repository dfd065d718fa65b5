"""A client that openapi-python-client generates of our document makes every call of the API."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from tests.support.adopted import Adopted, foreign
from tests.support.filesystem_parts import filesystem_document
from tests.support.http_events import spec
from tests.support.in_process_api import LOCAL, URL, InProcess
from tests.support.memory import MemoryChanges
from tests.support.repository import ROOT
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, run_spec
from tests.support.trees import packed, upload_spec

from trainyard.app.runs.submit_run import submit_run
from trainyard.app.webhooks.deliver import enqueue
from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.states import BackendStatus
from trainyard.outside.commands import CommandResult
from trainyard_contracts.people import named
from trainyard_contracts.user_events import UserEvent
from trainyard_sdk.connection import Connection
from trainyard_sdk.signing import SigV4

NAME = "generated_trainyard"
TREE, PACKS = packed({"train.py": b"print()\n"})
UPLOAD = upload_spec(TREE, PACKS)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, generated without a word of what it could not do."""
    place = tmp_path_factory.mktemp("generated")
    (place / "settings.yaml").write_text("post_hooks: []\n")
    command = [
        *(str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--meta", "none"),
        *("--path", str(ROOT / "docs/openapi.json"), "--output-path", str(place / NAME)),
        *("--config", str(place / "settings.yaml"), "--fail-on-warning"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(place))
    yield place / NAME
    sys.path.remove(str(place))


class Calls:
    """Makes a call by the operation's name and holds that its answer was understood."""

    def __init__(self, story: Story) -> None:
        self.transport = InProcess(story.world)
        module = importlib.import_module(f"{NAME}.client")
        self._client = module.Client(
            base_url=URL,
            httpx_args={
                "transport": self.transport,
                "auth": SigV4(Connection(URL, "us-east-1", dict(LOCAL))),
            },
        )
        self.made: dict[str, int] = {}

    def __call__(self, operation: str, *path: str, body: Any = None, **query: Any) -> Any:
        room, _, name = operation.partition(".")
        call: ModuleType = importlib.import_module(f"{NAME}.api.{room}.{name}")
        given = {} if body is None else {"body": self.model(*body)}
        answer = call.sync_detailed(*path, client=self._client, **given, **query)
        assert answer.parsed is not None, (operation, answer.status_code, answer.content[:500])
        self.made[operation] = int(answer.status_code)
        return answer.parsed

    def model(self, name: str, document: Any) -> Any:
        return getattr(importlib.import_module(f"{NAME}.models"), name).from_dict(document)


def log_of(story: Story) -> None:
    """From here on the agent also answers with a log."""
    others_of_agent = story.world.commands.answer

    def answer(cluster: Any, argv: list[str]) -> CommandResult:
        if argv[1] == "logs":
            return CommandResult(0, json.dumps({"text": "step 40 loss 0.25\n"}), "")
        return others_of_agent(cluster, argv)

    story.world.commands.answer = answer


def runs(story: Story, call: Calls) -> None:
    made = call("runs.submit_run", body=("RunSpec", spec()))
    story.run_id = made.id
    assert call("runs.submit_run", body=("RunSpec", spec()), dryrun=True).hourly_usd is not None
    story.rest()
    story.ready()
    story.training()
    story.checkpoint(40)
    page = call("runs.list_runs", limit=5)
    assert [run.id for run in page.runs] == [made.id]
    run = call("runs.get_run", made.id)
    assert run.status == "Running"
    assert run.spec.to_dict()["name"] == "demo"
    assert call("runs.list_run_events", made.id).events
    assert [one.step for one in call("runs.list_run_checkpoints", made.id).checkpoints] == [40]
    call("runs.get_run_metrics", made.id)
    assert call("costs.get_run_cost", made.id).run_id == made.id
    totals = call("costs.list_costs", by="run").totals
    assert made.id in [one.key for one in totals]
    log_of(story)
    assert call("runs.get_run_log", made.id, lines=5).text == "step 40 loss 0.25\n"
    call("runs.export_run", made.id)
    call("nodes.list_nodes", run.cluster_name)
    story.end()
    assert call("runs.list_run_outputs", made.id).outputs
    second = call("runs.submit_run", body=("RunSpec", {**spec(), "name": "second"}))
    story.rest()
    assert call("runs.cancel_run", second.id, reason="the wrong data").id == second.id
    story.rest()
    assert story.world.runs.get(second.id).status == "Cancelled"
    assert call("runs.resume_run", second.id).life == 2


def clusters(story: Story, call: Calls) -> None:
    body = ("HyperPodClusterSpec", {**cluster_spec(workers=1), "name": "shared"})
    assert call("clusters.create_cluster", body=body).name == "shared"
    story.rest()
    assert "shared" in [one.name for one in call("clusters.list_clusters").clusters]
    assert call("clusters.get_cluster", "shared").spec.to_dict()["name"] == "shared"
    assert call("costs.get_cluster_cost", "shared").cluster_name == "shared"
    backend = story.world.backend
    backend.advance("shared", BackendStatus.IN_SERVICE)
    record = story.world.clusters.get("shared")
    story.world.clusters.put(record.changed(status="Ready", arn=backend.clusters["shared"].arn))
    nodes = call("nodes.list_nodes", "shared", limit=1)
    assert nodes.next_token
    worker = call("nodes.list_nodes", "shared", limit=1, next_token=nodes.next_token).nodes[0]
    assert call("nodes.reboot_node", "shared", worker.instance_id).successful
    assert call("nodes.replace_node", "shared", worker.instance_id).successful
    changes(story, call, body)


def changes(story: Story, call: Calls, body: tuple[str, Any]) -> None:
    """Each is over before the next is asked for."""
    made = story.world.backend.changes = MemoryChanges()
    for operation, fleet in (("stop_cluster", "stopped"), ("start_cluster", "running")):
        assert call(f"clusters.{operation}", "shared").change.fleet == fleet
        story.sweep()
        made.fleet = fleet
        story.sweep()
    assert call("clusters.keep_cluster", "shared").name == "shared"
    # A HyperPod cluster takes no other spec; the same one again changes nothing.
    assert call("clusters.update_cluster", "shared", body=body).name == "shared"


def teams(story: Story, call: Calls) -> None:
    call("people.whoami")
    call("people.list_audit")
    call("people.share_run", story.run_id, body=("ShareSpec", {"sharedWith": []}))
    call("people.transfer_run", story.run_id, body=("TransferSpec", {}))
    call(
        "runs.label_run",
        story.run_id,
        body=("RunChanges", {"labels": {"exp": "3"}, "priority": -1}),
    )
    call("people.share_cluster", "shared", body=("ShareSpec", {"sharedWith": []}))
    call("people.transfer_cluster", "shared", body=("TransferSpec", {}))
    call(
        "clusters.label_cluster",
        "shared",
        body=("ClusterChanges", {"labels": {"exp": "3"}, "sharing": {"limits": []}}),
    )
    call("clusters.delete_cluster", "shared")


def adopted(_: Story, call: Calls) -> None:
    theirs = Adopted().story
    other = Calls(theirs)
    body = ("AdoptSpec", {"name": foreign().name, "sharedDir": "/fsx"})
    assert other("clusters.adopt_cluster", body=body).adoption
    assert other("clusters.release_cluster", foreign().name).name == foreign().name
    call.made |= other.made


def many(_: Story, call: Calls) -> None:
    run = {**spec(), "job": {**spec()["job"], "arguments": ["--lr", "{lr}"]}}
    array = {"run": run, "parameters": [{"lr": "0.1"}, {"lr": "0.2"}], "maxParallel": 1}
    assert call("arrays.submit_array", body=("ArraySpec", array), dryrun=True).waves == [1, 1]
    made = call("arrays.submit_array", body=("ArraySpec", array))
    call("arrays.list_arrays")
    call("arrays.get_array", getattr(made, "id", "arr-x"))
    call("arrays.list_array_members", getattr(made, "id", "arr-x"))
    call("people.share_array", getattr(made, "id", "arr-x"), body=("ShareSpec", {"sharedWith": []}))
    call("people.transfer_array", getattr(made, "id", "arr-x"), body=("TransferSpec", {}))
    call("arrays.cancel_array", getattr(made, "id", "arr-x"))
    nightly = {"name": "nightly", "cron": "0 2 * * *", "run": spec()}
    plan = call("schedules.create_schedule", body=("ScheduleSpec", nightly), dryrun=True)
    assert len(plan.next_times) == 5
    call("schedules.create_schedule", body=("ScheduleSpec", nightly))
    call("schedules.list_schedules")
    call("schedules.get_schedule", "nightly")
    call("schedules.pause_schedule", "nightly")
    call("schedules.resume_schedule", "nightly")
    shared = call("people.share_schedule", "nightly", body=("ShareSpec", {"sharedWith": []}))
    assert shared.shared_with == []
    call("people.transfer_schedule", "nightly", body=("TransferSpec", {}))
    call("schedules.delete_schedule", "nightly")


def approvals(_: Story, call: Calls) -> None:
    held = Story()
    rules = ApprovalRules(above_usd=1.0)
    config = replace(held.world.ports.config, approvals=rules)
    held.world.ports = replace(held.world.ports, config=config)
    alice = named("arn:aws:iam::123456789012:user/alice")
    for _number in range(2):
        submit_run(held.world.ports, run_spec(), by=alice)
    held.rest()
    other = Calls(held)
    first, second = other("approvals.list_approvals", state="pending").approvals
    assert other("approvals.get_approval", first.id).requester.name == "alice"
    assert other("approvals.approve", first.id, reason="fine").state == "approved"
    assert other("approvals.deny", second.id).state == "denied"
    call.made |= other.made


def webhooks(story: Story, call: Calls) -> None:
    spec = {"url": "https://example.com/x", "types": ["run.failed"]}
    made = call("webhooks.add_webhook", body=("WebhookSpec", spec))
    assert made.secret.startswith("whsec_")
    assert [one.id for one in call("webhooks.list_webhooks").webhooks] == [made.id]
    event = UserEvent(id="run-1/end", at=story.world.clock.now(), type="run.failed", message="no")
    enqueue(story.world.ports, event, story.world.webhooks.active())
    (sent,) = call("webhooks.get_webhook", made.id).deliveries
    assert call("webhooks.redeliver", made.id, delivery=sent.id).state == "waiting"
    assert call("webhooks.rotate_webhook", made.id).secret != made.secret
    assert call("webhooks.remove_webhook", made.id).status == "Deleted"


def budgets(story: Story, call: Calls) -> None:
    spec = {"label": "team=vision", "maxUsd": 400.0}
    made = call("budgets.set_budget", "vision", body=("TeamBudgetSpec", spec))
    assert (made.status, made.max_usd, made.at) == ("active", 400.0, None)
    story.sweep()
    assert [one.name for one in call("budgets.list_budgets").budgets] == ["vision"]
    assert call("budgets.get_budget", "vision").spent_usd == 0
    assert call("budgets.remove_budget", "vision").status == "deleted"


def filesystems(story: Story, call: Calls) -> None:
    call("filesystems.create_filesystem", body=("FilesystemSpec", filesystem_document()))
    lustre = story.world.lustre
    story.sweep()
    (fsx_id,) = lustre.there
    lustre.advance(fsx_id, "there")
    story.sweep()
    lustre.link_is(fsx_id, "there")
    story.sweep()
    assert [one.name for one in call("filesystems.list_filesystems").filesystems] == ["lab"]
    assert call("filesystems.get_filesystem", "lab").status == "Available"
    call("people.share_filesystem", "lab", body=("ShareSpec", {"sharedWith": []}))
    call("people.transfer_filesystem", "lab", body=("TransferSpec", {}))
    assert call("filesystems.export_filesystem", "lab").export.number == 1
    call("filesystems.delete_filesystem", "lab", discard=True, reason="a copy is in S3")


def uploads(story: Story, call: Calls) -> None:
    body = ("UploadSpec", UPLOAD)
    assert call("uploads.request_upload", body=body).missing
    for part in (TREE.document(), *PACKS.values()):
        story.world.uploads.put(part)
    assert call("uploads.request_upload", body=body).state == "Complete"
    assert call("uploads.get_upload", UPLOAD["tree"]["sha256"]).state == "Complete"


def test_it_makes_every_call_and_understands_every_answer(generated: Path) -> None:
    story = Story()
    call = Calls(story)
    tell: Callable[[Story, Calls], None]
    stories = (
        runs,
        clusters,
        filesystems,
        uploads,
        teams,
        adopted,
        many,
        approvals,
        webhooks,
        budgets,
    )
    for tell in stories:
        tell(story, call)
    every = {
        f"{path.parent.name}.{path.stem}"
        for path in generated.glob("api/*/*.py")
        if path.stem != "__init__"
    }
    assert set(call.made) == every
    assert {operation: status for operation, status in call.made.items() if status >= 400} == {}


def test_each_of_its_requests_is_signed(generated: Path) -> None:
    seen: list[httpx.Request] = []

    def keep(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    connection = Connection(URL, "us-east-1", dict(LOCAL))
    with httpx.Client(transport=httpx.MockTransport(keep), auth=SigV4(connection)) as client:
        client.post(f"{URL}/v1/runs", json={"a": 1}, params={"dryrun": "true"})
    (request,) = seen
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDLOCAL/")
    assert "execute-api" in request.headers["authorization"]
    assert generated.is_dir()
