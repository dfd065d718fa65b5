"""How fast lists of many runs answer through the gateway, signed: `python -m bench.lists`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.figures import machine, percentile, rounded
from demo.cloud import ON_FSX, REPOSITORY, LocalCloud, local_cloud

#: Items of one transaction.
_AT_ONCE = 100
#: One run in so many has the rare label.
_RARE = 2000


def fill(cloud: LocalCloud, count: int) -> dict[str, str]:
    """Write so many ended runs as copies of one; returns the id of the newest one and its name."""
    made = cloud.api.submit_run(_spec())
    dynamodb, table = cloud.aws("dynamodb"), cloud.local["table"]
    cloud.api.cancel_run(made["id"])
    while cloud.api.run(made["id"])["status"] not in ("Cancelled", "Failed"):
        time.sleep(0.2)
    key = {"pk": {"S": f"run#{made['id']}"}, "sk": {"S": "run"}}
    base = dynamodb.get_item(TableName=table, Key=key)["Item"]
    parts = [range(first, min(first + _AT_ONCE, count)) for first in range(0, count, _AT_ONCE)]

    def write(numbers: range) -> None:
        puts = [{"Put": {"TableName": table, "Item": _copy(base, number)}} for number in numbers]
        dynamodb.transact_write_items(TransactItems=puts)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, parts))
    return {"id": made["id"], "name": _name(count // 2)}


def _name(number: int) -> str:
    return f"copy-{number}"


def _copy(base: dict[str, Any], number: int) -> dict[str, Any]:
    run_id = f"run-00{number:024d}"
    document = json.loads(base["doc"]["S"])
    created = f"2026-01-{1 + number // 1000 % 28:02d}T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
    labels = {"exp": "rare" if number % _RARE == 0 else "usual"}
    changed = {"id": run_id, "name": _name(number), "labels": labels, "createdAt": created}
    return {
        **base,
        "pk": {"S": f"run#{run_id}"},
        "doc": {"S": json.dumps({**document, **changed})},
        "gsi1sk": {"S": f"{created}#{run_id}"},
        "name": {"S": _name(number)},
        "labels": {"M": {key: {"S": value} for key, value in labels.items()}},
    }


def measure(cloud: LocalCloud, known: dict[str, str], samples: int) -> Iterator[dict[str, Any]]:
    """One row for each question that people ask."""
    api = cloud.api
    questions: dict[str, Callable[[], object]] = {
        "the newest 20": lambda: api.runs(at_most=20),
        "20 of a label that most have": lambda: api.runs(at_most=20, label="exp=usual"),
        "all of a label that few have": lambda: api.runs(at_most=20, label="exp=rare"),
        "none of a status": lambda: api.runs(at_most=20, status="Failed"),
        "a run by its name": lambda: api.run(known["name"]),
        "a run by the beginning of its id": lambda: api.run(known["id"][:-2]),
        "a run by its id": lambda: api.run(known["id"]),
        "latest": lambda: api.run("latest"),
    }
    for words, ask in questions.items():
        ask()
        seconds = []
        for _ in range(samples):
            started = time.perf_counter()
            ask()
            seconds.append(time.perf_counter() - started)
        yield {
            "question": words,
            "samples": len(seconds),
            "p50Seconds": rounded(percentile(seconds, 50), 4),
            "p99Seconds": rounded(percentile(seconds, 99), 4),
        }


def _spec() -> dict[str, Any]:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": 1},
    ]
    cluster = {
        "name": "lists",
        "instanceGroups": groups,
        **ON_FSX,
        "environment": {"kind": "existing"},
    }
    return {
        "name": "copied",
        "cluster": {"spec": cluster},
        "job": {"nodes": 1, "module": "trainyard_trainers.ddp"},
        "export": {"enabled": False},
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lists", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--port", type=int, default=4786)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/lists")
    arguments = parser.parse_args(argv)
    with local_cloud(arguments.state_dir, arguments.port) as cloud:
        known = fill(cloud, arguments.runs)
        rows = list(measure(cloud, known, arguments.samples))
    print(json.dumps({"runs": arguments.runs, "rows": rows, "machine": machine()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
