"""The console in Chromium on a local cloud: a run's whole story, told and steered from the page."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.support.console_browser import CHROMIUM, chromium, known, picture, served
from tests.support.repository import ROOT
from tests.support.system import Json, System

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make setup-trainers"),
]
PROGRAM = (ROOT / "examples/programs/plain.py").read_text()
PICTURES = ROOT / "build/console"


@pytest.fixture(scope="module")
def page(system: System) -> Iterator[Page]:
    with chromium() as browser, served(system.api.connection) as server:
        expect.set_options(timeout=120_000)
        context = known(server, browser)
        context.set_default_timeout(120_000)
        found = context.new_page()
        found.set_viewport_size({"width": 1280, "height": 860})
        found.goto(server.ours.origin + "/runs")
        yield found


def spec(cluster: str) -> Json:
    """Two nodes; it trains until somebody ends it."""
    return {
        "name": "watched",
        "cluster": {"name": cluster},
        "job": {
            "nodes": 2,
            "script": "plain.py",
            "arguments": ["--steps", "100000000"],
            "files": {"plain.py": PROGRAM},
        },
        "checkpoint": {"everySeconds": 1},
    }


def in_a_terminal(system: System, line: str) -> str:
    """What the page says that one should type, typed."""
    local = system.local
    environment = {
        **os.environ,
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
        "TRAINYARD_STATE_DIR": str(system.state_dir),
        "AWS_ACCESS_KEY_ID": local["accessKeyId"],
        "AWS_SECRET_ACCESS_KEY": local["secretAccessKey"],
        "AWS_SESSION_TOKEN": "",
    }
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def asked(page: Page, button: str) -> dict[str, str]:
    """The lines of the question behind the button, by their names; it stays open."""
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_text("Asking what it would mean")).to_have_count(0)
    page.get_by_text("The same in a terminal").click()
    expect(page.get_by_label("curl", exact=True)).to_be_visible()
    return {name: page.get_by_label(name, exact=True).inner_text() for name in ("Command", "curl")}


def test_a_run_is_submitted_watched_through_a_lost_node_and_cancelled(
    system: System, shared: str, page: Page
) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Spec, in YAML or JSON").fill(json.dumps(spec(shared), indent=2))
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("button", name="Submit the run").dblclick()
    expect(page.get_by_role("heading", name="watched", exact=True)).to_be_visible()
    run_id = page.url.rpartition("/")[2]
    assert [one["id"] for one in system.api.runs(at_most=50) if one["name"] == "watched"] == [
        run_id
    ]

    first = system.training(run_id, checkpoints=1, seconds=120)["attempts"][0]
    status = page.locator("main header .status")
    expect(status).to_have_text("Running")
    system.fault("kill-node", shared, run=run_id, node=first["nodes"][1])
    row = page.locator("main tr").filter(has_text="node-lost")
    expect(row).to_contain_text(first["nodes"][1])
    system.training(run_id, attempt=2, seconds=120)
    expect(row).not_to_contain_text("not yet")
    expect(status).to_have_text("Running")
    picture(page, PICTURES / "console-lost-node.webp")

    asked(page, "Cancel")
    picture(page, PICTURES / "console-question.webp")
    page.get_by_role("button", name="Cancel the run").dblclick()
    expect(page.locator(".said")).to_contain_text("Cancelling watched")
    expect(status).to_have_text("Cancelled")
    assert system.ended(run_id, "Cancelled")["attempts"][-1]["number"] == 2


def test_the_lines_of_a_question_do_in_a_terminal_what_its_button_does(
    system: System, shared: str, page: Page
) -> None:
    """Submitted by curl and, with the same key, by the command: one run, which that cancels."""
    page.goto(page.url.split("/runs")[0] + "/submit")
    page.get_by_label("Spec, in YAML or JSON").fill(json.dumps({**spec(shared), "name": "typed"}))
    page.get_by_role("button", name="Check").click()
    lines = asked(page, "Submit")
    run_id = json.loads(in_a_terminal(system, lines["curl"]))["id"]
    assert in_a_terminal(system, lines["Command"]).strip() == run_id
    page.keyboard.press("Escape")
    system.training(run_id, checkpoints=1, seconds=120)
    page.goto(page.url.replace("/submit", f"/runs/{run_id}"))
    in_a_terminal(system, asked(page, "Cancel")["Command"])
    page.keyboard.press("Escape")
    system.ended(run_id, "Cancelled")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
