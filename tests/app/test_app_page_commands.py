"""Every command of the pages for users, run on the real API in this process.

What stands in: the machines, whose story each look at a run lets go on; the bucket; the clock.
Commands that need a local cloud or an account are parsed as the command line does it, and
`tests/local/test_page_commands.py` runs those of a newcomer's first hour.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import typer.main
from tests.support.in_process_api import URL, InProcess, connected
from tests.support.page_commands import Command, File, pages, steps
from tests.support.repository import ROOT
from tests.support.story import Agent, Story, record_fact

from trainyard.domain.states import BackendStatus
from trainyard_cli import main
from trainyard_sdk import client as client_module
from trainyard_sdk import connection

Act = Callable[[], object]
#: What needs a local cloud or an account.
ELSEWHERE = ("local", "fault", "doctor", "first-light")
#: What a reader's shell does besides.
SHELL = ("make", "cd", "mkdir", "echo", "export", ".")
#: Pages whose run fails.
FAILING = ("failures.md",)
#: Pages with what the local cloud cannot do.
ON_AWS = ("container.md",)


class Living(InProcess):
    """A cloud that lives: clusters come up, and what is submitted has a story."""

    def __init__(self, story: Story, fails: bool) -> None:
        super().__init__(story.world)
        self._story, self._fails = story, fails
        #: Whether the command at hand waits for the run's end; else the run trains on.
        self.followed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if request.method == "POST" and request.url.path == "/v1/runs" and answer.status_code < 300:
            self._story.run_id = answer.json().get("id", self._story.run_id)
            self._acts = self._story_of_run()
        self._story.rest()
        self._clusters_come_up()
        return answer

    def _clusters_come_up(self) -> None:
        story = self._story
        for cluster in list(story.world.clusters.stored.values()):
            if cluster.status == "Creating" and cluster.arn and not cluster.owner_run:
                story.world.backend.advance(cluster.name, BackendStatus.IN_SERVICE)
                detail = {
                    "id": story.world.ids.ulid(),
                    "at": story.at,
                    "clusterName": cluster.name,
                    "clusterArn": cluster.arn,
                    "nodes": ["a"],
                }
                envelope = {"source": "trainyard.agent", "detail-type": "ClusterReady"}
                record_fact(story.world.ports, {**envelope, "id": "e", "detail": detail})
                story.rest()

    def _story_of_run(self) -> Iterator[Act]:
        story = self._story
        if story.cluster.status != "Ready":
            yield story.ready
        while story.run.attempt is None:  # it waits for another run
            yield lambda: None
        yield story.training
        yield lambda: story.checkpoint(40)
        while not self.followed:
            yield lambda: None
        if not self._fails:
            yield lambda: story.end(lastStep=200)
        while story.run.status in ("Running", "Recovering"):
            if story.run.status == "Recovering":
                yield lambda: story.training(step=41)
            yield lambda: story.end("failed", exitCode=1, errorKind="unknown")
        for _ in range(100):
            yield lambda: None
        raise AssertionError(f"the run is {story.run.status} for ever: {story.said}")


class Bucket(httpx.BaseTransport):
    """Where presigned addresses lead."""

    def __init__(self, story: Story) -> None:
        self._world = story.world

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            self._world.uploads.put(request.read())
            return httpx.Response(200)
        key = unquote(request.url.path.lstrip("/"))
        return httpx.Response(200, stream=httpx.ByteStream(self._world.blobs.objects[key]))


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def reader(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader of a page types: a directory with the repository's examples."""
    there = httpx.Client
    faked = types.SimpleNamespace(**vars(httpx))
    faked.Client = lambda **_: there(transport=Bucket(story))
    monkeypatch.setattr("trainyard_sdk.upload.send.httpx", faked)
    monkeypatch.setattr("trainyard_sdk.downloads.httpx", faked)
    monkeypatch.setattr("trainyard_cli.screen.live.POLL_SECONDS", 0.001)
    monkeypatch.setattr("trainyard_cli.screen.snapshot.SLOW_SECONDS", 0.0)
    monkeypatch.setenv("TRAINYARD_CONFIG", str(tmp_path / "settings/contexts.json"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TRAINYARD_API_URL", "TRAINYARD_CONTEXT", "TRAINYARD_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    # The agent's answer is the log itself.
    monkeypatch.setattr(Agent, "logs", lambda *_: ["Error: one line"], raising=False)
    where = tmp_path / "clone"
    where.mkdir()
    (where / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(where)
    return where


def on_aws(api: Living) -> client_module.Client:
    """The API of a stack, to a caller with credentials."""
    return client_module.Client(connection.Connection(URL, "us-east-1", None), transport=api)


def parsed(words: list[str]) -> None:
    """The words as the command line reads them, down to the command; nothing is run."""
    command: Any = typer.main.get_command(main.app)
    context = command.context_class(command, info_name="trainyard")
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.context_class(command, parent=context, info_name=name)
    command.parse_args(context, words)


def typed(words: list[str], monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """What a reader's shell does with a line that is no command of ours."""
    assert words[0] in SHELL, f"a reader may not have {words[0]}"
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    elif words[0] == "cd":
        monkeypatch.chdir(words[1])
    elif words[0] == "mkdir":
        for name in words[1:]:
            if name != "-p":
                Path(name).mkdir(parents=True, exist_ok=True)
    elif words[0] == "echo":
        text, arrow, name = words[1:]
        assert arrow == ">"
        Path(name).write_text(f"{text}\n")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_readers_commands_work_in_their_order(
    page: Path,
    story: Story,
    reader: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Living(story, fails=page.name in FAILING)
    reached = on_aws(api) if page.name in ON_AWS else connected(api)
    monkeypatch.setattr(client_module.Client, "connect", lambda *_, **__: reached)
    if page.name != "team.md":
        assert main.run(["cluster", "create", "examples/cluster.yaml", "--wait"]) == 0
    if page.name in FAILING:
        api.followed = True
        assert main.run(["run", "submit", "examples/ddp-demo.yaml", "--watch"]) == 1
    for step in steps(page):
        if isinstance(step, File):
            Path(step.name).write_text(step.text)
            continue
        words = step.words
        if words[0] != "trainyard":
            typed(words, monkeypatch, step.line)
        elif words[1] in ELSEWHERE:
            parsed(words[1:])
        else:
            api.followed = "--watch" in words or "watch" in words
            code = main.run(words[1:])
            said = capsys.readouterr()
            assert code == 0, f"{page.name}: {step.line}\n{said.out}{said.err}"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("fault kill-nodes CLUSTER", "No such command 'kill-nodes'"),
        ("local up --nods machines", "No such option"),
        ("fault kill-node", "Missing parameter: cluster"),
    ],
)
def test_a_command_that_there_is_not_is_refused(line: str, wrong: str) -> None:
    with pytest.raises(Exception, match=wrong):
        parsed(line.split())


def test_the_pages_have_commands_and_files() -> None:
    found = [step for page in pages() for step in steps(page)]
    assert sum(isinstance(step, Command) for step in found) > 50
    assert sum(isinstance(step, File) for step in found) > 5
