"""`python -m demo.in_slack`: the demo's story as a channel of a local Slack shows it.

A run is submitted by the API, a node of it is killed, and the run's thread says why training
stopped, what was done and what it cost in the end. What happens each minute happens each two
seconds here.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from demo.cloud import REPOSITORY, LocalCloud
from demo.saboteur import Saboteur
from demo.slack_cloud import CHANNEL, slack_cloud
from demo.story import EXAMPLE
from trainyard_local.slack.server import LocalSlack, listening
from trainyard_local.slack.transcript import message_lines, transcript
from trainyard_local.slack.workspace import Workspace

PERSON = "U0456EFGH"
_LOOK_SECONDS = 2.0
#: What the channel must have shown in the end.
CLAIMS = (
    "Succeeded",
    "is lost",
    "another node is to take its place",
    "trained on after",
    "Cost: ",
    "Useful: ",
)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0 only if the thread says all that the demo claims."""
    parser = argparse.ArgumentParser(prog="python -m demo.in_slack", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/demo/slack")
    parser.add_argument("--timeout-seconds", type=float, default=420)
    arguments = parser.parse_args(argv)
    space = Workspace("xoxb-demo", "signing-secret-of-the-demo")
    space.add_channel(CHANNEL, "runs")
    state_dir = arguments.state_dir.resolve()
    with listening(space) as slack:
        print("Starting the local cloud and a local Slack ...", flush=True)
        with slack_cloud(state_dir, slack, {PERSON: "local"}) as cloud:
            _play(cloud, slack, time.monotonic() + arguments.timeout_seconds)
    shown = transcript(space, CHANNEL)
    print(f"\n{shown}\n")
    missing = [claim for claim in CLAIMS if claim not in shown]
    for claim in missing:
        print(f"not in the channel: {claim}")
    return 1 if missing else 0


def _play(cloud: LocalCloud, slack: LocalSlack, deadline: float) -> None:
    spec: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    run = cloud.api.submit_run(spec)
    print(f"POST /v1/runs: {run['id']} ({spec['name']})", flush=True)
    seen: set[str] = set()
    with _minutes(cloud), Saboteur(cloud, run["id"], tell=_say):
        while time.monotonic() < deadline and not _ended(slack):
            _show_new(slack, seen)
            time.sleep(0.5)
    _show_new(slack, seen)
    slack.command("cost latest", user=PERSON, channel=CHANNEL)
    while time.monotonic() < deadline and not _answers(slack):
        time.sleep(0.2)
    _say("/trainyard cost latest")
    for answer in _answers(slack):
        _say("\n".join(f"    {line}" for line in message_lines(answer)))


@contextmanager
def _minutes(cloud: LocalCloud) -> Iterator[None]:
    """What happens each minute, more often."""
    over = threading.Event()

    def pass_by() -> None:
        calls = cloud.aws("lambda")
        while not over.wait(_LOOK_SECONDS):
            for name in ("sweep", "slack-runs"):
                calls.invoke(FunctionName=f"trainyard-{name}", Payload=b"{}")

    thread = threading.Thread(target=pass_by, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=60)


def _replies(slack: LocalSlack) -> list[dict[str, Any]]:
    return [one for one in slack.workspace.of_channel(CHANNEL) if "thread_ts" in one]


def _answers(slack: LocalSlack) -> list[dict[str, Any]]:
    return [one for one in slack.workspace.of_channel(CHANNEL) if one.get("only") == PERSON]


def _ended(slack: LocalSlack) -> bool:
    return any("Cost: " in json.dumps(one) for one in _replies(slack))


def _show_new(slack: LocalSlack, seen: set[str]) -> None:
    """A line for each message or edit that changes what the channel says."""
    for one in slack.workspace.of_channel(CHANNEL):
        where = "reply  " if "thread_ts" in one else "message"
        line = f"#runs {where}: {one['text']}"
        if line not in seen and "only" not in one:
            seen.add(line)
            _say(line)


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
