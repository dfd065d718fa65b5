"""Compilation for Trainium as a step of its own: the training command under AWS's
neuron_parallel_compile, and a record of how it went.

    python -m trainyard_trainers.precompile --output precompile.json -- \\
        torchrun --nproc-per-node 32 -m trainyard_trainers.llm.train ...

neuron_parallel_compile runs the command once without computing anything, to collect its graphs,
compiles them all at once into the cache (NEURON_COMPILE_CACHE_URL, or --cache_dir of
NEURON_CC_FLAGS), and prints a summary. What the command itself puts out in that mode means nothing.
Training compiles nothing more if its command and flags are the same. For PyTorch/XLA only; never
run on Trainium.
https://awsdocs-neuron.readthedocs-hosted.com/en/latest/frameworks/torch/torch-neuronx/api-reference-guide/training/pytorch-neuron-parallel-compile.html
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainyard_job.common.files import write_text

PROGRAM = "neuron_parallel_compile"
#: Set by neuron_parallel_compile for the command that it runs.
_MODE = "NEURON_EXTRACT_GRAPHS_ONLY"
#: So many steps show every graph: the first steps differ (the optimizer's state is made), later
#: ones do not.
STEPS = 5
_TOTALS = re.compile(r"Total (graphs|successful compilations|failed compilations):\s*(\d+)")


class NotCompiled(Exception):
    """Some graph is not in the cache, so training would stop to compile it, on every node, and
    maybe fail; the message says why.
    """


@dataclass(frozen=True)
class Record:
    """How a compilation ended.

    `failed` is "unknown" when the command ended before its summary, or ended badly after it.
    """

    command: tuple[str, ...]
    exit_code: int
    graphs: int
    succeeded: int
    failed: int | Literal["unknown"]
    failed_modules: tuple[str, ...] = ()
    reason: str = ""
    cache: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "command": list(self.command),
            "exitCode": self.exit_code,
            "graphs": self.graphs,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "failedModules": list(self.failed_modules),
            "reason": self.reason,
            "cache": self.cache,
        }


def compile_only(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process only shows its graphs to the compiler: it must neither save nor report
    anything.
    """
    value = (os.environ if environment is None else environment).get(_MODE, "")
    return value.lower() not in ("", "0", "false")


# -- the summary ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Summary:
    """The summaries in an output, added up: there may be one of each phase."""

    graphs: int
    succeeded: int
    failed: int
    failed_modules: tuple[str, ...]


def parse(output: str) -> Summary | None:
    """The summary in what neuron_parallel_compile printed; None if there is none.

    It comes twice: as JSON with a report of every module, and in lines with totals. A failure in
    either counts.
    """
    totals = {"graphs": 0, "successful compilations": 0, "failed compilations": 0}
    lines = _TOTALS.findall(output)
    for name, number in lines:
        totals[name] += int(number)
    documents = list(_documents(output))
    if not lines and not documents:
        return None
    counts = [document["compilation_summary"] for document in documents]
    succeeded, failed = (
        sum(int(count.get(word, 0)) for count in counts) for word in ("true", "false")
    )
    modules = [
        name
        for document in documents
        for name, report in _report(document)
        if not report.get("status")
    ]
    succeeded = totals["successful compilations"] if lines else succeeded
    failed = max(totals["failed compilations"], failed, len(modules))
    return Summary(max(totals["graphs"], succeeded + failed), succeeded, failed, tuple(modules))


def _documents(output: str) -> Iterator[dict[str, Any]]:
    """Every JSON document with a compilation_summary; it begins in the middle of a log line."""
    for match in re.finditer(r'\{\s*"compilation_summary"', output):
        try:
            document, _ = json.JSONDecoder().raw_decode(output, match.start())
        except ValueError:  # cut off: the lines with totals may be there
            continue
        if isinstance(document["compilation_summary"], dict):
            yield document


def _report(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    report = document.get("compilation_report")
    return (
        [(name, value) for name, value in report.items() if isinstance(value, dict)]
        if isinstance(report, dict)
        else []
    )


def judge(command: Sequence[str], exit_code: int, output: str) -> Record:
    """The record of a compilation that ended."""
    cache = os.environ.get("NEURON_COMPILE_CACHE_URL", "")
    summary = parse(output)
    if summary is None:
        reason = (
            f"{PROGRAM} ended with {_ending(exit_code)} and printed no summary; its last words are "
            "in the log"
        )
        return Record(tuple(command), exit_code, 0, 0, "unknown", reason=reason, cache=cache)
    failed: int | Literal["unknown"] = summary.failed
    reason = f"{failed} of {summary.graphs} graphs failed to compile" if failed else ""
    if exit_code and not failed:
        failed, reason = (
            "unknown",
            f"{PROGRAM} ended with {_ending(exit_code)} although no compilation failed: graphs "
            "may be missing",
        )
    elif not summary.graphs:
        failed, reason = (
            "unknown",
            f"{PROGRAM} found no graph in the command; is it one that trains on a Neuron device?",
        )
    return Record(
        tuple(command),
        exit_code,
        summary.graphs,
        summary.succeeded,
        failed,
        summary.failed_modules,
        reason,
        cache,
    )


def _ending(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


# -- the step ------------------------------------------------------------------------------------
def compile_command(command: Sequence[str]) -> Record:
    """Run a training command under neuron_parallel_compile; what it says is passed on.

    Raises NotCompiled if that is not installed.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise NotCompiled(
            f"{PROGRAM} is not on PATH; it comes with torch-neuronx from "
            "https://pip.repos.neuron.amazonaws.com "
            "(trainers/neuron/requirements-neuron-legacy.txt)"
        )
    lines: list[str] = []
    process = subprocess.Popen(
        [program, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
        return judge(command, process.wait(), "".join(lines))
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            process.kill()
            process.wait()


def write_record(path: Path, record: Record) -> None:
    """Replace the record at once: others may be waiting for it."""
    write_text(path, json.dumps(record.as_json(), indent=1) + "\n", durable=False)


def require_compiled(record: Path) -> None:
    """Return if the record says that every graph is compiled. Raises NotCompiled."""
    try:
        document = json.loads(record.read_text(encoding="utf-8"))
        failed, reason = document["failed"], document["reason"]
    except FileNotFoundError:
        raise NotCompiled(f"{record} is missing: the compilation did not end") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotCompiled(f"{record} is not the record of a compilation: {error!r}") from error
    if failed != 0:
        modules = ", ".join(document.get("failedModules", [])[:3])
        raise NotCompiled(
            f"{reason or f'{failed} compilations failed'}{f' ({modules})' if modules else ''}; see "
            f"{record} and the job's log"
        )


def default_record() -> Path:
    """Beside the attempt, or outside Trainyard in the working directory."""
    return Path(os.environ.get("TRAINYARD_ATTEMPT_DIR") or ".") / "precompile.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.precompile`.

    Returns 0 when every graph is compiled, 1 when not.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(
        prog="trainyard_trainers.precompile", usage="%(prog)s [--output FILE] -- COMMAND ..."
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=default_record(),
        help="where to write the record (default %(default)s)",
    )
    cut = words.index("--") if "--" in words else len(words)
    options, command = parser.parse_args(words[:cut]), words[cut + 1 :]
    if not command:
        parser.error("the command is missing; give -- and the command that trains")
    options.output.unlink(missing_ok=True)  # of an older compilation
    try:
        write_record(options.output, compile_command(command))
        require_compiled(options.output)
    except NotCompiled as error:
        print(f"trainyard: not compiled: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
