"""Waiting for what goes on at the API."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import typer
from tests.support.fake_api import NODE, RUN, FakeApi, a_run

from trainyard_cli.problems import NotInTime
from trainyard_cli.screen.waiting import Waiting

Trainyard = Callable[..., tuple[int, str, str]]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard_cli.commands.cluster_waiting.POLL_SECONDS", 0.001)
    monkeypatch.setattr("trainyard_cli.screen.live.POLL_SECONDS", 0.001)


def test_it_ends_with_what_was_seen_when_it_was_done() -> None:
    seen = iter(["a", "b", "c"])
    waiting = Waiting("x", "trainyard x", poll_seconds=0)
    assert waiting.until(lambda: next(seen), lambda now: now == "b", str) == "b"


def test_it_ends_after_its_time_and_says_how_to_look_again() -> None:
    waiting = Waiting("run r", "trainyard run watch r", timeout=0, poll_seconds=0)
    with pytest.raises(NotInTime) as ended:
        waiting.until(lambda: "Running", lambda _: False, str)
    assert ended.value.exit_code == 124
    assert ended.value.detail == "run r is Running"
    assert ended.value.next_step == "It goes on. Look again with: trainyard run watch r"


def test_ctrl_c_leaves_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as left:
        Waiting("x", "trainyard x").until(interrupted, bool, str)
    assert left.value.exit_code == 130
    assert "Look again with: trainyard x" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("verb", "end", "code"), [
    ("cancel", "Cancelled", 0), ("cancel", "Failed", 1),
    ("resume", "Succeeded", 0), ("resume", "Failed", 1),
])  # fmt: skip
def test_a_run_is_waited_for_until_its_end(
    api: FakeApi, trainyard: Trainyard, verb: str, end: str, code: int
) -> None:
    api.answers |= {
        f"POST /v1/runs/{RUN}:{verb}": (202, a_run("Running")),
        f"GET /v1/runs/{RUN}": [(200, a_run("Running")), (200, a_run(end))],
    }
    found, out, err = trainyard("run", verb, RUN, "--wait", "--reason", "so", "--json")
    assert (found, json.loads(out)["status"]) == (code, end), err
    (sent,) = api.calls(f"POST /v1/runs/{RUN}:{verb}")
    assert "reason=so" in str(sent)


@pytest.mark.real
@pytest.mark.usefixtures("quick")
def test_a_replaced_node_is_waited_for_until_another_instance_runs(
    api: FakeApi, trainyard: Trainyard
) -> None:
    path = "/v1/clusters/mine-abc/nodes"
    fresh = {**NODE, "instanceId": "i-2", "name": None, "status": "Pending"}
    lists = [[NODE], [NODE], [fresh], [{**fresh, "status": "Running"}]]
    api.answers |= {
        f"GET {path}": [(200, {"nodes": nodes}) for nodes in lists],
        f"POST {path}/i-1:replace": (202, {"successful": ["i-1"], "failed": {}}),
    }
    code, out, err = trainyard("node", "replace", "mine-abc", "i-1", "--wait")
    assert (code, out) == (0, "Replaced i-1\n"), err
    assert len(api.calls(f"GET {path}")) == len(lists)
