"""How fast a directory goes up, beside `aws s3 cp` of the same files: `python -m bench.upload`.

Both send to the local cloud's S3, round by round in turn. The second time, one file has changed.
Without `aws` on the PATH (or --aws) only ours is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import machine, median, rounded
from demo.cloud import REPOSITORY, LocalCloud, local_cloud

from trainyard_sdk.upload.packing import pack
from trainyard_sdk.upload.send import send

TARGET_RATIO, TARGET_AGAIN_SECONDS = 1.2, 3.0
_LARGE = 4


def fill(directory: Path, files: int, megabytes: int, seed: int) -> None:
    """Half of the bytes in a few large files, half in many small ones; none compresses."""
    noise = random.Random(seed)
    half = megabytes * 500_000
    for number in range(_LARGE):
        with (directory / f"large-{number}.bin").open("wb") as stream:
            for _ in range(max(1, half // _LARGE // 1_000_000)):
                stream.write(noise.randbytes(1_000_000))
    small = half // (files - _LARGE)
    for number in range(files - _LARGE):
        path = directory / f"part-{number % 100:02d}" / f"{number:06d}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(noise.randbytes(small))


def ours(cloud: LocalCloud, directory: Path) -> tuple[float, int]:
    """Seconds from the start of packing until the API says Complete, and how many packs went."""
    started = time.perf_counter()
    sent = send(cloud.api, pack(directory), lambda _done, _total: None)
    return time.perf_counter() - started, sent


def theirs(aws: str, cloud: LocalCloud, directory: Path, prefix: str) -> float:
    """Seconds of `aws s3 cp --recursive` of the same files to the same bucket."""
    bucket = cloud.local["bucket"]
    keys = {
        "AWS_ACCESS_KEY_ID": cloud.local["accessKeyId"],
        "AWS_SECRET_ACCESS_KEY": cloud.local["secretAccessKey"],
        "AWS_DEFAULT_REGION": cloud.local["region"],
    }
    command = [aws, "s3", "cp", "--recursive", "--quiet", "--endpoint-url", cloud.local["endpoint"]]
    target = f"s3://{bucket}/{prefix}"
    started = time.perf_counter()
    subprocess.run([*command, str(directory), target], check=True, env={**os.environ, **keys})
    return time.perf_counter() - started


def measure(cloud: LocalCloud, words: argparse.Namespace) -> dict[str, Any]:
    up, again, copied = [], [], []
    for number in range(words.rounds):
        with tempfile.TemporaryDirectory(dir=words.scratch) as name:
            directory = Path(name)
            fill(directory, words.files, words.megabytes, seed=number)
            up.append(ours(cloud, directory)[0])
            if words.aws:
                copied.append(theirs(words.aws, cloud, directory, f"copied-{number}"))
            (directory / "part-07" / "000007.bin").write_bytes(b"changed")
            seconds, sent = ours(cloud, directory)
            again.append(seconds)
            if sent != 2:  # the pack of the changed file, and the tree
                raise SystemExit(f"one changed file made {sent} new objects, not 2")
    found: dict[str, Any] = {
        "files": words.files,
        "megabytes": words.megabytes,
        "seconds": [round(value, 2) for value in up],
        "awsS3CpSeconds": [round(value, 2) for value in copied],
        "againSeconds": [round(value, 2) for value in again],
        "medianAgainSeconds": rounded(median(again)),
        "targetAgainSeconds": TARGET_AGAIN_SECONDS,
    }
    if copied:
        ratios = [mine / other for mine, other in zip(up, copied, strict=True)]
        found |= {"medianRatio": rounded(median(ratios)), "targetRatio": TARGET_RATIO}
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.upload", description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--megabytes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--aws", default=shutil.which("aws"), help="the program to compare with")
    parser.add_argument("--scratch", type=Path, help="where the directory is made")
    parser.add_argument("--port", type=int, default=4786)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/upload")
    words = parser.parse_args(argv)
    with local_cloud(words.state_dir, words.port) as cloud:
        found = measure(cloud, words)
    print(json.dumps(found | {"machine": machine()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
