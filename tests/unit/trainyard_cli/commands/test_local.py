"""The commands of the local cloud."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import (
    RUN,
    FakeApi,
    a_run,
)

from trainyard_local import control


@pytest.mark.real
def test_faults_of_links_take_their_numbers_and_where_nodes_have_no_link_the_cloud_says_so(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["POST /_trainyard/fault"] = (200, {"node": "i-1"})
    for words, given in (
        (["cut-link", "--seconds", "20"], {"seconds": 20.0}),
        (["lose-packets"], {"percent": 5}),
        (["slow-link", "--milliseconds", "50"], {"milliseconds": 50, "percent": 5}),
    ):
        assert trainyard("fault", words[0], "mine-abc", "--node", "i-1", *words[1:])[0] == 0
        assert json.loads(api.requests[-1]["body"]) == {
            "kind": words[0],
            "cluster": "mine-abc",
            "node": "i-1",
            **given,
        }
    api.answers["POST /_trainyard/fault"] = (
        400,
        {"code": "invalid-request", "message": "start it with: --nodes machines"},
    )
    code, _, err = trainyard("fault", "cut-peers", "mine-abc")
    assert (code, "--nodes machines" in err) == (6, True)


@pytest.mark.real
def test_a_fault_goes_to_the_local_cloud(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["POST /_trainyard/fault"] = (200, {"node": "i-1"})
    code, out, _ = trainyard("fault", "kill-process", "mine-abc", "--node", "i-1", "--run", RUN)
    assert (code, "i-1" in out) == (0, True)
    assert json.loads(api.requests[-1]["body"]) == {
        "kind": "kill-process",
        "cluster": "mine-abc",
        "node": "i-1",
        "run": RUN,
    }


class FakeControl:
    """Stands for the local cloud's control module."""

    ControlError, InTheWay, Unusable = control.ControlError, control.InTheWay, control.Unusable

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.error: Exception | None = None
        self.running = self.killed = False

    def up(self, *arguments: Any, nodes: str) -> dict[str, Any]:
        if self.error:
            raise self.error
        self.started.append((*arguments, nodes))
        return {"apiUrl": "http://127.0.0.1:1/x", "endpoint": "http://127.0.0.1:1"}

    def down(self, _: Path) -> dict[str, Any]:
        return {"stopped": True, "graceful": True, "killed": 1}

    def status(self, _: Path) -> dict[str, Any]:
        return {
            "running": self.running,
            "local": None,
            "processes": [],
            "cloud": None,
            "killed": self.killed,
        }


def test_the_local_cloud_starts_with_frequent_samples_and_tells_its_own_errors(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, template = FakeControl(), tmp_path / "template.yaml"
    template.write_text("Resources: {}")
    monkeypatch.setattr("trainyard_cli.commands.local_control.loaded", lambda name: fake)
    arguments = (
        "local",
        "up",
        "--port",
        "5",
        "--template",
        str(template),
        "--state-dir",
        str(tmp_path / "state"),
    )
    code, out, _ = trainyard(*arguments)
    assert (code, "http://127.0.0.1:1/x" in out) == (0, True)
    assert fake.started[0][:4] == (tmp_path / "state", 5, template, {"HeartbeatSeconds": "2"})
    assert fake.started[0][-1] == "processes"
    assert trainyard(*arguments, "--nodes", "machines")[0] == 0
    assert fake.started[-1][-1] == "machines"
    for error, expected in (
        (control.InTheWay, 4),
        (control.Unusable, 6),
        (control.ControlError, 1),
    ):
        fake.error = error("one runs already", "End it first.")
        code, _, err = trainyard(*arguments)
        assert (code, "one runs already" in err, "Next: End it first." in err) == (
            expected,
            True,
            True,
        )
    assert trainyard("local", "up", "--template", str(tmp_path / "none"))[0] == 6
    assert "1 process had to be killed" in trainyard("local", "down")[1]
    for words in ("status", "update"):
        code, _, err = trainyard("local", words)
        assert (code, "The local cloud is down" in err) == (5, True), words


@pytest.mark.real
def test_the_local_cloud_goes_down_under_active_runs_only_when_a_person_says_so(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeControl()
    fake.running = True
    monkeypatch.setattr("trainyard_cli.commands.local_control.loaded", lambda name: fake)
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run(), a_run("Succeeded")]})
    code, out, err = trainyard("local", "down")
    assert (code, out) == (4, "")
    assert f"1 run is active: {RUN} (Running)" in err
    assert "--yes" in err
    assert trainyard("local", "down", "--yes")[0] == 0
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run("Succeeded")]})
    assert trainyard("local", "down")[0] == 0


def test_a_killed_local_clouds_records_are_said_to_be_gone(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, template = FakeControl(), tmp_path / "template.yaml"
    template.write_text("Resources: {}")
    fake.killed = True
    monkeypatch.setattr("trainyard_cli.commands.local_control.loaded", lambda name: fake)
    for command in (["status"], ["down"], ["up", "--template", str(template)]):
        assert "are gone" in " ".join(trainyard("local", *command)[2].split()), command
