"""A client that openapi-python-client generates of our document makes every call of the API."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from tests.support.adopted import MemoryAdoptions, foreign
from tests.support.http_events import spec
from tests.support.in_process_api import LOCAL, URL, InProcess
from tests.support.repository import ROOT
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story

from trainyard.ports import CommandResult
from trainyard_sdk.connection import Connection
from trainyard_sdk.signing import SigV4

NAME = "generated_trainyard"
SHA = "0" * 64
#: In the state in which the stories leave things; there the problem is what has to be understood.
REFUSED = {
    "runs.cancel_run",
    "runs.resume_run",
    "clusters.update_cluster",
    "clusters.stop_cluster",
    "clusters.start_cluster",
    "clusters.release_cluster",
    "people.share_filesystem",
    "people.transfer_filesystem",
    "nodes.replace_node",
    "nodes.reboot_node",
    "filesystems.create_filesystem",
    "filesystems.get_filesystem",
    "filesystems.export_filesystem",
    "filesystems.delete_filesystem",
    "uploads.get_upload",
}


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
    log_of(story)
    assert call("runs.get_run_log", made.id, lines=5).text == "step 40 loss 0.25\n"
    call("runs.export_run", made.id)
    call("nodes.list_nodes", run.cluster_name)
    story.end()
    assert call("runs.list_run_outputs", made.id).outputs
    call("runs.cancel_run", made.id)
    call("runs.resume_run", made.id)


def clusters(story: Story, call: Calls) -> None:
    body = ("HyperPodClusterSpec", {**cluster_spec(workers=1), "name": "shared"})
    assert call("clusters.create_cluster", body=body).name == "shared"
    story.rest()
    assert "shared" in [one.name for one in call("clusters.list_clusters").clusters]
    assert call("clusters.get_cluster", "shared").spec.to_dict()["name"] == "shared"
    call("clusters.update_cluster", "shared", body=body)
    call("clusters.stop_cluster", "shared")
    call("clusters.start_cluster", "shared")
    call("nodes.replace_node", "shared", "i-0123456789abcdef0")
    call("nodes.reboot_node", "shared", "i-0123456789abcdef0")
    call("clusters.delete_cluster", "shared")


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
    call("people.share_filesystem", "corpus", body=("ShareSpec", {"sharedWith": []}))
    call("people.transfer_filesystem", "corpus", body=("TransferSpec", {}))
    story.world.backend.adoptions = MemoryAdoptions(foreign())
    body = ("AdoptSpec", {"name": foreign().name, "sharedDir": "/fsx"})
    call("clusters.adopt_cluster", body=body)
    call("clusters.release_cluster", "shared")


def many(_: Story, call: Calls) -> None:
    run = {**spec(), "job": {**spec()["job"], "arguments": ["--lr", "{lr}"]}}
    array = {"run": run, "parameters": [{"lr": "0.1"}, {"lr": "0.2"}], "maxParallel": 1}
    made = call("arrays.submit_array", body=("ArraySpec", array))
    call("arrays.list_arrays")
    call("arrays.get_array", getattr(made, "id", "arr-x"))
    call("arrays.list_array_members", getattr(made, "id", "arr-x"))
    call("arrays.cancel_array", getattr(made, "id", "arr-x"))
    nightly = {"name": "nightly", "cron": "0 2 * * *", "run": spec()}
    call("schedules.create_schedule", body=("ScheduleSpec", nightly))
    call("schedules.list_schedules")
    call("schedules.get_schedule", "nightly")
    call("schedules.pause_schedule", "nightly")
    call("schedules.resume_schedule", "nightly")
    call("schedules.delete_schedule", "nightly")


def others(_: Story, call: Calls) -> None:
    body = ("FilesystemSpec", {"name": "corpus", "deletionPolicy": "keep"})
    call("filesystems.create_filesystem", body=body)
    call("filesystems.list_filesystems")
    call("filesystems.get_filesystem", "corpus")
    call("filesystems.export_filesystem", "corpus")
    call("filesystems.delete_filesystem", "corpus")
    pack = {"sha256": SHA, "bytes": 10}
    call("uploads.request_upload", body=("UploadSpec", {"tree": pack, "packs": []}))
    call("uploads.get_upload", SHA)


def test_it_makes_every_call_and_understands_every_answer(generated: Path) -> None:
    story = Story()
    call = Calls(story)
    tell: Callable[[Story, Calls], None]
    for tell in (runs, clusters, others, teams, many):
        tell(story, call)
    every = {
        f"{path.parent.name}.{path.stem}"
        for path in generated.glob("api/*/*.py")
        if path.stem != "__init__"
    }
    assert set(call.made) == every
    assert {operation: status for operation, status in call.made.items() if status >= 500} == {}
    refused = {operation for operation, status in call.made.items() if status >= 400}
    assert refused == REFUSED, sorted(refused ^ REFUSED)


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
