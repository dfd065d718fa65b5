"""How long a resume takes, from launch to the first step: `python -m bench.resume_start`.

The model is the llm of 50 M parameters on 2 ranks, with steps as short as possible. The same rounds
also measure `import torch` alone, reading the checkpoint's files as fast as the disk gives them
(never from the page cache), and a plain program that imports torch, loads with torch.load and
steps.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import machine, rounded
from bench.llm_jobs import MODEL_50M, arguments, make_tokens, torchrun

ROOT = Path(__file__).resolve().parents[1]
GOAL = 1.3
SAVED_STEP = 2
Seconds = dict[str, float]


def evict(directory: Path) -> int:
    """Drop a directory's files from the page cache; returns their bytes."""
    total = 0
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as stream:
                os.fdatasync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            total += path.stat().st_size
    return total


def read_all(directory: Path) -> float:
    """Seconds to read every file of a directory once."""
    buffer, began = bytearray(1 << 22), time.perf_counter()
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as stream:
                while stream.readinto(buffer):
                    pass
    return time.perf_counter() - began


def run(command: list[str]) -> float:
    """Seconds that a program takes from its start to its end. Raises CalledProcessError."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def resume(run_dir: Path, attempt: int, words: list[str]) -> tuple[float, float]:
    """Seconds from the launcher's start to the start and end of a resumed attempt's first step."""
    attempt_dir = run_dir / "attempts" / str(attempt)
    attempt_dir.mkdir(parents=True)
    job = {
        "runId": "local",
        "attempt": attempt,
        "program": ["-m", "trainyard_trainers.llm.train"],
        "arguments": words,
        "processesPerNode": 2,
        "checkpointEverySteps": 10**6,
    }
    (attempt_dir / "job.json").write_text(json.dumps(job))
    (attempt_dir / "hosts").write_text("localhost 127.0.0.1\n")
    began = time.time()
    with open(attempt_dir / "log", "wb") as log:
        command = [sys.executable, "-m", "trainyard_trainers.launch", str(attempt_dir)]
        code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    progress = json.loads((attempt_dir / "progress.json").read_text()) if code == 0 else {}
    if progress.get("resumedFrom") != SAVED_STEP:
        raise SystemExit(
            "the attempt did not resume (exit status "
            f"{code}):\n{(attempt_dir / 'log').read_text()[-3000:]}"
        )
    done = float(progress["firstStepAt"]) - began
    first = json.loads((attempt_dir / "steps.jsonl").read_text().splitlines()[0])
    return done - float(first["stepSeconds"]), done


def one_round(number: int, run_dir: Path, saved: Path, plain: Path, words: list[str]) -> Seconds:
    """Seconds of each way, one after another, never from the page cache."""
    found = {"importTorch": run([sys.executable, "-c", "import torch"])}
    evict(saved)
    found["read"] = read_all(saved)
    evict(plain.parent)
    found["plain"] = run([sys.executable, "-m", "bench.plain_resume", "resume", str(plain)])
    evict(saved)
    found["resume"], found["firstStep"] = resume(run_dir, number + 1, words)
    later = [path for path in (run_dir / "checkpoints").glob("step-*") if path != saved]
    for made in (run_dir / "final", *later):
        shutil.rmtree(made)
    rounded_all = {name: round(value, 3) for name, value in found.items()}
    print(json.dumps({"round": number, **rounded_all}), flush=True)
    return found


def report(rounds: list[Seconds], size: int) -> None:
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    ratio = medians["resume"] / (medians["importTorch"] + medians["read"])
    document = {
        "goal": GOAL,
        "ratio": rounded(ratio),
        "checkpointBytes": size,
        **{f"{name}Seconds": rounded(value) for name, value in medians.items()},
        "machine": machine(),
    }
    (ROOT / "build/bench/resume_start.json").write_text(json.dumps(document, indent=1))
    print(json.dumps(document, indent=1))
    print(
        f"A resume takes {ratio:.2f} times import torch and reading the checkpoint; "
        f"the goal of {GOAL} is {'' if ratio <= GOAL else 'not '}reached"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.resume_start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    state = ROOT / "build/bench/resume_start"
    shutil.rmtree(state, ignore_errors=True)
    data = make_tokens(state / "tokens", 20_000)
    run_dir = state / "run"

    def words(steps: int) -> list[str]:
        return arguments(data, steps, 16, 2, MODEL_50M)

    torchrun(["-m", "trainyard_trainers.llm.train", *words(SAVED_STEP)], run_dir)
    shutil.rmtree(run_dir / "final")
    saved = max((run_dir / "checkpoints").glob("step-*"))
    plain = state / "plain" / "plain.pt"
    plain.parent.mkdir()
    run([sys.executable, "-m", "bench.plain_resume", "save", str(plain)])
    rounds = [
        one_round(number, run_dir, saved, plain, words(SAVED_STEP + 1))
        for number in range(1, options.rounds + 1)
    ]
    report(rounds, evict(saved))
    return 0


if __name__ == "__main__":
    sys.exit(main())
