"""The commands of clusters."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import (
    CLUSTER,
    NODE,
    FakeApi,
    T,
)

pytestmark = pytest.mark.real


def test_a_node_is_replaced_and_rebooted_by_either_of_its_names(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers |= {
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [NODE]}),
        "POST /v1/clusters/mine-abc/nodes/i-1:replace": (
            200,
            {"successful": ["i-1"], "failed": {}},
        ),
        "POST /v1/clusters/mine-abc/nodes/i-1:reboot": (200, {"successful": ["i-1"], "failed": {}}),
    }
    for arguments in (
        ("replace", "mine-abc", "ip-127-0-0-2"),
        ("replace", "mine-abc", "i-1"),
        ("reboot", "mine-abc", "ip-127-0-0-2"),
    ):
        code, out, _ = trainyard("node", *arguments)
        assert (code, "i-1" in out) == (0, True)


def test_a_node_that_cannot_be_rebooted_gives_awss_reason(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["POST /v1/clusters/c/nodes/i-1:reboot"] = (
        202,
        {"successful": [], "failed": {"i-1": "InvalidInstanceStatus"}},
    )
    code, _, err = trainyard("node", "reboot", "c", "i-1")
    assert (code, "InvalidInstanceStatus" in err) == (1, True)


def test_waiting_for_a_cluster_ends_with_it(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    spec: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainyard_cli.commands.cluster_waiting.POLL_SECONDS", 0.01)
    api.answers |= {
        "POST /v1/clusters": (202, {**CLUSTER, "status": "Pending"}),
        "GET /v1/clusters/mine-abc": [
            (200, {**CLUSTER, "status": "Creating"}),
            (200, {**CLUSTER, "status": "Failed"}),
        ],
        "DELETE /v1/clusters/gone": (202, {**CLUSTER, "name": "gone", "status": "Deleting"}),
    }
    assert trainyard("cluster", "create", spec, "--wait")[0] == 1
    code, out, _ = trainyard("cluster", "delete", "gone", "--wait", "--json")
    assert (code, json.loads(out)["status"]) == (0, "Deleted")


def test_a_cluster_that_is_to_be_deleted_is_not_called_ready(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    """The answer may come before its status has changed."""
    api.answers["DELETE /v1/clusters/mine-abc"] = (202, {**CLUSTER, "status": "Ready"})
    code, out, err = trainyard("cluster", "delete", "mine-abc")
    assert (code, out) == (0, "Deleting mine-abc.\n")
    assert "trainyard cluster show mine-abc" in err


def test_a_person_is_asked_before_a_node_with_a_job_is_rebooted(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = "/v1/clusters/mine-abc/nodes"
    api.answers |= {
        f"GET {path}": (200, {"nodes": [{**NODE, "scheduler": "allocated"}]}),
        f"POST {path}/i-1:reboot": (200, {"successful": ["i-1"], "failed": {}}),
    }
    monkeypatch.setattr("trainyard_cli.commands.node_meant.may_ask", lambda: True)
    monkeypatch.setattr("trainyard_cli.screen.output.may_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    code, _, err = trainyard("node", "reboot", "mine-abc", "i-1")
    assert (code, "ip-127-0-0-2 runs a job now. Reboot it?" in err) == (1, True)
    assert api.calls(f"POST {path}/i-1:reboot") == []
    api.answers[f"GET {path}"] = (200, {"nodes": [NODE]})
    assert trainyard("node", "reboot", "mine-abc", "i-1")[0] == 0


CHANGE = {
    "state": "waiting", "spec": {"name": "mine-abc"}, "fleet": "running", "endedAt": None,
    "reason": "",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(json.dumps({**CLUSTER["spec"], "name": "mine-abc"}))
    return str(path)


def changing(**change: object) -> dict[str, object]:
    return {**CLUSTER, "change": {**CHANGE, **change}}


def test_an_update_names_its_cluster_by_the_spec_and_waits_for_its_end(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainyard_cli.commands.cluster_waiting.POLL_SECONDS", 0.01)
    undone = changing(state="rolled-back", endedAt=T, reason="Queue2: no such subnet")
    api.answers |= {
        "PUT /v1/clusters/mine-abc": (202, changing()),
        "GET /v1/clusters/mine-abc": [(200, changing(state="changing")), (200, undone)],
    }
    code, out, _ = trainyard("cluster", "update", file, "--wait")
    assert (code, "update: rolled-back. Queue2: no such subnet" in out) == (1, True)
    (sent,) = api.calls("PUT /v1/clusters/mine-abc")
    assert json.loads(sent["body"])["name"] == "mine-abc"


def test_an_update_by_a_spec_without_a_name_is_refused_before_anything_is_sent(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("{backend: parallelcluster}")
    code, _, err = trainyard("cluster", "update", str(path))
    assert (code, "name: is missing" in err) == (6, True)
    assert api.requests == []


def test_a_dry_run_of_an_update_shows_what_it_takes(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], file: str
) -> None:
    plan = {
        "operation": "UpdateCluster", "request": {}, "files": {}, "batchScript": None,
        "hourlyUsd": None, "warnings": ["The compute fleet is stopped for it"], "ways": [],
    }  # fmt: skip
    api.answers["PUT /v1/clusters/mine-abc"] = (200, plan)
    for option in ("--dryrun", "--dry-run"):
        code, out, err = trainyard("cluster", "update", file, option)
        assert (code, "The compute fleet is stopped for it" in out + err) == (0, True)
    assert {one["query"]["dryrun"] for one in api.calls("PUT /v1/clusters/mine-abc")} == {"true"}


def test_a_fleet_is_stopped_and_started_and_the_way_to_follow_it_named(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    resting = changing(spec=None, fleet="stopped")
    api.answers |= {
        "POST /v1/clusters/mine-abc:stop": (202, resting),
        "POST /v1/clusters/mine-abc:start": (202, changing(spec=None)),
    }
    code, out, err = trainyard("cluster", "stop", "mine-abc", "--force")
    assert (code, "fleet stopped: waiting" in out) == (0, True)
    assert "trainyard cluster show mine-abc" in err
    assert api.calls("POST /v1/clusters/mine-abc:stop")[0]["query"] == {"force": "true"}
    assert "fleet running: waiting" in trainyard("cluster", "start", "mine-abc")[1]


def test_a_cluster_is_kept(api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]) -> None:
    kept = {"name": "mine-abc", "status": "Ready", "spec": {"idleLimitSeconds": 1800}}
    api.answers["POST /v1/clusters/mine-abc:keep"] = (200, kept)
    code, out, _ = trainyard("cluster", "keep", "mine-abc", "--reason", "tomorrow")
    assert (code, out) == (0, "mine-abc is kept for another 1800 s without a run\n")
    (call,) = api.calls("POST /v1/clusters/mine-abc:keep")
    assert call["query"] == {"reason": "tomorrow"}
