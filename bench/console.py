"""How fast the console is: `python -m bench.console` prints the table of docs/use/console.md.

In Chromium, on a local cloud with a run that trains: a killed node's reason on the page, the first
paint, 100,000 points of a curve, a grid of 2,000 nodes, and many tabs on one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
from bench.figures import machine, median, percentile, rounded
from demo.cloud import REPOSITORY, LocalCloud, local_cloud, node_of
from playwright.sync_api import Browser, Page, Route
from tests.support.console_browser import chromium, known, served
from tests.support.spec_parts import cluster_spec

from trainyard_cli.console.server import Console

CLUSTER = "bench"
NODES = 2_000
POINTS = 100_000
#: Requests of an HTTP API in us-east-1, without the function behind it.
USD_OF_A_MILLION = 1.0
#: A chart of that many points, drawn anew; the milliseconds of each until its pixels are there.
DRAWN = """async ([points, times]) => {
  const { h, render } = await import("preact");
  const { Chart } = await import("/static/chart.js");
  const place = document.createElement("div");
  document.body.append(place);
  const found = [];
  for (let round = 0; round < times; round += 1) {
    const x = Array.from({ length: points }, (_, index) => index);
    const values = x.map((one) => Math.exp(-one / 3e4) + Math.sin(one * (1.7 + round)) / 20);
    const began = performance.now();
    render(h(Chart, { title: "Loss", group: `g${round}`, key: round, x, byTime: false, log: false,
      weight: 0.6, bands: [], series: [{ label: "", hue: "--accent", values }] }), place);
    while (!place.querySelector("canvas")) await new Promise((done) => setTimeout(done));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    found.push(performance.now() - began);
    render(null, place);
  }
  place.remove();
  return found;
}"""
PAINT = """async () => {
  for (;;) {
    const [found] = performance.getEntriesByName("first-contentful-paint");
    if (found) return found.startTime;
    await new Promise((done) => setTimeout(done, 10));
  }
}"""
#: Frames of so many seconds, and the longest time without one.
FRAMES = """(seconds) => new Promise((done) => {
  const gaps = [];
  const began = performance.now();
  let last = began;
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    if (now - began < seconds * 1000) requestAnimationFrame(frame);
    else done(gaps.slice(1));
  };
  requestAnimationFrame(frame);
})"""


@dataclass(frozen=True)
class Call:
    """One call of the API: when, what, and how it went."""

    at: float
    target: str
    status: int
    milliseconds: float


class Timed(httpx.HTTPTransport):
    """Passes on, and keeps how long each call took and what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._lock = Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        began = time.perf_counter()
        answer = super().handle_request(request)
        answer.read()
        took = 1000 * (time.perf_counter() - began)
        # The local cloud's API has a path of its own before /v1.
        target = request.url.raw_path.decode()
        target = target[target.index("/v1/") :]
        with self._lock:
            self.calls.append(Call(began, target, answer.status_code, took))
        return answer


def spec() -> dict[str, Any]:
    """Two nodes; it trains until somebody ends it."""
    program = (REPOSITORY / "examples/programs/plain.py").read_text()
    return {
        "name": "bench",
        "cluster": {"name": CLUSTER},
        "job": {
            "nodes": 2,
            "script": "plain.py",
            "arguments": ["--steps", "100000000"],
            "files": {"plain.py": program},
        },
        "checkpoint": {"everySeconds": 1},
    }


def until(what: str, look: Callable[[], Any], seconds: float = 180) -> Any:
    """Raises TimeoutError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    raise TimeoutError(f"not in {seconds:.0f} s: {what}")


@contextmanager
def training(cloud: LocalCloud) -> Iterator[str]:
    """A run that has a whole checkpoint."""
    cloud.api.create_cluster(cluster_spec(CLUSTER, workers=2, spares=1))
    until("ready", lambda: cloud.api.cluster(CLUSTER)["status"] == "Ready")
    run = str(cloud.api.submit_run(spec())["id"])
    until("a checkpoint", lambda: cloud.api.checkpoints(run))
    yield run
    cloud.api.cancel_run(run)
    until("the end", lambda: cloud.api.run(run)["status"] == "Cancelled")


def first_paint(server: Console, browser: Browser, run: str, times: int) -> Iterator[float]:
    """Of the page of a run, each time with nothing kept."""
    for _ in range(times):
        context = known(server, browser)
        page = context.new_page()
        page.goto(f"{server.ours.origin}/runs/{run}")
        yield float(page.evaluate(PAINT))
        context.close()


def grid(page: Page, server: Console, cloud: LocalCloud) -> dict[str, Any]:
    """Frames while two thousand nodes change with each answer."""
    one = cloud.api.nodes(CLUSTER)[0]
    count = 0

    def answer(route: Route) -> None:
        nonlocal count
        count += 1
        found = [
            {**one, "instanceId": f"i-{number:017x}", "name": f"n-{number}",
             "scheduler": "idle" if (number + count) % 3 else "allocated"}
            for number in range(NODES)
        ]  # fmt: skip
        route.fulfill(json={"nodes": found, "nextToken": None})

    page.route("**/v1/clusters/*/nodes*", answer)
    page.goto(f"{server.ours.origin}/clusters/{CLUSTER}")
    page.get_by_role("img", name=f"{NODES} nodes").wait_for()
    gaps = [float(gap) for gap in page.evaluate(FRAMES, 15)]
    return {
        "answers": count,
        "framesPerSecond": rounded(1000 * len(gaps) / sum(gaps), 1),
        "longestGapMs": rounded(max(gaps), 0),
    }


def one_tab(page: Page, timed: Timed, url: str, seconds: int) -> list[tuple[float, str]]:
    """What a tab asks for once it is open: when, and what."""
    page.goto(url)
    page.locator("main .facts").wait_for()
    first, began = len(timed.calls), time.perf_counter()
    page.wait_for_timeout(1000 * seconds)
    return [(one.at - began, one.target) for one in timed.calls[first:]]


def asked_again(server: Console, calls: list[tuple[float, str]], later: float) -> None:
    """The calls of one tab, at their times, with the ETags that it was answered."""
    etags: dict[str, str] = {}
    began = time.perf_counter() + later
    ours = server.ours
    with httpx.Client(
        base_url=ours.origin, cookies={ours.cookie_name: ours.cookie}, trust_env=False, timeout=60
    ) as client:
        for at, target in calls:
            time.sleep(max(0.0, began + at - time.perf_counter()))
            seen = {"if-none-match": etags[target]} if target in etags else {}
            answer = client.get(target, headers=seen)
            if "etag" in answer.headers:
                etags[target] = answer.headers["etag"]


def tabs(
    page: Page, server: Console, timed: Timed, run: str, count: int, seconds: int
) -> dict[str, Any]:
    """The calls of one tab, made as so many would: as many windows would measure Chromium."""
    calls = one_tab(page, timed, f"{server.ours.origin}/runs/{run}", seconds)
    page.goto("about:blank")
    first = len(timed.calls)
    with ThreadPoolExecutor(count) as pool:
        for done in [
            pool.submit(asked_again, server, calls, 4 * number / count) for number in range(count)
        ]:
            done.result()
    found = timed.calls[first:]
    took = [one.milliseconds for one in found]
    a_day = round(86400 / seconds * len(calls))
    return {
        "tabs": count,
        "calls": len(found),
        "answered": dict(Counter(one.status for one in found)),
        "p50Ms": rounded(median(took), 0),
        "p99Ms": rounded(percentile(took, 99), 0),
        "callsOfATabInADay": a_day,
        "requestsOfATabInADayUsd": rounded(a_day / 1e6 * USD_OF_A_MILLION, 3),
    }


def reason(page: Page, server: Console, cloud: LocalCloud, run: str) -> float:
    """Seconds from the kill of a node to its words on the page."""
    page.goto(f"{server.ours.origin}/runs/{run}")
    page.locator("main header .status", has_text="Running").wait_for()
    name = cloud.api.run(run)["attempts"][-1]["nodes"][-1]
    node = str(node_of(cloud.api, CLUSTER, name)["instanceId"])
    at = cloud.fault("kill-node", CLUSTER, node=node, run=run)
    page.locator("main tr", has_text="node-lost").wait_for()
    return time.time() - at


def measure(cloud: LocalCloud, count: int, seconds: int) -> Iterator[tuple[str, Any]]:
    timed = Timed()
    with (
        training(cloud) as run,
        chromium() as browser,
        served(cloud.api.connection, timed) as server,
    ):
        yield "chromium", browser.version
        paints = list(first_paint(server, browser, run, 5))
        yield "firstPaintMs", {"median": rounded(median(paints), 0), "most": max(paints)}
        context = known(server, browser)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto(f"{server.ours.origin}/audit")
        drawn = [float(one) for one in page.evaluate(DRAWN, [POINTS, 7])]
        yield (
            f"{POINTS}PointsMs",
            {
                "first": rounded(drawn[0], 1),
                "median": rounded(median(drawn), 1),
            },
        )
        yield f"{NODES}Nodes", grid(page, server, cloud)
        page.unroute_all()
        yield "killToReasonSeconds", rounded(reason(page, server, cloud, run), 2)
        yield "oneRun", tabs(page, server, timed, run, count, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=60, help="for which the tabs are counted")
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/console")
    given = parser.parse_args()
    found: dict[str, Any] = {"machine": machine()}
    with local_cloud(given.state_dir, 0, {"HeartbeatSeconds": "2"}) as cloud:
        for name, value in measure(cloud, given.tabs, given.seconds):
            found[name] = value
            print(json.dumps({name: value}), flush=True)
    print(json.dumps(found["machine"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
