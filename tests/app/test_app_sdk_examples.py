"""The SDK's examples, run on the real API as far as they can be without a cloud."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from tests.support.in_process_api import InProcess, connected
from tests.support.repository import ROOT
from tests.support.story import Story

from trainyard_sdk import client as client_module
from trainyard_sdk import connection, downloads, sdk

EXAMPLES = ROOT / "examples/sdk"
Act = Callable[[], object]


def healthy(story: Story) -> Iterator[Act]:
    yield story.ready
    yield story.training
    yield lambda: story.checkpoint(40)
    yield lambda: None
    yield lambda: story.end(lastStep=200)


def with_a_death(story: Story) -> Iterator[Act]:
    yield story.ready
    yield story.training
    yield lambda: story.checkpoint(40)
    yield lambda: None
    yield lambda: story.training("ip-127-0-1-11", "ip-127-0-1-12", step=41)
    yield lambda: story.end(lastStep=200)


class Telling(InProcess):
    """What is submitted is the story's run, and its machines start at once."""

    def __init__(self, story: Story, acts: Iterator[Act]) -> None:
        super().__init__(story.world, acts)
        self._story = story
        self.keys: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if (
            request.method == "POST"
            and request.url.path == "/v1/runs"
            and answer.status_code == 202
        ):
            self._story.run_id = answer.json()["id"]
            self._story.rest()
            self.keys.append(request.headers["idempotency-key"])
        return answer


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def tell(story: Story, monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterator[Act]], Telling]:
    """Every Trainyard() reaches the story; the network's part of fault and download is left out."""

    def begin(acts: Iterator[Act]) -> Telling:
        api = Telling(story, acts)
        monkeypatch.setattr(connection.Connection, "find", lambda *_, **__: None)
        monkeypatch.setattr(sdk, "Client", lambda _: connected(api))
        return api

    monkeypatch.setattr("trainyard_sdk.following.POLL_SECONDS", 0.001)
    monkeypatch.setattr(sdk.Trainyard.__init__, "__kwdefaults__", {
        **sdk.Trainyard.__init__.__kwdefaults__, "poll_seconds": 0.001,
    })  # fmt: skip
    return begin


def test_the_demos_story_has_at_most_25_lines_and_tells_of_a_death_and_a_resume(
    story: Story,
    tell: Callable[[Iterator[Act]], Telling],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = (EXAMPLES / "demo_story.py").read_text()
    assert len([line for line in source.splitlines() if line.strip()]) <= 25
    tell(with_a_death(story))
    monkeypatch.setattr(client_module.Client, "fault", lambda *_, node, **__: story.lose(node))
    fetched = SimpleNamespace(fetched=["final/model.pt"])
    monkeypatch.setattr(downloads, "download", lambda *_, **__: fetched)
    monkeypatch.setattr(sys, "argv", ["demo_story.py", str(ROOT / "examples/ddp-demo.yaml")])
    runpy.run_path(str(EXAMPLES / "demo_story.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "node-lost on ip-127-0-1-13" in out
    assert "1 files of the model" in out
    assert story.run.status == "Succeeded"


def test_the_demos_story_is_typed() -> None:
    command = [sys.executable, "-m", "mypy", str(EXAMPLES / "demo_story.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_every_cell_of_the_notebook_runs(
    story: Story, tell: Callable[[Iterator[Act]], Telling], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(healthy(story))
    monkeypatch.chdir(EXAMPLES)
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    assert names["run"].status == "Succeeded"


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., Any]]:
    """The two decorators that the DAG uses, as Airflow documents them; the tasks that were made."""
    tasks: list[Callable[..., Any]] = []

    def dag(**given: Any) -> Callable[..., Any]:
        assert set(given) == {"schedule", "start_date", "catchup"}
        return lambda function: function

    def task(**given: Any) -> Callable[..., Any]:
        assert given["retries"] == 5

        def kept(function: Callable[..., Any]) -> Callable[..., Any]:
            tasks.append(function)
            return lambda: None

        return kept

    decorators, exceptions = ModuleType("airflow.decorators"), ModuleType("airflow.exceptions")
    decorators.__dict__.update(dag=dag, task=task)
    exceptions.__dict__.update(AirflowFailException=type("AirflowFailException", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.decorators", decorators)
    monkeypatch.setitem(sys.modules, "airflow.exceptions", exceptions)
    return tasks


def test_a_task_of_airflow_that_is_tried_again_finds_its_run(
    story: Story,
    tell: Callable[[Iterator[Act]], Telling],
    airflow: list[Callable[..., Any]],
) -> None:
    api = tell(healthy(story))
    names = runpy.run_path(str(EXAMPLES / "airflow_dag.py"))
    (train,) = airflow
    train.__globals__["SPEC"] = str(ROOT / "examples/ddp-demo.yaml")
    assert names["SPEC"].endswith(".yaml")
    this = SimpleNamespace(run_id="scheduled__2026-11-20T01:00:00+00:00")
    assert train(dag_run=this) == train(dag_run=this) == story.run_id
    assert len(set(api.keys)) == 1


def test_the_workflow_signs_without_keys_and_calls_commands_that_there_are() -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    assert workflow["permissions"]["id-token"] == "write"
    job = workflow["jobs"]["train"]
    text = Path(EXAMPLES / "github-workflow.yml").read_text()
    assert not re.search(r"secrets\.|AWS_SECRET", text)
    (command,) = [one["run"] for one in job["steps"] if "trainyard run" in one.get("run", "")]
    options = re.findall(r"--[a-z-]+", command)
    done = subprocess.run(
        [sys.executable, "-m", "trainyard_cli.main", "run", "submit", "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200"},
    )  # fmt: skip
    assert options
    assert all(option in done.stdout for option in options)
