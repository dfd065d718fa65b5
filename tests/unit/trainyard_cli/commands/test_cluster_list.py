"""`cluster ls`: clusters found by what they are."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.support.fake_api import CLUSTER, FakeApi

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]


def test_clusters_are_narrowed_as_runs_are(api: FakeApi, trainyard: Command) -> None:
    group = {"name": "w", "role": "worker", "instanceType": "t", "count": 2, "spares": 1}
    listed = {key: value for key, value in CLUSTER.items() if key != "spec"}
    api.answers["GET /v1/clusters"] = (200, {"clusters": [{**listed, "groups": [group]}]})
    _, out, _ = trainyard("cluster", "ls", "--status", "ready", "--label", "team=a")
    assert re.search(r"mine-abc +- +Ready +- +3 ", out)
    [call] = api.calls("GET /v1/clusters")
    assert (call["query"]["status"], call["query"]["label"]) == ("ready", "team=a")
    assert trainyard("cluster", "ls", "-o", "id")[1].split() == ["mine-abc"]
