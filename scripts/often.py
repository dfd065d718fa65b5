"""Runs tests again and again and counts failures: a rare failure hides a race."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
#: Each repetition's output and results; of repetitions that failed they stay.
KEPT = ROOT / "build/often"
#: What starts and kills real processes, and so depends on who comes first.
TESTS = (
    "tests/unit/trainyard_trainers/launch/launchers",
    "tests/unit/trainyard_trainers/launch/test_ranks.py",
    "tests/unit/trainyard_trainers/launch/test_node_part.py",
    "tests/local/test_trainers_resume.py",
    "tests/local/system",
)
_LINES = 4
#: Burns a core until the process that started it, whose id it is given, is gone.
_BURN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"


@dataclass
class Tally:
    """What was seen in all repetitions."""

    ran: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    #: By test: the first line of each way to fail, and all lines of its first time.
    ways: dict[str, Counter[str]] = field(default_factory=dict)
    lines: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, results: Path, exit_status: int) -> None:
        """Count one repetition by pytest's JUnit file; without a file pytest itself failed."""
        try:
            found = ElementTree.parse(results)  # noqa: S314 - pytest wrote it for us
            cases = list(found.iter("testcase"))
        except (OSError, ElementTree.ParseError):
            self._fail("(pytest)", f"exit status {exit_status}, and no results")
            return
        for case in cases:
            self._count(case)
        if exit_status and not any(_broken(case) is not None for case in cases):
            self._fail("(pytest)", f"exit status {exit_status}, and no test failed")

    def _count(self, case: ElementTree.Element) -> None:
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        broken = _broken(case)
        if broken is not None:
            self._fail(name, first_lines(broken))
        elif case.find("skipped") is None:
            self.ran[name] += 1

    def _fail(self, name: str, words: str) -> None:
        self.ran[name] += 1
        self.failed[name] += 1
        first, *more = words.splitlines()
        self.ways.setdefault(name, Counter())[first] += 1
        self.lines.setdefault((name, first), more)

    def table(self) -> str:
        """One row for each failed test, most frequent first, with the ways in which it failed."""
        rows = []
        for name, times in self.failed.most_common():
            rows.append(f"{times:3} of {self.ran[name]:3}  {name}")
            for first, seen in self.ways[name].most_common():
                rows.append(f"            {seen} x {first}")
                rows.extend(f"                {line}" for line in self.lines[name, first])
        return "\n".join(rows) or f"no failure in {sum(self.ran.values())} tests"


def _broken(case: ElementTree.Element) -> ElementTree.Element | None:
    failure = case.find("failure")
    return failure if failure is not None else case.find("error")


def first_lines(broken: ElementTree.Element) -> str:
    """The first lines of what went wrong, as pytest's own `E` lines have them."""
    text = broken.get("message") or broken.text or "no message"
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][:_LINES])


def repeat(tests: Sequence[str], number: int, tally: Tally) -> int:
    """One repetition in an interpreter of its own; its files stay if it failed."""
    results, log = KEPT / f"{number}.xml", KEPT / f"{number}.log"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *tests, f"--junitxml={results}", "--tb=long"]
    with log.open("w", encoding="utf-8") as output:
        status = subprocess.run(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    tally.add(results, status)
    if status == 0:
        results.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
    return status


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes take the cores from the tests, so that things come late or out of turn."""
    command = [sys.executable, "-c", _BURN, str(os.getpid())]
    burning = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry; 1 if anything failed in any repetition."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="files or test ids")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no repetition later"
    )
    parser.add_argument(
        "--busy", type=int, default=0, metavar="N", help="N processes burn the cores beside them"
    )
    options = parser.parse_args(argv)
    KEPT.mkdir(parents=True, exist_ok=True)
    with busy(options.busy):
        return repetitions(options)


def repetitions(options: argparse.Namespace) -> int:
    """All of them, with a line each and the table at the end."""
    tally, started, failed, done = Tally(), time.monotonic(), 0, 0
    try:
        while done < options.times and time.monotonic() - started < options.minutes * 60:
            began = time.monotonic()
            status = repeat(options.tests, done + 1, tally)
            done, failed = done + 1, failed + (status != 0)
            said = (
                "passed"
                if status == 0
                else f"failed, see {(KEPT / f'{done}.log').relative_to(ROOT)}"
            )
            print(
                f"{done:3} of {options.times}: {said} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    except KeyboardInterrupt:
        print("interrupted: what was seen until now", flush=True)
    print(f"\n{failed} of {done} repetitions failed\n{tally.table()}")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
