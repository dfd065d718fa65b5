"""A fault of what is absent or in another state is refused with an exit code of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.repository import ROOT

from sam_on_moto.gateway.admin import Admin
from sam_on_moto.wire.messages import Request
from trainyard_local import admin_calls, control, faults
from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.hyperpod.state import Settings
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes.faults import NodeFault

RUN = "run-01jd0000000000000000000000"


def a_node(name: str, *, powered: bool = True) -> Any:
    """It offers one fault that passes, which notes in `done` what it does."""
    done: list[str] = []

    def begin(request: Any) -> dict[str, Any]:
        done.append(f"begins {request.get('share', '')}".strip())
        return {"stopped": 3}

    offered = {"stand-still": NodeFault(begin, lambda: done.append("ends"))}
    node = {
        "name": name,
        "instance_id": f"i-{name}",
        "address": "127.0.0.9",
        "powered": powered,
        "processes": list,
        "done": done,
    }
    return SimpleNamespace(**node, faults=lambda: offered)


@pytest.fixture
def nodes() -> list[Any]:
    return [a_node("ip-1"), a_node("ip-2", powered=False)]


@pytest.fixture
def background() -> list[threading.Thread]:
    """What the cluster does in the background."""
    return []


@pytest.fixture
def admin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[Any],
    background: list[threading.Thread],
) -> Admin:
    """The admin calls of a cloud with one idle cluster, on which one run was."""
    (tmp_path / "trainyard" / "runs" / RUN).mkdir(parents=True)
    cluster = SimpleNamespace(
        name="c", id="c1", arn="arn:c", shared=tmp_path, members=lambda: nodes
    )
    cluster.closing, cluster.notice_later, cluster.healed = (
        threading.Event(),
        lambda node: None,
        lambda node: None,
    )

    def in_background(work: Callable[[], None]) -> None:
        background.append(threading.Thread(target=work))
        background[-1].start()

    cluster.in_background = in_background
    monkeypatch.setattr(
        faults, "of", lambda cloud: SimpleNamespace(lock=threading.Lock(), clusters={"c1": cluster})
    )
    monkeypatch.setattr(faults, "jobs_of", lambda cloud: SimpleNamespace(all=list))
    cloud = LocalCloud(tmp_path, 1)
    return Admin(cloud, lambda: None, lambda template: None, admin_calls.calls(cloud))


@pytest.mark.parametrize(
    ("kind", "given", "status", "words"),
    [
        ("kill-node", {"cluster": "nope"}, 404, "there is: c"),
        ("kill-node", {"node": "nope"}, 404, "there is: ip-1 (i-ip-1), ip-2"),
        ("stop-agent", {"node": "nope"}, 404, "there is: ip-1"),
        ("start-agent", {"node": "nope"}, 404, "there is: ip-1"),
        ("start-agent", {"node": "ip-2"}, 409, "switched off"),
        ("kill-node", {}, 409, "name the node"),
        ("stop-agent", {}, 409, "name the node"),
        ("kill-process", {}, 409, "no job runs on cluster c now"),
        ("kill-process", {"node": "nope"}, 404, "there is: ip-1"),
        ("kill-process", {"node": "ip-1"}, 409, "leave out the node"),
        ("kill-process", {"node": "ip-1", "run": RUN}, 409, "leave out the node"),
        ("kill-process", {"run": RUN}, 409, f"no job of {RUN} runs on cluster c now"),
        ("kill-process", {"run": "run-unknown"}, 404, "never trained on cluster c"),
        ("kill-process", {"node": "ip-1", "run": "run-unknown"}, 404, "never trained on cluster c"),
        ("corrupt-checkpoint", {"run": "run-unknown"}, 404, "never trained on cluster c"),
        ("corrupt-checkpoint", {"run": "../../etc"}, 404, "never trained on cluster c"),
        ("corrupt-checkpoint", {"run": RUN}, 404, "no checkpoint"),
        ("corrupt-checkpoint", {}, 404, "no checkpoint"),
        ("drop-a-hammer", {}, 400, "use one of kill-node"),
        ("drop-a-hammer", {}, 400, "stand-still"),
        ("cut-link", {"node": "ip-1"}, 400, "trainyard local up --nodes machines"),
        ("slow-link", {}, 400, "processes have none of their own"),
        ("stand-still", {}, 409, "name the node"),
        ("stand-still", {"node": "ip-2"}, 409, "switched off"),
        ("stand-still", {"node": "ip-1", "seconds": 0}, 400, "seconds: '0'"),
        ("stand-still", {"node": "ip-1", "seconds": "20"}, 400, "seconds: '20' is no number"),
        ("heal-node", {"node": "nope"}, 404, "there is: ip-1"),
    ],
)
def test_a_fault_that_cannot_be_says_whether_it_is_not_there_or_not_now(
    admin: Admin, kind: str, given: dict[str, str], status: int, words: str
) -> None:
    body = json.dumps({"kind": kind, "cluster": "c", **given}).encode()
    answer = admin.handle(
        Request("POST", "/_trainyard/fault", "", {"x-trainyard-token": admin.token}, body)
    )
    problem = json.loads(answer.body)
    assert (answer.status, words in problem["message"]) == (status, True), problem
    assert problem["code"] == {400: "invalid-request", 404: "not-found", 409: "conflict"}[status]


def test_a_fault_of_a_cluster_that_is_a_training_job_names_the_faults_of_its_job(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [SimpleNamespace(name="job-1", ended=True), SimpleNamespace(name="job-2", ended=False)]
    monkeypatch.setattr(faults, "jobs_of", lambda cloud: SimpleNamespace(all=lambda: jobs))
    body = json.dumps({"kind": "kill-node", "cluster": "proj-1"}).encode()
    answer = admin.handle(
        Request("POST", "/_trainyard/fault", "", {"x-trainyard-token": admin.token}, body)
    )
    assert answer.status == 404
    assert json.loads(answer.body)["message"] == (
        "cluster: 'proj-1' is no cluster with nodes of this local cloud; there is: c; "
        "of training jobs use kill-host or kill-host-process, for job-2"
    )


def inject(admin: Admin, **request: Any) -> dict[str, Any]:
    answer = admin.handle(
        Request(
            "POST",
            "/_trainyard/fault",
            "",
            {"x-trainyard-token": admin.token},
            json.dumps({"cluster": "c", **request}).encode(),
        )
    )
    assert answer.status == 200, answer.body
    return dict(json.loads(answer.body))


def test_a_fault_that_a_node_offers_stays_until_the_node_is_healed(
    admin: Admin, nodes: list[Any]
) -> None:
    done = inject(admin, kind="stand-still", node="ip-1", share=5)
    assert (done["stopped"], done["instanceId"], nodes[0].done) == (3, "i-ip-1", ["begins 5"])
    inject(admin, kind="heal-node", node="ip-1")
    assert nodes[0].done == ["begins 5", "ends"]


def test_a_fault_with_seconds_passes_by_itself(
    admin: Admin, nodes: list[Any], background: list[threading.Thread]
) -> None:
    inject(admin, kind="stand-still", node="ip-1", seconds=0.01)
    [passing] = background
    passing.join(120)
    assert nodes[0].done == ["begins", "ends"]


def test_a_node_that_hyperpod_missed_runs_again_when_it_is_healed_and_not_before() -> None:
    node: Any = SimpleNamespace(status="Running", message="", answers=False, instance_id="i-1")
    cluster: Any = SimpleNamespace(
        closing=threading.Event(), settings=SimpleNamespace(notice_seconds=0.0),
        in_background=lambda work: work(), request={"NodeRecovery": "None"},
    )  # fmt: skip
    LocalCluster.notice_later(cluster, node)
    LocalCluster.healed(cluster, node)
    assert (node.status, node.message) == ("Failure", "EC2 Instance i-1 does not answer")
    node.answers = True
    LocalCluster.healed(cluster, node)
    assert (node.status, node.message) == ("Running", "")
    node.status, node.message = "Failure", "Lifecycle scripts did not run successfully."
    LocalCluster.healed(cluster, node)
    assert node.status == "Failure", "of another cause"


class Started(Exception):
    """With the environment that the server would have had."""


def test_the_settings_of_a_server_reach_it_and_nothing_else_of_the_environment_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(command: list[str], **options: Any) -> None:
        raise Started(options["env"])

    monkeypatch.setattr(control.subprocess, "Popen", start)
    monkeypatch.setenv("TRAINYARD_LOCAL_NOTICE_SECONDS", "90")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "somebody's")
    with pytest.raises(Started) as started:
        control.up(tmp_path / "state", 0, ROOT / "template.yaml")
    environment = started.value.args[0]
    assert (
        environment["TRAINYARD_LOCAL_NOTICE_SECONDS"],
        "AWS_SECRET_ACCESS_KEY" in environment,
    ) == ("90", False)
    assert Settings.from_env(SimpleNamespace(port=4780)).notice_seconds == 90  # type: ignore[arg-type]
