"""Every call of the API that changes something: once in the audit list, and no viewer makes it.

A call that is new fails here until it is entered below, and until it is as the others are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.adopted import NAME as THEIRS
from tests.support.adopted import Adopted
from tests.support.filesystem_parts import filesystem_document
from tests.support.http_events import ME, Client, Signer, is_a_problem, spec
from tests.support.memory import MemoryChanges
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.submit_run import submit_run
from trainyard.app.webhooks.deliver import enqueue
from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.domain.people import RolesOfPeople
from trainyard.http.api import Api
from trainyard.http.openapi import document
from trainyard.http.reasons import HEADER
from trainyard_contracts.people import named
from trainyard_contracts.user_events import UserEvent

VIEWER = Signer("arn:aws:iam::123456789012:user/dave", "AIDADAVE")
ALICE = named("arn:aws:iam::123456789012:user/alice")
ROLES = RolesOfPeople([ME.arn], [ALICE.arn], [VIEWER.arn])
REASON = "weil es 100% nötig ist: β, 例"
BEGINNING = datetime(2020, 1, 1, tzinfo=timezone.utc)
#: As the gateway of the tests says it.
ASKED_AT = datetime.fromtimestamp(1773342238, tz=timezone.utc)


@dataclass
class Scene:
    """A stack with what the call is about, and the words of its path."""

    story: Story = field(default_factory=Story)
    words: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ports = self.story.world.ports
        self.story.world.ports = replace(ports, config=replace(ports.config, roles=ROLES))
        self.client = Client(Api(lambda: self.story.world.ports))

    def made(self, path: str, body: Any, method: str = "POST") -> Any:
        answer = self.client.send(method, path, body=body)
        assert answer.status < 300, answer.text
        return answer.json

    def entries(self) -> list[AuditEntry]:
        """Those of people."""
        query = AuditQuery(BEGINNING)
        found = self.story.world.ports.audit.list(query, limit=100, token=None).items
        return [one for one in found if one.who is not None]


def on_shared() -> dict[str, Any]:
    return run_spec(nodes=1, cluster={"name": "shared"}).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )


def swept() -> dict[str, Any]:
    run = on_shared()
    run["job"]["arguments"] = ["--lr", "{lr}"]
    return {"run": run, "parameters": [{"lr": "0.1"}, {"lr": "0.2"}]}


NIGHTLY = {"name": "nightly", "cron": "0 2 * * *", "run": on_shared()}
HOOK = {"url": "https://example.com/x", "types": ["run.failed"]}
BUDGET = {"label": "team=vision", "maxUsd": 400.0}
LABELS = {"labels": {"exp": "3"}}
SHARE: dict[str, Any] = {"sharedWith": []}


def empty() -> Scene:
    scene = Scene()
    make_cluster(scene.story)
    return scene


def with_run() -> Scene:
    scene = empty()
    scene.words["runId"] = scene.made("/v1/runs", spec())["id"]
    scene.story.rest()
    return scene


def with_cancelled() -> Scene:
    scene = with_run()
    scene.made(f"/v1/runs/{scene.words['runId']}:cancel", None)
    scene.story.rest()
    return scene


def with_array() -> Scene:
    scene = empty()
    scene.words["arrayId"] = scene.made("/v1/arrays", swept())["id"]
    return scene


def with_schedule() -> Scene:
    scene = empty()
    scene.words["scheduleName"] = scene.made("/v1/schedules", NIGHTLY)["name"]
    return scene


def with_cluster() -> Scene:
    scene = empty()
    scene.story.world.backend.changes = MemoryChanges()
    scene.words["clusterName"] = "shared"
    nodes = scene.client.get("/v1/clusters/shared/nodes").json["nodes"]
    scene.words["instanceId"] = nodes[-1]["instanceId"]
    return scene


def with_stopped() -> Scene:
    scene = with_cluster()
    scene.made("/v1/clusters/shared:stop", None)
    scene.story.sweep()
    changes = scene.story.world.backend.changes
    assert changes is not None
    changes.fleet = "stopped"
    scene.story.sweep()
    return scene


def with_filesystem() -> Scene:
    scene = empty()
    scene.words["filesystemName"] = scene.made("/v1/filesystems", filesystem_document())["name"]
    lustre = scene.story.world.lustre
    scene.story.sweep()
    (fsx_id,) = lustre.there
    lustre.advance(fsx_id, "there")
    scene.story.sweep()
    lustre.link_is(fsx_id, "there")
    scene.story.sweep()
    return scene


def with_budget() -> Scene:
    scene = empty()
    scene.words["budgetName"] = "vision"
    scene.made("/v1/budgets/vision", BUDGET, "PUT")
    return scene


def with_webhook() -> Scene:
    scene = empty()
    world = scene.story.world
    scene.words["webhookId"] = scene.made("/v1/webhooks", HOOK)["id"]
    event = UserEvent(id="run-1/end", at=world.clock.now(), type="run.failed", message="no")
    enqueue(world.ports, event, world.webhooks.active())
    shown = scene.client.get(f"/v1/webhooks/{scene.words['webhookId']}").json
    scene.words["delivery"] = shown["deliveries"][0]["id"]
    return scene


def with_approval() -> Scene:
    scene = Scene()
    ports = scene.story.world.ports
    rules = ApprovalRules(above_usd=1.0)
    scene.story.world.ports = replace(ports, config=replace(ports.config, approvals=rules))
    submit_run(scene.story.world.ports, run_spec(), by=ALICE)
    scene.story.rest()
    scene.words["approvalId"] = scene.client.get("/v1/approvals").json["approvals"][0]["id"]
    return scene


def with_foreign() -> Scene:
    return Scene(Adopted().story, {"clusterName": THEIRS})


def with_adopted() -> Scene:
    scene = with_foreign()
    scene.made("/v1/clusters:adopt", {"name": THEIRS, "sharedDir": "/fsx"})
    return scene


@dataclass(frozen=True)
class Call:
    """What the audit list calls it, in which scene, and what is sent besides the path."""

    what: str
    scene: Callable[[], Scene]
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)


#: By the operation's name in the OpenAPI document.
CALLS = {
    "approve": Call("approval.approve", with_approval),
    "deny": Call("approval.deny", with_approval),
    "submitArray": Call("array.submit", empty, swept()),
    "cancelArray": Call("array.cancel", with_array),
    "shareArray": Call("array.share", with_array, SHARE),
    "transferArray": Call("array.transfer", with_array, {"to": ALICE.arn}),
    "setBudget": Call("budget.set", with_budget, BUDGET),
    "removeBudget": Call("budget.remove", with_budget),
    "createCluster": Call("cluster.create", empty, cluster_spec("other", workers=1)),
    "deleteCluster": Call("cluster.delete", with_cluster),
    "labelCluster": Call("cluster.label", with_cluster, LABELS),
    "updateCluster": Call(
        "cluster.update", with_cluster, cluster_spec("shared", workers=2, spares=1)
    ),
    "rebootNode": Call("node.reboot", with_cluster),
    "replaceNode": Call("node.replace", with_cluster),
    "keepCluster": Call("cluster.keep", with_cluster),
    "releaseCluster": Call("cluster.release", with_adopted),
    "shareCluster": Call("cluster.share", with_cluster, SHARE),
    "startCluster": Call("cluster.start", with_stopped),
    "stopCluster": Call("cluster.stop", with_cluster),
    "transferCluster": Call("cluster.transfer", with_cluster, {"to": ALICE.arn}),
    "adoptCluster": Call("cluster.adopt", with_foreign, {"name": THEIRS, "sharedDir": "/fsx"}),
    "createFilesystem": Call("filesystem.create", empty, filesystem_document()),
    "deleteFilesystem": Call("filesystem.delete", with_filesystem, query={"discard": "true"}),
    "exportFilesystem": Call("filesystem.export", with_filesystem),
    "shareFilesystem": Call("filesystem.share", with_filesystem, SHARE),
    "transferFilesystem": Call("filesystem.transfer", with_filesystem, {"to": ALICE.arn}),
    "submitRun": Call("run.submit", empty, spec()),
    "labelRun": Call("run.label", with_run, LABELS),
    "cancelRun": Call("run.cancel", with_run),
    "exportRun": Call("run.export", with_run),
    "resumeRun": Call("run.resume", with_cancelled),
    "shareRun": Call("run.share", with_run, SHARE),
    "transferRun": Call("run.transfer", with_run, {"to": ALICE.arn}),
    "createSchedule": Call("schedule.create", empty, NIGHTLY),
    "deleteSchedule": Call("schedule.delete", with_schedule),
    "pauseSchedule": Call("schedule.pause", with_schedule),
    "resumeSchedule": Call("schedule.resume", with_schedule),
    "shareSchedule": Call("schedule.share", with_schedule, SHARE),
    "transferSchedule": Call("schedule.transfer", with_schedule, {"to": ALICE.arn}),
    "addWebhook": Call("webhook.add", empty, HOOK),
    "removeWebhook": Call("webhook.remove", with_webhook),
    "redeliver": Call("webhook.redeliver", with_webhook, query={"delivery": "{delivery}"}),
    "rotateWebhook": Call("webhook.rotate", with_webhook),
}
#: Changes nothing of anybody, and the run that uses it is in the list.
NO_CHANGE = {"requestUpload"}
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
    if method != "get" and operation["operationId"] not in NO_CHANGE
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_each_change_takes_a_reason_by_the_document(name: str) -> None:
    parameters = OPERATIONS[name][2]["parameters"]
    assert [one["in"] for one in parameters if one["name"] == HEADER] == ["header"]


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_each_change_is_in_the_list_once_with_who_what_when_from_where_and_why(name: str) -> None:
    method, path, _ = OPERATIONS[name]
    assert name in CALLS, f"{method} {path}: enter {name} in CALLS above"
    call = CALLS[name]
    scene = call.scene()
    before = len(scene.entries())
    query = {of: value.format(**scene.words) for of, value in call.query.items()}
    sent: dict[str, Any] = {
        "query": query or None, "body": call.body, "headers": {HEADER: quote(REASON)},
    }  # fmt: skip
    place = path.format(**{"budgetName": "vision", **scene.words})
    no = scene.client.of(VIEWER).send(method, place, **sent)
    is_a_problem(no, 403, "not-allowed")
    assert len(scene.entries()) == before + 1
    yes = scene.client.send(method, place, **sent)
    assert yes.status < 300, yes.text
    entries = scene.entries()
    assert len(entries) == before + 2
    told = {(one.who.name, one.outcome): one for one in entries if one.who and one.reason == REASON}
    assert set(told) == {("dave", "refused"), ("me", "done")}
    done = told["me", "done"]
    assert done.what == call.what
    assert done.at == ASKED_AT
    assert (done.source_ip, done.user_agent) == ("127.0.0.1", "test")


def test_no_call_is_entered_that_there_is_not() -> None:
    assert set(CALLS) == set(OPERATIONS)
