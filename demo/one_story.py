"""`python -m demo.one_story`: one run from Slack to its bill, every part real on this machine.

Alice fills in a form of Slack and sees the price. Bob approves. The run is watched in Chromium. A
node is killed: the thread in Slack and the page say why within seconds. Training goes on, ends, and
its bill is in the thread. Each stage is printed with its seconds; one that is not true ends with 1.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from playwright.sync_api import Page
from tests.support.console_browser import chromium, known, picture, served

from demo.cloud import REPOSITORY, LocalCloud, node_of
from demo.measure import attempt
from demo.slack_cloud import CHANNEL, arn_of, slack_cloud
from demo.story import EXAMPLE
from trainyard_local.slack.server import LocalSlack, listening
from trainyard_local.slack.transcript import message_lines, transcript
from trainyard_local.slack.workspace import Workspace

ALICE, BOB = "U0ALICE", "U0BOB"
#: The bound of news in the thread and on the page, above all of the reason of the fault.
WITHIN_SECONDS = 5.0
#: A form opens within what Slack gives.
FORM_SECONDS = 3.0
#: The longest that anything else is waited for.
STAGE_SECONDS = 150.0
#: What an hour of all nodes costs, by the spec: nodes of the local cloud cost nothing.
HOURLY_USD = 4
#: Whole checkpoints before the node is killed.
CHECKPOINTS = 2
_RUN_ID = re.compile(r"run-[0-9a-hjkmnp-tv-z]{26}")
Json = dict[str, Any]
T = TypeVar("T")


class Untrue(Exception):
    """A stage of the story did not come to pass, or not in time."""


@dataclass
class Recorder:
    """What is printed, kept for the file."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    def say(self, words: str = "") -> None:
        print(words, flush=True)
        self.lines.append(words)

    def took(self, what: str, seconds: float, within: float | None = None) -> None:
        """Raises Untrue."""
        bound = "" if within is None else f"  (within {within:g} s)"
        self.say(f"  {seconds:7.2f} s  {what}{bound}")
        if within is not None and seconds > within:
            raise Untrue(f"{what}: {seconds:.2f} s, and {within:g} s is the bound")

    def picture(self, page: Page, name: str) -> None:
        picture(page, self.folder / f"{name}.webp")

    def write(self, name: str, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text + "\n")


@dataclass
class Scene:
    """A cloud, a workspace with its two people, and a page of the console."""

    cloud: LocalCloud
    slack: LocalSlack
    page: Page
    origin: str
    record: Recorder
    deadline: float
    run: str = ""

    def until(
        self, what: str, look: Callable[[], T | None], pause: float = 0.05
    ) -> tuple[T, float]:
        """What was found, and after how many seconds. Raises Untrue."""
        began = time.monotonic()
        while time.monotonic() < min(self.deadline, began + STAGE_SECONDS):
            found = look()
            if found:
                return found, time.monotonic() - began
            time.sleep(pause)
        raise Untrue(f"not in time: {what}")

    def after(
        self, act: Callable[[], object], what: str, look: Callable[[], T | None]
    ) -> tuple[T, float]:
        """The same, with the act itself within the seconds."""
        began = time.monotonic()
        act()
        found, _ = self.until(what, look)
        return found, time.monotonic() - began

    def type(self, text: str, user: str) -> Callable[[], None]:
        return lambda: self.slack.command(text, user=user, channel=CHANNEL)

    def click(self, message: Json, label: str, user: str) -> Callable[[], None]:
        return lambda: self.slack.click(message, label, user=user)

    def messages(self, user: str = "") -> list[Json]:
        """What all see, or with a person what that one alone sees."""
        seen = self.slack.workspace.of_channel(CHANNEL)
        return [one for one in seen if one.get("only", "") == user]

    def reply(self, words: str) -> Json | None:
        """The reply in the run's thread that says this."""
        replies = [one for one in self.messages() if "thread_ts" in one]
        return next((one for one in replies if words in text_of(one)), None)

    def private(self, user: str, words: str) -> Json | None:
        return next((one for one in self.messages(user) if words in text_of(one)), None)


def text_of(message: Json) -> str:
    return "\n".join(message_lines(message))


def main(argv: list[str] | None = None) -> int:
    """Exit status 0 only if each stage was seen, in its time."""
    parser = argparse.ArgumentParser(prog="python -m demo.one_story", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/demo/one-story")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build/story")
    parser.add_argument("--timeout-seconds", type=float, default=600)
    arguments = parser.parse_args(argv)
    # A terminated story takes its cloud down like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    record = Recorder(arguments.output)
    space = Workspace("xoxb-story", "signing-secret-of-the-story")
    space.add_channel(CHANNEL, "runs")
    deadline = time.monotonic() + arguments.timeout_seconds
    try:
        _told(arguments.state_dir.resolve(), space, record, deadline)
    except Untrue as untrue:
        record.say(f"NOT TRUE: {untrue}")
        return 1
    finally:
        record.write("story.txt", "\n".join(record.lines))
        record.write("channel.txt", transcript(space, CHANNEL))
    record.say(f"All of it is true. Recorded in {arguments.output}.")
    return 0


def _told(state_dir: Path, space: Workspace, record: Recorder, deadline: float) -> None:
    """Everything is taken down behind it, whatever happens."""
    parameters = {"ApprovalAboveUsd": "1", "Approvers": arn_of("bob")}
    people = {ALICE: "alice", BOB: "bob"}
    began = time.monotonic()
    with listening(space) as slack, slack_cloud(state_dir, slack, people, parameters) as cloud:
        record.say("A local cloud, a local Slack, the console and Chromium")
        record.took("the cloud is up, with the stack of template.yaml", time.monotonic() - began)
        with chromium() as browser, served(cloud.api.connection) as server:
            page = known(server, browser).new_page()
            page.set_viewport_size({"width": 1280, "height": 860})
            page.goto(server.ours.origin + "/runs")
            scene = Scene(cloud, slack, page, server.ours.origin, record, deadline)
            for act in ACTS:
                record.say()
                record.say(act.__doc__ or "")
                act(scene)
        record.say()
        record.say(transcript(space, CHANNEL))
        record.say()


def _earlier(scene: Scene) -> None:
    """Yesterday somebody submitted ddp-demo, which waited for an approval and was cancelled"""
    api = scene.cloud.api
    spec = yaml.safe_load(EXAMPLE.read_text())
    spec["cluster"]["spec"]["hourlyUsd"] = HOURLY_USD
    run = api.submit_run(spec)["id"]
    _, seconds = scene.until("it waits", lambda: api.run(run)["status"] == "Waiting")
    scene.record.took("it waits for people", seconds)
    api.cancel_run(run)
    _, seconds = scene.until("it ends", lambda: api.run(run)["status"] == "Cancelled")
    scene.record.took("it is cancelled; no cluster was made", seconds)
    _, seconds = scene.until("its end in Slack", lambda: scene.reply("ddp-demo was cancelled"))
    scene.record.took("its thread in Slack says so", seconds)


def _submitted(scene: Scene) -> None:
    """Alice submits one like it, from Slack"""
    slack, record = scene.slack, scene.record
    help_ = scene.type("help", ALICE)
    _, seconds = scene.after(help_, "help", lambda: scene.private(ALICE, "/trainyard submit"))
    record.took("/trainyard help is answered, to her alone", seconds)
    typed = scene.type("submit ddp-demo", ALICE)
    view, seconds = scene.after(typed, "a form", lambda: next(iter(_views(scene)), None))
    record.took("/trainyard submit ddp-demo opens a form that the run filled in", seconds,
                FORM_SECONDS)  # fmt: skip
    changes = {"name": "story", "hours": "1.5", "arguments": "--steps 300 --step-seconds 0.1"}
    sent = partial(slack.submit, view, _values(view, changes), user=ALICE)
    page, seconds = scene.after(sent, "a price", lambda: scene.private(ALICE, "Submit story?"))
    record.took("the form is sent; the price and a dry run's warnings are there", seconds)
    _is_said(text_of(page), "USD an hour", "It would wait for people", "Nothing is done yet.")
    clicked = scene.click(page, "Submit the run", ALICE)
    words = "story is submitted"
    told, seconds = scene.after(clicked, "the run", lambda: scene.private(ALICE, words))
    record.took("she clicks; the run is submitted, and waits for people", seconds)
    found = _RUN_ID.search(text_of(told))
    if found is None:
        raise Untrue("the answer names no run")
    scene.run = found[0]


def _views(scene: Scene) -> list[Json]:
    return list(scene.slack.workspace.views.values())


def _values(view: Json, changes: dict[str, str]) -> Json:
    """The form's state, as Slack sends it."""
    inputs = [block for block in view["blocks"] if block["type"] == "input"]
    unknown = set(changes) - {block["block_id"] for block in inputs}
    if unknown:
        raise Untrue(f"the form has no fields {sorted(unknown)}")
    return {
        block["block_id"]: {
            block["element"]["action_id"]: {
                "type": block["element"]["type"],
                "value": changes.get(block["block_id"], block["element"].get("initial_value")),
            }
        }
        for block in inputs
    }


def _approved(scene: Scene) -> None:
    """Bob approves it, and Alice cannot"""
    record, words = scene.record, "story waits for an approval"
    asked, seconds = scene.until("an approval", lambda: scene.reply(words))
    record.took("the run's thread asks for one, with buttons", seconds, WITHIN_SECONDS)
    scene.page.goto(f"{scene.origin}/runs/{scene.run}")
    scene.page.locator("main header .status").wait_for()
    scene.record.picture(scene.page, "1-waits-for-people")
    hers, words = scene.click(asked, "Approve", ALICE), "You may not do that"
    _, seconds = scene.after(hers, "a refusal", lambda: scene.private(ALICE, words))
    record.took("Alice clicks Approve and is refused: she asked for it", seconds)
    his = scene.click(asked, "Approve", BOB)
    _, seconds = scene.after(his, "bob's word", lambda: scene.reply("Approved by bob"))
    record.took("Bob clicks Approve; the reply says so to all", seconds, WITHIN_SECONDS)


def _trains(scene: Scene) -> None:
    """It trains, and is watched in Chromium"""
    api, record = scene.cloud.api, scene.record
    _, seconds = scene.until("a first step", lambda: _first_step(scene), 0.25)
    record.took("a cluster is made for it, and its first step is done", seconds)
    status = scene.page.locator("main header .status")
    _, seconds = scene.until("on the page", lambda: status.inner_text() == "Running")
    record.took("the page says Running", seconds, WITHIN_SECONDS)
    _, seconds = scene.until("in Slack", lambda: _parent(scene, "story: Running"))
    record.took("the message in Slack says Running", seconds, WITHIN_SECONDS)
    _, seconds = scene.until("checkpoints", lambda: _whole(scene) >= CHECKPOINTS, 0.25)
    record.took(f"{len(api.checkpoints(scene.run))} checkpoints are whole and verified", seconds)
    record.picture(scene.page, "2-trains")


def _first_step(scene: Scene) -> bool:
    current = attempt(scene.cloud.api.run(scene.run), 1)
    return bool(current and current["firstStepAt"] and current["nodes"])


def _whole(scene: Scene) -> int:
    found = scene.cloud.api.checkpoints(scene.run)
    return sum(one["status"] == "whole" for one in found)


def _parent(scene: Scene, words: str) -> Json | None:
    parents = [one for one in scene.messages() if "thread_ts" not in one]
    return next((one for one in parents if words in text_of(one)), None)


def _loses_a_node(scene: Scene) -> None:
    """A node is killed in the middle of training"""
    api, record = scene.cloud.api, scene.record
    run = api.run(scene.run)
    current = attempt(run, 1)
    assert current is not None
    name = current["nodes"][-1]
    node = str(node_of(api, run["clusterName"], name)["instanceId"])
    row = scene.page.locator("main tr").filter(has_text="node-lost").filter(has_text=name)
    began = time.monotonic()
    scene.cloud.fault("kill-node", run["clusterName"], node=node)
    record.say(f"             {name} ({node}): SIGKILL of everything on it")
    seen: dict[str, float] = {}

    def both() -> bool:
        if "thread" not in seen and scene.reply(f"Node {name} is lost"):
            seen["thread"] = time.monotonic() - began
        if "page" not in seen and row.count():
            seen["page"] = time.monotonic() - began
        return len(seen) == 2

    scene.until("the reason in the thread and on the page", both, 0.02)
    record.picture(scene.page, "3-a-node-is-lost")
    record.took("the thread in Slack says why", seen["thread"], WITHIN_SECONDS)
    record.took("the page in Chromium says why", seen["page"], WITHIN_SECONDS)
    _, seconds = scene.until("training again", lambda: scene.reply("trained on after"))
    record.took("training goes on, and the thread says after how long", seconds)
    _, seconds = scene.until("on the page", lambda: "not yet" not in row.inner_text())
    record.took("so does the page", seconds)
    record.picture(scene.page, "4-trains-again")


def _ends(scene: Scene) -> None:
    """It ends, and its bill is in the thread"""
    api, record = scene.cloud.api, scene.record
    _, seconds = scene.until("its end", lambda: _over(scene), 0.25)
    record.took("everything is trained and exported, and the cluster is deleted", seconds)
    end, seconds = scene.until("the bill", lambda: scene.reply("story succeeded"))
    record.took("the bill is in the thread by then", seconds, WITHIN_SECONDS)
    status = scene.page.locator("main header .status")
    _, seconds = scene.until("on the page", lambda: status.inner_text() == "Succeeded")
    record.took("the page says Succeeded", seconds)
    record.picture(scene.page, "5-the-end")
    said, cost = text_of(end), api.run_cost(scene.run)
    # A node that is killed right after a checkpoint costs no step, so none may be done again.
    _is_said(said, "Cost: ", "Useful: ", "Waste: ", "restart")
    for line in cost["ledger"]:
        _is_said(said, line["cause"], f"{line['seconds']:,.1f} s", f"{line['usd']:.4f} USD")
    whole = sum(line["usd"] for line in cost["ledger"])
    if abs(whole - cost["usd"]) > 0.0001:
        raise Untrue(f"the ledger's lines are {whole} USD, and the bill is {cost['usd']} USD")
    record.say(f"             its {len(cost['ledger'])} lines add up to the API's {whole:.4f} USD")
    name = api.run(scene.run)["clusterName"]
    if not scene.cloud.cluster_is_gone(name):
        raise Untrue(f"SageMaker still knows the cluster {name}")
    record.say("             SageMaker knows no such cluster any more")


def _over(scene: Scene) -> bool:
    """Raises Untrue for an end without success."""
    status = scene.cloud.api.run(scene.run)["status"]
    if status in ("Failed", "Cancelled"):
        raise Untrue(f"the run is {status}")
    return bool(status == "Succeeded")


def _is_said(text: str, *wanted: str) -> None:
    """Raises Untrue."""
    missing = [one for one in wanted if one not in text]
    if missing:
        raise Untrue(f"Slack does not say {', '.join(map(repr, missing))}, but:\n{text}")


ACTS = (_earlier, _submitted, _approved, _trains, _loses_a_node, _ends)

if __name__ == "__main__":
    sys.exit(main())
