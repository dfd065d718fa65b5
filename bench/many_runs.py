"""An array of 200 runs of one team beside 40 runs of another on ten nodes: `make bench-many`.

All must end, and none may be lost; the nodes are shared fairly by the label `team`, so the second
team, which comes last, does not wait for the array. Meanwhile it asks what people ask, and times
the sweep. Writes build/bench/many_runs.json; exits with 1 if a run did not succeed or was lost, or
if turns were not fair.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from bench.figures import machine, median, percentile, rounded
from demo.cloud import ON_FSX, REPOSITORY, Json, LocalCloud, local_cloud

from trainyard_sdk.client import Client
from trainyard_sdk.problems import ApiProblem

OUTPUT = REPOSITORY / "build/bench/many_runs.json"
ENDED = ("Succeeded", "Failed", "Cancelled")
CLUSTER = "many"
#: Leaves its own number, so that a mix-up of members would show.
PROGRAM = """
import os, pathlib, sys
pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"], "number").write_text(sys.argv[1])
"""


class Counting(httpx.BaseTransport):
    """Passes requests on, and counts the answers by their status."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.answers: Counter[int] = Counter()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        self.answers[answer.status_code] += 1
        return answer


@dataclass
class Watch:
    """Looks at the API while runs go on, and sweeps beside that."""

    api: Any
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def look(self, array: str, run: str) -> Json:
        """One round; the array as it is now."""
        self._timed("list the newest 20", lambda: self.api.runs(at_most=20))
        self._timed("show a run", lambda: self.api.run(run))
        found: Json = self._timed("show the array", lambda: self.api.array(array))
        return found

    @contextmanager
    def sweeping(self, sweep: Callable[[], object], pause: float) -> Iterator[None]:
        """Sweep in a thread, again and again, with a pause between two."""
        over = threading.Event()

        def go_on() -> None:
            while not over.is_set():
                self._timed("sweep", sweep)
                over.wait(pause)

        with ThreadPoolExecutor(1) as pool:
            swept = pool.submit(go_on)
            try:
                yield
            finally:
                over.set()
            swept.result()  # an error of the sweep is one of the measurement

    def figures(self) -> Json:
        return {
            words: {
                "samples": len(seconds),
                "medianSeconds": rounded(median(seconds)),
                "p99Seconds": rounded(percentile(seconds, 99)),
            }
            for words, seconds in self.seconds.items()
        }

    def _timed(self, words: str, ask: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        answer = ask()
        self.seconds.setdefault(words, []).append(time.perf_counter() - started)
        return answer


def submit(api: Any, members: int, others: int, parallel: int) -> tuple[str, list[str]]:
    """The array, and so many runs of another team that come after it."""
    run = {"name": "member", "labels": {"team": "array"}, **_on_cluster("{number}")}
    spec = {
        "run": run,
        "parameters": [{"number": str(number)} for number in range(members)],
        "maxParallel": parallel,
    }
    array = api.submit_array(spec)["id"]
    beside = [
        api.submit_run(
            {"name": f"other-{number}", "labels": {"team": "others"}, **_on_cluster(str(number))}
        )["id"]
        for number in range(others)
    ]
    return array, beside


def until_over(watch: Watch, array: str, beside: list[str], deadline: float) -> None:
    """Returns when all have ended, or at the deadline."""
    going = list(beside)
    while time.monotonic() < deadline:
        found = watch.look(array, (going or beside)[0])
        while going and watch.api.run(going[0])["status"] in ENDED:
            going.pop(0)
        if found["status"] in ENDED and not going:
            return
        time.sleep(0.5)


def ends(api: Any, array: str, beside: list[str], members: int) -> Json:
    """How the runs ended. Lost: a member without a run, a run that is not there or goes on."""
    found = {one["index"]: one["runId"] for one in api.array_members(array)}
    runs = [found.get(number) for number in range(members)]
    parts: dict[str, list[str | None]] = {"array": runs, "others": list(beside)}
    counted = {name: Counter([_end(api, run_id) for run_id in ids]) for name, ids in parts.items()}
    known = [run_id for run_id in (*runs, *beside) if run_id]
    return {
        **{name: dict(counts) for name, counts in counted.items()},
        "lost": sum(counts["lost"] for counts in counted.values()),
        "twice": len(known) - len(set(known)),
    }


def fairness(api: Any, array: str, beside: list[str], nodes: int) -> Json:
    """How the two teams' turns went, one node each.

    While both want nodes, each team may begin as many runs as the other. The array came first and
    holds all nodes at the beginning, so it may be ahead by as many as there are nodes, once for
    those that it holds and once for those that both hold at the end.
    """
    members = [str(one["runId"]) for one in api.array_members(array) if one.get("runId")]
    others = sorted(_began(api, run_id) for run_id in beside)
    last = others[-1] if others else ""
    ahead = sum(1 for run_id in members if "" < _began(api, run_id) <= last)
    most = len(others) + 2 * nodes
    return {"membersBegunWhenTheLastOtherBegan": ahead, "most": most, "fair": ahead <= most}


def _began(api: Any, run_id: str) -> str:
    """When its first attempt started, as the API writes times; empty if none did."""
    attempts = api.run(run_id)["attempts"]
    return str(attempts[0].get("startedAt") or "") if attempts else ""


def _end(api: Any, run_id: str | None) -> str:
    if run_id is None:
        return "lost"
    try:
        status = str(api.run(run_id)["status"])
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return "lost"
    return status if status in ENDED else "lost"


def whole(found: Mapping[str, Any], members: int, others: int) -> bool:
    """Whether every run succeeded, each once."""
    wanted = {"array": {"Succeeded": members}, "others": {"Succeeded": others} if others else {}}
    return all(found[name] == counts for name, counts in wanted.items()) and not found["twice"]


def throttled(before: Json, after: Json, answers: Mapping[int, int]) -> Json:
    """What AWS, or our API, asked to be called again later."""
    started, refused = (
        after["sessions"][name] - before["sessions"][name] for name in ("started", "throttled")
    )
    return {
        "sessionsStarted": started,
        "sessionsThrottled": refused,
        "apiThrottled": answers.get(429, 0),
    }


def errors(before: Json, after: Json) -> Json:
    """Invocations of functions that ended with an error: state machines repeat them."""
    was, now = before["functions"]["deployed"], after["functions"]["deployed"]
    found = {name: now[name]["errors"] - was[name]["errors"] for name in now if name in was}
    return {name: count for name, count in found.items() if count}


def measure(cloud: LocalCloud, words: argparse.Namespace) -> Json:
    counting = Counting(httpx.HTTPTransport())
    api = Client(cloud.api.connection, transport=counting)
    _cluster(api, words.nodes, words.timeout_seconds)
    deadline, before = time.monotonic() + words.timeout_seconds, _status(cloud)
    watch = Watch(api)
    started = time.monotonic()
    with watch.sweeping(lambda: _sweep(cloud), words.sweep_seconds):
        array, beside = submit(api, words.members, words.others, words.parallel)
        until_over(watch, array, beside, deadline)
    seconds = round(time.monotonic() - started, 1)
    after = _status(cloud)
    return {
        "members": words.members,
        "others": words.others,
        "nodes": words.nodes,
        "maxParallel": words.parallel,
        "seconds": seconds,
        "ends": ends(api, array, beside, words.members),
        "turns": fairness(api, array, beside, words.nodes),
        "throttled": throttled(before, after, counting.answers),
        "functionErrors": errors(before, after),
        "while": watch.figures(),
        "machine": machine(),
    }


def _on_cluster(number: str) -> Json:
    job = {"recipe": "command", "nodes": 1, "script": "number.py", "arguments": [number],
           "files": {"number.py": PROGRAM}}  # fmt: skip
    return {"cluster": {"name": CLUSTER}, "job": job}


def _cluster(api: Any, nodes: int, seconds: float) -> None:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": nodes},
    ]
    sharing = {"fairBy": "team"}
    spec = {"name": CLUSTER, "instanceGroups": groups, "sharing": sharing, **ON_FSX}
    api.create_cluster({**spec, "environment": {"kind": "existing"}})
    deadline = time.monotonic() + seconds
    while api.cluster(CLUSTER)["status"] != "Ready":
        if time.monotonic() > deadline:
            raise SystemExit("the cluster was not ready in time")
        time.sleep(0.5)


def _sweep(cloud: LocalCloud) -> None:
    answer = cloud.aws("lambda").invoke(FunctionName="trainyard-sweep", Payload=b"{}")
    if "FunctionError" in answer:
        raise SystemExit(f"the sweep failed: {answer['Payload'].read().decode()}")


def _status(cloud: LocalCloud) -> Json:
    answer = httpx.get(
        f"{cloud.local['endpoint']}/_trainyard/status",
        headers={"X-Trainyard-Token": cloud.local["adminToken"]},
        timeout=120,
    )
    return dict(answer.raise_for_status().json())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many_runs", description=__doc__)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--others", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--parallel", type=int, default=20)
    parser.add_argument("--sweep-seconds", type=float, default=20, help="between two sweeps")
    parser.add_argument("--port", type=int, default=4788)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/many-runs")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--timeout-seconds", type=float, default=3600)
    words = parser.parse_args(argv)
    with local_cloud(words.state_dir, words.port) as cloud:
        found = measure(cloud, words)
    words.output.parent.mkdir(parents=True, exist_ok=True)
    words.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    good = whole(found["ends"], words.members, words.others) and found["turns"]["fair"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
