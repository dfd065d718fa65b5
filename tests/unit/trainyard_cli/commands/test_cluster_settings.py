"""What a cluster has beside its spec."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.fake_api import FakeApi

pytestmark = pytest.mark.real


def test_a_cluster_is_kept(api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]) -> None:
    kept = {"name": "mine-abc", "status": "Ready", "spec": {"idleLimitSeconds": 1800}}
    api.answers["POST /v1/clusters/mine-abc:keep"] = (200, kept)
    code, out, _ = trainyard("cluster", "keep", "mine-abc", "--reason", "tomorrow")
    assert (code, out) == (0, "mine-abc is kept for another 1800 s without a run\n")
    (call,) = api.calls("POST /v1/clusters/mine-abc:keep")
    assert call["query"] == {"reason": "tomorrow"}
