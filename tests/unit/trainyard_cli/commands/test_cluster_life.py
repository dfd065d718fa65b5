"""A cluster's beginning and end."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.fake_api import CLUSTER, FakeApi

pytestmark = pytest.mark.real


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
