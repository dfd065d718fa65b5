"""Nodes that a person replaces and reboots."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from tests.support.fake_api import NODE, FakeApi

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
