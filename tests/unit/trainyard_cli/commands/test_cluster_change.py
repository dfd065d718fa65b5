"""A cluster that is there, and is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import CLUSTER, FakeApi, T

pytestmark = pytest.mark.real
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
