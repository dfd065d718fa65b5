"""`python -m demo`: runs the main job on real parts, kills a node in its middle, and judges it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.cloud import REPOSITORY, local_cloud
from demo.recording import Recording
from demo.story import Story, count_leftovers
from demo.verdict import Measured
from trainyard_cli.commands.local import LOCAL_PARAMETERS


def main(argv: list[str] | None = None) -> int:
    """Exit status 0 only if everything the demo claims was measured and is true."""
    arguments = _arguments(argv)
    # A terminated demo tears down like an interrupted one.
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell ignores it in what it starts in the background
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    console = Console(width=None if sys.stdout.isatty() else 140)
    measured, recording = Measured(), Recording()
    started = time.monotonic()
    state_dir: Path = arguments.state_dir.resolve()
    try:
        _play(
            console,
            measured,
            recording,
            state_dir,
            arguments.port,
            started + arguments.timeout_seconds,
        )
    except KeyboardInterrupt:
        measured.trouble.append("it was interrupted")
    # Whatever goes wrong is part of the verdict, and of the exit status.
    except Exception as error:  # noqa: BLE001
        measured.trouble.append(f"{type(error).__name__}: {error}")
    count_leftovers(state_dir, measured)
    measured.wall_seconds = round(time.monotonic() - started, 1)
    _write(arguments.output, measured)
    _show(console, measured, arguments.output, state_dir)
    if arguments.record:
        recording.save(
            arguments.record,
            lambda recorder: _show(recorder, measured, arguments.output, state_dir),
        )
    return 0 if not measured.failures() else 1


def _play(
    console: Console,
    measured: Measured,
    recording: Recording,
    state_dir: Path,
    port: int,
    deadline: float,
) -> None:
    console.rule("[bold]Trainyard")
    console.print("Starting the local cloud and deploying template.yaml ...")
    with local_cloud(state_dir, port, LOCAL_PARAMETERS) as cloud:
        console.print(
            f"It is up after {cloud.up_seconds:.1f} s: {cloud.local['apiUrl']}", highlight=False
        )
        console.print("This one machine plays every node: real Slurm, agents, and torchrun.")
        Story(cloud, console, measured, recording, deadline).play()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/demo/cloud")
    parser.add_argument(
        "--port", type=int, default=0, help="loopback port of the local cloud; 0 takes a free one"
    )
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build/demo.json")
    parser.add_argument(
        "--timeout-seconds", type=float, default=600, help="give up after this long"
    )
    parser.add_argument("--record", type=Path, help="also write what is shown as an SVG")
    return parser.parse_args(argv)


def _write(path: Path, measured: Measured) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(measured.document(), indent=2) + "\n")
    temporary.replace(path)


def _show(console: Console, measured: Measured, output: Path, state_dir: Path) -> None:
    table = Table(title="What was measured", show_header=False, title_justify="left")
    for name, value in measured.document().items():
        table.add_row(name, "-" if value is None else str(value))
    console.print(table)
    failures = measured.failures()
    for failure in failures:
        console.print(f"[red]not true:[/] {escape(failure)}", highlight=False)
    if failures:
        console.print(
            (
                f"Logs: {state_dir}/ (server, functions, and "
                "clusters/*/nodes/*/root/var/log/trainyard/)"
            ),
            highlight=False,
        )
    verdict = "[green]Everything is true.[/]" if not failures else "[red]The demo failed.[/]"
    shown = output.relative_to(Path.cwd()) if output.is_relative_to(Path.cwd()) else output
    console.print(f"{verdict} {shown}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
