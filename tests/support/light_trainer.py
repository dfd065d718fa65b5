"""A job without torch that checkpoints and reports progress, so system tests test the system."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import signal
import socket
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

RUN = Path(os.environ["TRAINYARD_RUN_DIR"])
ATTEMPT = int(os.environ["TRAINYARD_ATTEMPT"])
ATTEMPT_DIR = Path(os.environ["TRAINYARD_ATTEMPT_DIR"])
CHECKPOINTS = Path(os.environ["TRAINYARD_CHECKPOINT_DIR"])
RANK = int(os.environ.get("SLURM_PROCID", "0"))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def commit(target: Path, step: int, payload: dict[str, Any], pause: float) -> None:
    """Write payload.json and the manifest, then rename into place while the fence is held."""
    temporary = target.parent / f".tmp-{target.name}"
    temporary.mkdir(parents=True, exist_ok=True)
    data = temporary / "payload.json"
    data.write_text(json.dumps(payload))
    time.sleep(pause)
    manifest = {
        "schema": "trainyard.checkpoint.v1",
        "runId": os.environ["TRAINYARD_RUN_ID"],
        "attempt": ATTEMPT,
        "step": step,
        "worldSize": int(os.environ.get("SLURM_NTASKS", "1")),
        "createdAt": datetime.now(timezone.utc).isoformat(),
        "files": [{"path": "payload.json", "bytes": data.stat().st_size, "sha256": digest(data)}],
    }
    (temporary / "manifest.json").write_text(json.dumps(manifest))
    with (RUN / "fence.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if int((RUN / "fence").read_text()) != ATTEMPT:
            sys.exit("fenced: a newer attempt owns this run")
        if not target.exists():
            os.rename(temporary, target)


def newest() -> tuple[int, int]:
    """(step, accumulated value) of the newest whole checkpoint, (0, 0) if there is none."""
    for directory in sorted(CHECKPOINTS.glob("step-*"), reverse=True):
        try:
            manifest = json.loads((directory / "manifest.json").read_text())
            if all(
                digest(directory / item["path"]) == item["sha256"] for item in manifest["files"]
            ):
                return manifest["step"], json.loads((directory / "payload.json").read_text())[
                    "value"
                ]
        except (OSError, ValueError, KeyError):
            continue
    return 0, 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--step-seconds", type=float, default=0.05)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument(
        "--write-seconds", type=float, default=0.0, help="how long writing one checkpoint takes"
    )
    parser.add_argument(
        "--fail-at", type=int, default=None, help="raise a Python error at this step"
    )
    parser.add_argument(
        "--hold-at",
        type=int,
        default=None,
        help="attempt 1 waits before this step until the run's directory has a file 'go'",
    )
    parser.add_argument("--echo", nargs="*", default=[])
    return parser.parse_args()


def report(step: int, start: int, first_step_at: float) -> None:
    """Tell the progress, in a file that is always whole."""
    temporary = ATTEMPT_DIR / ".progress.tmp"
    temporary.write_text(
        json.dumps({
            "step": step, "loss": 1.0 / step, "at": time.time(), "resumedFrom": start or None,
            "firstStepAt": first_step_at, "worldSize": 1,
        })
    )  # fmt: skip
    os.replace(temporary, ATTEMPT_DIR / "progress.json")


def main() -> None:
    options = parsed()
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    start, value = newest()
    print(f"rank {RANK} on {socket.gethostname()} from step {start}", *options.echo, flush=True)
    first_step_at = None
    for step in range(start + 1, options.steps + 1):
        if options.fail_at == step:
            raise ValueError(f"bad batch at step {step}")
        if options.hold_at == step and ATTEMPT == 1:
            while not stop and not (RUN / "go").exists():
                time.sleep(0.02)
        time.sleep(options.step_seconds)
        value += step
        first_step_at = first_step_at or time.time()
        if RANK == 0:
            report(step, start, first_step_at)
            if step % options.every == 0 or stop:
                commit(
                    CHECKPOINTS / f"step-{step:012d}-attempt-{ATTEMPT}",
                    step,
                    {"value": value},
                    options.write_seconds,
                )
        if stop:
            sys.exit(128 + stop[0])
    if RANK == 0:
        commit(RUN / "final", options.steps, {"value": value}, 0)
    print("finished", value, flush=True)


if __name__ == "__main__":
    main()
