"""Kills programs at random moments of their saves: `python -m bench.foreign_kills [--kills 100]`.

One overwrites its only snapshot in place, which the agent watches; the other saves by
`trainyard_job`. Both save for two thirds of their time. After each SIGKILL the next attempt must
begin at the newest checkpoint that was ever reported whole, or a newer one, and never from a torn
one. Writes build/bench/foreign_kills.json; exits with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import machine
from demo.cloud import ON_FSX, REPOSITORY, LocalCloud, local_cloud

OUT = REPOSITORY / "build/bench/foreign_kills.json"
MEGABYTES = 4
#: The first kill comes so long after the attempt's first line at the most.
SECONDS = 2.0
_COMMON = f"""
import os, pathlib, time, zipfile

def write(stream, step):
    with zipfile.ZipFile(stream, "w") as into:
        into.writestr("archive/step", str(step))
        for part in range({MEGABYTES}):
            into.writestr(f"archive/{{part}}", os.urandom(1_000_000))
            time.sleep(0.1)

def read(path):
    with zipfile.ZipFile(path) as found:
        torn = found.testzip()
        assert torn is None, f"torn: {{torn}}"
        return int(found.read("archive/step"))
"""
PROGRAMS = {
    "watch": f"""{_COMMON}
path = pathlib.Path("snapshot.pt")
step = read(path) if path.exists() else 0
print(f"began at {{step}}", flush=True)
while True:
    step += 1
    time.sleep(0.2)
    with path.open("wb") as stream:
        write(stream, step)
    print(f"step {{step}} | loss {{1 / step:.4f}}", flush=True)
""",
    "trainyard_job": f"""{_COMMON}
import trainyard_job
newest = trainyard_job.latest()
step = read(newest.path / "model.zip") if newest else 0
assert newest is None or newest.step == step
print(f"began at {{step}}", flush=True)
while True:
    step += 1
    time.sleep(0.2)
    with trainyard_job.checkpoint(step) as directory:
        with (directory / "model.zip").open("wb") as stream:
            write(stream, step)
""",
}
CLUSTER: dict[str, Any] = {
    "name": "kills",
    "instanceGroups": [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": 1},
    ],
    **ON_FSX,
    "environment": {"kind": "existing"},
}


class Killing:
    """One run, killed again and again."""

    def __init__(self, cloud: LocalCloud, kind: str, kills: int, noise: random.Random) -> None:
        self._cloud, self._noise, self._kills = cloud, noise, kills
        watch = {"watch": {"pattern": "snapshot.pt"}} if kind == "watch" else {}
        self._run = cloud.api.submit_run(
            {
                "name": f"kills-{kind.replace('_', '-')}",
                "cluster": {"name": CLUSTER["name"]},
                "job": {
                    "recipe": "command",
                    "nodes": 1,
                    "script": "train.py",
                    "files": {"train.py": PROGRAMS[kind]},
                },
                "checkpoint": {"keep": 2, **watch},
                "recovery": {
                    "maxAttempts": kills + 10,
                    "sameErrorLimit": 100,
                    "inPlaceRestartsPerNode": 100,
                },
                "export": {"enabled": False},
            }
        )["id"]
        self.began: list[int] = []

    def all(self) -> dict[str, Any]:
        """Raises SystemExit where a checkpoint was lost or a torn one was read."""
        for number in range(1, self._kills + 2):
            self.began.append(self._beginning(number))
            if number <= self._kills:
                time.sleep(self._noise.uniform(0.0, SECONDS))
                self._cloud.fault("kill-process", CLUSTER["name"], run=self._run)
        self._cloud.api.cancel_run(self._run)
        return self._judged()

    def _beginning(self, number: int) -> int:
        """The step at which the attempt began, from its own log."""

        def said() -> int | None:
            run = self._cloud.api.run(self._run)
            if run["status"] in ("Failed", "Succeeded", "Cancelled"):
                raise SystemExit(f"attempt {number}: the run ended: {json.dumps(run['problem'])}")
            if len(run["attempts"]) < number:
                return None
            text = self._cloud.api.logs(self._run, attempt=number, lines=1000)["text"]
            found = re.search(r"^began at (\d+)$", text, re.MULTILINE)
            return int(found[1]) if found else None

        return _until(said)

    def _judged(self) -> dict[str, Any]:
        events = self._cloud.api.events(self._run)
        committed: dict[int, int] = {}
        for event in events:
            if event["type"] == "CheckpointCommitted":
                attempt = event["attempt"]
                committed[attempt] = max(committed.get(attempt, 0), int(event["data"]["step"]))
        for number, began in enumerate(self.began[1:], 2):
            newest = max((committed.get(n, 0) for n in range(1, number)), default=0)
            if began < newest:
                raise SystemExit(f"attempt {number} began at {began}, and {newest} was whole")
        torn = sum(event["type"] == "CheckpointRejected" for event in events)
        put_back = sum(event["type"] == "CheckpointRestored" for event in events)
        return {
            "kills": len(self.began) - 1,
            "tornOnesFound": torn,
            "putBack": put_back,
            "lastStep": self.began[-1],
            "lost": 0,
            "resumedFromTorn": 0,
        }


def _until(said: Callable[[], int | None], seconds: float = 90.0) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (found := said()) is not None:
            return found
        time.sleep(0.1)
    raise SystemExit(f"nothing came within {seconds:.0f} s")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.foreign_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=4787)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/foreign-kills")
    words = parser.parse_args(argv)
    found: dict[str, Any] = {"seed": words.seed, "machine": machine()}
    with local_cloud(words.state_dir, words.port) as cloud:
        cloud.api.create_cluster(CLUSTER)
        for kind in [words.only] if words.only else PROGRAMS:
            started = time.monotonic()
            found[kind] = Killing(cloud, kind, words.kills, random.Random(words.seed)).all()
            found[kind]["seconds"] = round(time.monotonic() - started, 1)
            print(f"{kind}: {json.dumps(found[kind])}", file=sys.stderr, flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
