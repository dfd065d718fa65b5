"""How long the local cloud takes to deploy the template: `python -m bench.cloud_up`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.figures import machine, median, rounded
from demo.cloud import REPOSITORY, local_cloud

TARGET_SECONDS = 8.0


def measure(rounds: int, port: int, state_dir: Path) -> dict[str, Any]:
    """Start and stop it `rounds` times; the first is the one with cold files."""
    seconds = []
    for _ in range(rounds):
        with local_cloud(state_dir, port) as cloud:
            seconds.append(round(cloud.up_seconds, 3))
    return {
        "seconds": seconds,
        "medianSeconds": rounded(median(seconds)),
        "targetSeconds": TARGET_SECONDS,
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cloud_up", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=4782)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/cloud-up")
    arguments = parser.parse_args(argv)
    print(
        json.dumps(
            measure(arguments.rounds, arguments.port, arguments.state_dir) | {"machine": machine()},
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
