"""The web console in Chromium: its pages, with answers that the API's own classes made."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.support.console_browser import CHROMIUM, chromium, known, picture, served
from tests.support.console_scene import (
    ENDED,
    RUN,
    SCRIPT,
    Scene,
    a_run_of_two,
    at,
    many_events,
    series,
    shown,
)
from tests.support.repository import ROOT

from trainyard.http import metrics_views
from trainyard_cli.console.server import Console
from trainyard_sdk.connection import Connection
from trainyard_sdk.progress import bytes_text

AXE = ROOT / "build/axe/axe.min.js"
PICTURES = ROOT / "build/console"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make setup-trainers")
LOCAL = {
    "endpoint": "http://127.0.0.1:9",
    "apiUrl": "http://127.0.0.1:9",
    "region": "us-east-1",
    "accessKeyId": "AKIDLOCAL",
    "secretAccessKey": "secret",
}
LOOKS: tuple[tuple[Literal["light", "dark"], int], ...] = (
    ("light", 1440),
    ("dark", 360),
    ("light", 3840),
)
JUDGE = (
    "(place) => axe.run(place).then((all) => all.violations.map((one) => [one.id,"
    " one.nodes[0].html.slice(0, 200)]))"
)
#: Each question before a change: where its button is, and what it says.
QUESTIONS = (
    (f"/runs/{RUN}", "Cancel"),
    (f"/runs/{RUN}", "Export"),
    (f"/runs/{ENDED}", "Resume"),
    ("/clusters/demo-1", "Delete"),
    ("/clusters/demo-1", "Replace ip-10-0-0-1"),
    ("/approvals", f"Approve run/{RUN}"),
    ("/approvals", f"Deny run/{RUN}"),
)
#: Charts take another width in the frame after the window has it.
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
OF_A_RUN = ("overview", "timeline", "logs", "checkpoints", "cost", "outputs", "spec")
VIEWS = (
    "/runs",
    *(f"/runs/{RUN}?tab={tab}" for tab in OF_A_RUN),
    "/clusters",
    "/clusters/demo-1",
    "/clusters/demo-2",
    "/approvals",
    "/cost",
    "/audit",
    "/submit",
    f"/submit?run={RUN}",
    f"/compare?run={RUN}&run={ENDED}",
)


class Opened:
    """A page of the console, what it was answered and what went wrong in it."""

    def __init__(self, server: Console, scene: Scene, context: BrowserContext) -> None:
        self.server, self.scene = server, scene
        self.page: Page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type == "error" else None
        )

    def at(self, path: str) -> Page:
        self.page.goto(self.server.ours.origin + path)
        expect(self.page.locator("h1")).to_be_visible()
        expect(self.page.get_by_text("Loading …")).to_have_count(0)
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    expect.set_options(timeout=60_000)
    with chromium() as found:
        yield found


@contextmanager
def opened(browser: Any) -> Iterator[Opened]:
    scene = Scene()
    connection = Connection(LOCAL["apiUrl"], "us-east-1", LOCAL)
    with served(connection, scene.transport()) as server:
        context = known(server, browser)
        context.set_default_timeout(60_000)
        yield Opened(server, scene, context)
        context.close()


@pytest.fixture
def console(browser: Any) -> Iterator[Opened]:
    with opened(browser) as found:
        yield found


@dataclass
class Looked:
    """What a view was like."""

    title: str
    foreign: int
    violations: dict[str, Any] = field(default_factory=dict)
    over: dict[int, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def looks(browser: Any) -> Iterator[tuple[dict[str, Looked], list[str]]]:
    """Each view, looked at once; and the errors in the pages."""
    with opened(browser) as console:
        yield {path: looked(console, path) for path in VIEWS}, console.wrong


def looked(console: Opened, path: str) -> Looked:
    return judged(console.at(path))


def judged(page: Page, place: str = "html", looks: Any = LOOKS) -> Looked:
    foreign = page.locator("#app script, #app img[src=x], #app [onerror]").count()
    found = Looked(page.title(), foreign)
    if AXE.exists():
        # The policy of the page lets no script in; the debugger's may come.
        session = page.context.new_cdp_session(page)
        session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    for scheme, width in looks:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(DRAWN)
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        found.over[width] = max(over, found.over.get(width, 0))
        if AXE.exists() and width < 3000:
            found.violations[f"{scheme}, {width}"] = page.evaluate(JUDGE, place)
    return found


def test_the_link_of_the_terminal_opens_the_runs(browser: Any, console: Opened) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(console.server.link)
    expect(page.get_by_role("link", name="llm-pretrain")).to_be_visible()
    assert "token" not in page.url
    context.close()


def test_texts_of_jobs_are_text_in_every_view(
    looks: tuple[dict[str, Looked], list[str]],
) -> None:
    found, wrong = looks
    assert [path for path, one in found.items() if one.title == "stolen" or one.foreign] == []
    assert wrong == []


def test_no_view_is_wider_than_its_window_from_360_pixels_to_4k(
    looks: tuple[dict[str, Looked], list[str]],
) -> None:
    assert {path: one.over for path, one in looks[0].items() if any(one.over.values())} == {}


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: make setup-trainers")
def test_axe_finds_nothing_in_any_view_light_or_dark_wide_or_narrow(
    looks: tuple[dict[str, Looked], list[str]],
) -> None:
    assert all(len(one.violations) == 2 for one in looks[0].values())
    found = {path: one.violations for path, one in looks[0].items() if any(one.violations.values())}
    assert found == {}


@pytest.fixture(scope="module")
def questions(browser: Any) -> Iterator[dict[str, Looked]]:
    """Each question, looked at once; Escape answers it with no, and its button has the focus."""
    with opened(browser) as console:
        found = {}
        for path, name in QUESTIONS:
            page = console.page if path in console.page.url else console.at(path)
            button = page.get_by_role("button", name=name, exact=True)
            button.focus()
            page.keyboard.press("Enter")
            expect(page.get_by_role("button", name="Back")).to_be_focused()
            expect(page.get_by_text("Asking what it would mean")).to_have_count(0)
            page.get_by_text("The same in a terminal").click()
            expect(page.get_by_label("curl", exact=True)).to_be_visible()
            found[f"{path} {name}"] = judged(page, "dialog", LOOKS[:2])
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
            expect(button).to_be_focused()
        assert [one for one in console.scene.requests if one.method != "GET"] == []
        assert console.wrong == []
        yield found


def test_questions_show_texts_as_text_and_fit_into_360_pixels(
    questions: dict[str, Looked],
) -> None:
    assert len(questions) == len(QUESTIONS)
    assert not [one for one in questions.values() if one.title == "stolen" or one.foreign]
    assert {path: one.over for path, one in questions.items() if any(one.over.values())} == {}


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: make setup-trainers")
def test_axe_finds_nothing_in_any_question(questions: dict[str, Looked]) -> None:
    found = {path: one.violations for path, one in questions.items()}
    assert all(len(one) == 2 for one in found.values())
    assert {path: one for path, one in found.items() if any(one.values())} == {}


def changes(console: Opened) -> list[httpx.Request]:
    return [one for one in console.scene.requests if one.method != "GET"]


def test_a_run_is_cancelled_by_the_keyboard_with_its_reason(console: Opened) -> None:
    console.scene.answers[f"POST /v1/runs/{RUN}:cancel"] = httpx.Response(202, json={"id": RUN})
    page = console.at(f"/runs/{RUN}")
    page.get_by_role("button", name="Cancel", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("newest whole checkpoint is of step 120")
    expect(page.get_by_role("dialog")).to_contain_text("Cluster demo-1 stays")
    page.get_by_label("Why").focus()
    page.keyboard.type("it's wrong & done")
    page.get_by_text("The same in a terminal").click()
    line = f"trainyard run cancel {RUN} --yes --reason 'it'\\''s wrong & done'"
    expect(page.get_by_label("Command", exact=True)).to_have_text(line)
    curl = page.get_by_label("curl", exact=True)
    expect(curl).to_contain_text(f"{LOCAL['apiUrl']}/v1/runs/{RUN}:cancel?reason=it%27s%20wrong")
    page.get_by_role("button", name="Cancel the run").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".said")).to_contain_text(f"Cancelling llm-pretrain ({RUN})")
    (asked,) = changes(console)
    assert asked.url.params["reason"] == "it's wrong & done"
    assert len(asked.headers["idempotency-key"]) == 36


def test_a_double_click_changes_once(console: Opened) -> None:
    path = "/v1/clusters/demo-1/nodes/i-00000000000000001:reboot"
    body = {"successful": ["i-00000000000000001"], "failed": {}}
    console.scene.answers[f"POST {path}"] = httpx.Response(202, json=body)
    page = console.at("/clusters/demo-1")
    page.get_by_role("button", name="Reboot ip-10-0-0-1", exact=True).click()
    page.get_by_role("button", name="Reboot the node").dblclick()
    expect(page.locator(".said")).to_contain_text("Rebooting ip-10-0-0-1")
    assert len(changes(console)) == 1


def test_what_the_api_refuses_is_said_in_its_words_and_may_be_asked_anew(console: Opened) -> None:
    problem = {"title": "The cluster is in use", "detail": SCRIPT, "status": 409}
    path = "DELETE /v1/clusters/demo-1"
    console.scene.answers[path] = httpx.Response(409, json=problem)
    page = console.at("/clusters/demo-1")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete the cluster").click()
    refused = page.get_by_role("dialog").get_by_role("alert")
    expect(refused).to_contain_text("The cluster is in use")
    expect(refused).to_contain_text(SCRIPT)
    console.scene.answers[path] = httpx.Response(202, json={"name": "demo-1"})
    page.get_by_label("Also with people's jobs").check()
    page.get_by_role("button", name="Delete the cluster").click()
    expect(page.locator(".said")).to_contain_text("Deleting demo-1")
    first, second = changes(console)
    assert [one.url.params.get("force") for one in (first, second)] == [None, "true"]
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


def test_what_the_backend_refuses_of_a_node_is_said(console: Opened) -> None:
    path = "/v1/clusters/demo-1/nodes/i-00000000000000001:replace"
    body = {"successful": [], "failed": {"i-00000000000000001": "it is being replaced"}}
    console.scene.answers[f"POST {path}"] = httpx.Response(202, json=body)
    page = console.at("/clusters/demo-1")
    page.get_by_role("button", name="Replace ip-10-0-0-1", exact=True).click()
    page.get_by_role("button", name="Replace the node").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("being replaced")


def test_a_resume_is_of_the_state_that_was_seen(console: Opened) -> None:
    path = f"/v1/runs/{ENDED}"
    console.scene.answers[f"POST {path}:resume"] = httpx.Response(202, json={"id": ENDED})
    page = console.at(f"/runs/{ENDED}")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("the checkpoint of step 120")
    with page.expect_response(lambda one: one.url.endswith(path)):
        page.get_by_role("button", name="Resume the run").click()
    (asked,) = changes(console)
    assert asked.headers["if-match"].startswith('"1-')


def test_an_approval_shows_who_asked_the_price_and_the_words_so_far(console: Opened) -> None:
    one = console.scene.answers["GET /v1/approvals"].approvals[0]
    console.scene.answers[f"POST /v1/approvals/{one.id}:approve"] = one
    page = console.at("/approvals")
    row = page.locator("main tbody tr").first
    for words in ("pending", "ann", "$812.50", "1 of 2", "bob", SCRIPT):
        expect(row).to_contain_text(words)
    page.get_by_role("button", name=f"Approve run/{RUN}").click()
    expect(page.get_by_role("dialog")).to_contain_text("With your word the run begins by itself")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".said")).to_contain_text(f"Approved: run/{RUN}")
    assert changes(console)[0].url.path.endswith(":approve")


def specified(console: Opened, text: str) -> Page:
    page = console.at("/submit")
    page.get_by_label("Spec, in YAML or JSON").fill(text)
    return page


def test_a_spec_is_checked_with_its_price_before_it_is_submitted_once(console: Opened) -> None:
    page = specified(console, "name: mine\ncluster: {name: c}\njob: {nodes: 2, script: a.py}\n")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    page.get_by_role("button", name="Check").click()
    planned = page.get_by_role("region", name="What it would do")
    for words in ("$44.28 an hour", "$22.14", "$177.12", SCRIPT):
        expect(planned).to_contain_text(words)
    page.get_by_role("button", name="Submit").click()
    question = page.get_by_role("dialog", name="Submit mine?")
    expect(question).to_contain_text("at most $177.12")
    page.get_by_text("The same in a terminal").click()
    command = page.get_by_label("Command", exact=True)
    expect(command).to_contain_text("trainyard run submit - --idempotency-key ")
    expect(command).to_contain_text("<<'END'")
    said = command.inner_text()
    page.get_by_role("button", name="Submit the run").dblclick()
    expect(page.get_by_role("heading", name="llm-pretrain")).to_be_visible()
    expect(page.locator(".said")).to_contain_text(f"Submitted {RUN}")
    dry, real = changes(console)
    assert (dry.url.query, real.url.query) == (b"dryrun=true", b"")
    assert "idempotency-key" not in dry.headers
    assert f"--idempotency-key {real.headers['idempotency-key']} <<" in said
    wanted = {"name": "mine", "cluster": {"name": "c"}, "job": {"nodes": 2, "script": "a.py"}}
    assert json.loads(dry.content) == json.loads(real.content) == wanted


def test_a_text_that_was_changed_is_checked_again_first(console: Opened) -> None:
    page = specified(console, "name: mine\njob: {nodes: 2}\n")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("button", name="Submit")).to_be_enabled()
    page.get_by_label("Spec, in YAML or JSON").fill("name: mine\njob: {nodes: 3}\n")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    expect(page.get_by_role("region", name="What it would do")).to_have_count(0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: wrong\njob: {nodes: 0}\n", ["The spec is not valid", "job.nodes", SCRIPT]),
        ("name: a\nname: b\n", ["The spec is not YAML", "stands twice", "line 2"]),
        ("job: {workdir: ./here}\n", ["The console uploads no directory", "job.workdir"]),
    ],
)
def test_what_is_wrong_with_a_spec_is_said_by_field(
    console: Opened, text: str, words: list[str]
) -> None:
    page = specified(console, text)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_be_visible()
    for one in words:
        expect(page.locator("main")).to_contain_text(one)
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()


def test_a_rerun_begins_with_the_spec_and_the_labels_of_now(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}")
    page.get_by_role("link", name="Rerun").click()
    expect(page.get_by_role("heading", name="Submit a run")).to_be_focused()
    given = json.loads(page.get_by_label("Spec, in YAML or JSON").input_value())
    run = console.scene.answers[f"GET /v1/runs/{RUN}"]
    assert given == {**json.loads(run.model_dump_json(by_alias=True))["spec"], "labels": run.labels}


def test_a_log_and_a_reason_show_their_markup(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}?tab=logs")
    expect(page.get_by_role("log")).to_contain_text(SCRIPT)
    page = console.at(f"/runs/{ENDED}")
    expect(page.locator("main .trouble")).to_contain_text(SCRIPT)


def test_a_link_of_an_output_leads_to_the_web_or_is_none(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}?tab=outputs")
    found = page.locator("main table a")
    expect(found).to_have_count(1)
    assert str(found.get_attribute("href")).startswith("https://bucket.s3.amazonaws.com/")


def test_a_fault_and_its_reason_come_to_the_page_by_themselves(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}")
    changed = a_run_of_two(
        status="Recovering", reason="Node ip-10-0-0-13 is lost", updated_at=at(4000)
    )
    console.scene.answers[f"GET /v1/runs/{RUN}"] = shown(changed)
    expect(page.locator("main .lead")).to_have_text("Node ip-10-0-0-13 is lost")
    expect(page.locator("main header .status")).to_have_text("Recovering")


def test_what_a_run_cost_in_the_end_is_read_after_its_end(console: Opened) -> None:
    """Though its cost was read a moment before."""
    page = console.at(f"/runs/{RUN}?tab=cost")
    expect(page.get_by_text("So far", exact=True)).to_be_visible()
    final = console.scene.answers[f"GET /v1/runs/{RUN}/cost"].model_copy(
        update={"usd": 99.5, "final": True}
    )
    ended = a_run_of_two(status="Cancelled", outcome="cancelled", finished_at=at(4000))
    console.scene.answers[f"GET /v1/runs/{RUN}/cost"] = final
    console.scene.answers[f"GET /v1/runs/{RUN}"] = shown(ended)
    expect(page.locator("main header .status")).to_have_text("Cancelled")
    expect(page.locator("main .facts").last).to_contain_text("$99.50")
    expect(page.get_by_text("So far", exact=True)).to_have_count(0)


def test_the_page_says_who_one_is(console: Opened) -> None:
    page = console.at("/runs")
    expect(page.locator(".connection")).to_have_text("ann · local cloud")


def test_a_refusal_says_what_to_do_next(console: Opened) -> None:
    problem = {"title": "You may not do that", "detail": "ann asked for this", "status": 403}
    one = console.scene.answers["GET /v1/approvals"].approvals[0]
    console.scene.answers[f"POST /v1/approvals/{one.id}:approve"] = httpx.Response(
        403, json={**problem, "nextStep": "Ask another approver."}
    )
    page = console.at("/approvals")
    page.get_by_role("button", name=f"Approve run/{RUN}").click()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Ask another approver.")


def test_a_run_that_waits_for_people_leads_to_them_and_back(console: Opened) -> None:
    waiting = a_run_of_two(status="Waiting", reason="It waits for approval apr-1. It may cost.")
    console.scene.answers[f"GET /v1/runs/{RUN}"] = shown(waiting)
    page = console.at(f"/runs/{RUN}")
    page.get_by_role("link", name="What waits for people").click()
    expect(page.get_by_role("heading", name="Approvals")).to_be_visible()
    page.get_by_role("link", name="llm-pretrain").click()
    expect(page.get_by_role("heading", name="llm-pretrain")).to_be_visible()


def test_who_approves_sees_the_buttons_in_a_narrow_window(console: Opened) -> None:
    console.page.set_viewport_size({"width": 360, "height": 780})
    page = console.at("/approvals")
    for verb in ("Approve", "Deny"):
        expect(page.get_by_role("button", name=f"{verb} run/{RUN}")).to_be_in_viewport(ratio=1)


def test_sizes_are_written_as_the_command_line_writes_them(console: Opened) -> None:
    sizes = [0, 1, 1023, 1024, 1536, 10**6, 2**20, 2**30 - 1, 2**30, 5 * 2**40, 3 * 2**50]
    page = console.at("/runs")
    written = page.evaluate(
        "(sizes) => import('/static/format.js').then((m) => sizes.map(m.bytes))", sizes
    )
    assert written == [bytes_text(size) for size in sizes]


def test_a_line_goes_on_where_only_another_run_has_a_value(console: Opened) -> None:
    page = console.at("/runs")
    smooth = "import('/static/chart.js').then((m) => m.smoothed([4, undefined, 2, null, 1], 0.5))"
    found = page.evaluate(f"{smooth}.then((all) => all.map((one) => one === undefined ? '' : one))")
    assert found == [4, "", pytest.approx(8 / 3), None, pytest.approx(12 / 7)]


def test_the_axis_of_a_short_run_tells_its_moments_apart(console: Opened) -> None:
    page = console.at("/runs")
    said = page.evaluate(
        "import('/static/chart.js').then((m) => m.moments(null, [1e9, 1e9 + 10, 1e9 + 20]))"
    )
    assert said == ["01:46:40", "01:46:50", "01:47:00"]


def test_a_clock_that_is_behind_asks_for_the_whole_curve_and_shows_no_future(
    console: Opened,
) -> None:
    """As far behind as AWS still takes a signature; the run is four minutes old."""
    console.page.clock.set_system_time(at(240 - 299))
    page = console.at(f"/runs/{RUN}")
    (asked,) = [one for one in console.scene.requests if one.url.path.endswith("/metrics")]
    assert int(asked.url.params["sinceSeconds"]) >= 240
    expect(page.locator("main header")).to_contain_text("submitted now")


def test_a_timeline_of_ten_thousand_entries_is_shown_while_it_is_read(console: Opened) -> None:
    """The run is there at once, whatever it went through; old entries come when one asks."""
    going_on = threading.Event()

    def hundred(request: httpx.Request) -> Any:
        begin = int(request.url.params.get("nextToken") or 0)
        if begin >= 200:
            assert going_on.wait(60)
        return many_events(begin, begin + 100, most=10_000)

    console.scene.answers[f"GET /v1/runs/{RUN}/events"] = hundred
    page = console.page
    page.goto(f"{console.server.ours.origin}/runs/{RUN}?tab=timeline")
    expect(page.locator("main header .status")).to_have_text("Running")
    expect(page.get_by_text("200 of 200, newest first")).to_be_visible()
    expect(page.locator(".timeline li").first).to_contain_text("Entry 199")
    going_on.set()
    expect(page.get_by_text("10000 of 10000, newest first")).to_be_visible()
    expect(page.locator(".timeline li")).to_have_count(200)
    expect(page.locator(".timeline li").first).to_contain_text("Entry 9999")
    page.get_by_role("button", name="Older entries").click()
    expect(page.locator(".timeline li")).to_have_count(700)
    assert console.wrong == []


def test_another_number_that_the_program_reports_is_chosen_and_its_name_is_text(
    console: Opened,
) -> None:
    page = console.at(f"/runs/{RUN}")
    expect(page.get_by_role("img", name="Loss: ")).to_be_visible()
    page.get_by_role("combobox", name="Shows").select_option("accuracy")
    expect(page.get_by_role("img", name="accuracy: ")).to_be_visible()
    assert page.url.endswith("?name=accuracy")
    page.get_by_role("combobox", name="Shows").select_option(SCRIPT)
    expect(page.get_by_text("The program reported no")).to_contain_text(SCRIPT)
    page.get_by_role("combobox", name="Shows").select_option("loss")
    expect(page.get_by_role("img", name="Loss: ")).to_be_visible()
    assert page.url.endswith(RUN)


def test_a_run_of_an_older_version_has_the_curve_of_its_samples(console: Opened) -> None:
    def without(request: httpx.Request) -> metrics_views.MetricsView:
        found = series(request)
        return metrics_views.MetricsView.made(**vars(found) | {"points": [], "names": []})

    console.scene.answers[f"GET /v1/runs/{RUN}/metrics"] = without
    page = console.at(f"/runs/{RUN}")
    expect(page.get_by_role("img", name="Loss: ")).to_be_visible()
    expect(page.get_by_role("combobox", name="Shows")).to_have_count(0)


def test_a_console_that_is_gone_says_how_to_start_it_again_for_this_page(console: Opened) -> None:
    page = console.at("/runs")
    page.route("**/v1/**", lambda route: route.abort())
    said = page.locator("main").get_by_role("alert")
    expect(said).to_contain_text(f"trainyard console --port {console.server.server_port}.")
    page.unroute("**/v1/**")
    expect(page.get_by_role("alert")).to_have_count(0)


PROBLEM = {"title": "Something failed", "detail": "the ledger cannot be read", "status": 500}


@pytest.mark.parametrize("part", ["cost", "metrics", "events"])
def test_a_part_that_fails_is_said_and_the_rest_of_the_run_is_shown(
    console: Opened, part: str
) -> None:
    path = f"GET /v1/runs/{RUN}/{part}"
    good = console.scene.answers[path]
    console.scene.answers[path] = httpx.Response(500, json=PROBLEM)
    page = console.page
    page.goto(f"{console.server.ours.origin}/runs/{RUN}")
    expect(page.get_by_role("heading", name="llm-pretrain")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("the ledger cannot be read")
    console.scene.answers[path] = good
    page.reload()
    expect(page.get_by_role("heading", name="llm-pretrain")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_run_that_goes_while_its_page_is_open_is_said_to_be_gone(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}")
    expect(page.get_by_role("alert")).to_have_count(0)
    gone = {"title": "Not found", "detail": f"There is no run {RUN}.", "status": 404}
    console.scene.answers[f"GET /v1/runs/{RUN}"] = httpx.Response(404, json=gone)
    expect(page.locator("main").get_by_role("alert")).to_contain_text(f"There is no run {RUN}.")


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("path", ["/runs", f"/runs/{RUN}"])
def test_a_page_goes_on_by_itself_after_a_new_login(
    console: Opened, status: int, path: str
) -> None:
    page = console.at(path)
    call = f"GET /v1{path}"
    good = console.scene.answers[call]
    words = "The security token included in the request is expired"
    console.scene.answers[call] = httpx.Response(status, json={"message": words})
    expect(page.locator("main").get_by_role("alert")).to_contain_text(words)
    console.scene.answers[call] = good
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_run_that_does_not_change_is_asked_for_with_its_etag(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}")
    path = f"/v1/runs/{RUN}"
    with page.expect_response(lambda one: one.url.endswith(path) and one.status == 304):
        pass
    asked = [one for one in console.scene.requests if one.url.path == path]
    assert asked[-1].headers["if-none-match"]


def test_filters_are_in_the_address_and_go_to_the_api(console: Opened) -> None:
    page = console.at("/runs")
    with page.expect_response(lambda one: "status=Failed" in one.url):
        page.get_by_label("Status").select_option("Failed")
    assert page.url.endswith("/runs?status=Failed")
    page = console.at("/runs?status=Failed")
    expect(page.get_by_label("Status")).to_have_value("Failed")


def test_two_chosen_runs_are_compared(console: Opened) -> None:
    page = console.at("/runs")
    page.get_by_label("Compare llm-pretrain").check()
    page.get_by_label("Compare bert-finetune").check()
    page.get_by_role("link", name="Compare 2 runs").click()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    expect(page.locator("main tbody tr").first).to_contain_text("llm-pretrain")


def test_the_keyboard_reaches_a_run_and_its_parts(console: Opened) -> None:
    page = console.at("/runs")
    link = page.get_by_role("link", name="llm-pretrain")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="llm-pretrain")).to_be_focused()
    page.get_by_role("link", name="Checkpoints").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("resumes here")).to_be_visible()


def test_a_curve_is_there_as_a_table_too(console: Opened) -> None:
    page = console.at(f"/runs/{RUN}")
    page.get_by_role("button", name="Table").first.click()
    expect(page.get_by_role("region", name="Loss as a table")).to_be_visible()


def test_a_refusal_of_the_api_is_shown_in_its_words(console: Opened) -> None:
    problem = {"title": "Not allowed", "detail": "Your role is viewer", "status": 403}
    console.scene.answers["GET /v1/audit"] = httpx.Response(403, json=problem)
    page = console.at("/audit")
    expect(page.get_by_role("alert")).to_contain_text("Your role is viewer")


def test_pictures_for_the_docs(console: Opened) -> None:
    """They lie in build/console; docs/use/pictures has the one of the run."""
    console.scene.words = "loss is not a number"
    console.page.clock.set_system_time(at(3800))
    console.page.set_viewport_size({"width": 1280, "height": 860})
    places = {"runs": "/runs", "run": f"/runs/{RUN}", "cluster": "/clusters/demo-1"}
    for name, path in {**places, "approvals": "/approvals"}.items():
        place = PICTURES / f"console-{name}.webp"
        picture(console.at(path), place)
        assert place.stat().st_size > 10_000
