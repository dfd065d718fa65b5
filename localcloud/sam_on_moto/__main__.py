"""Runs one SAM template on this machine: `python -m sam_on_moto TEMPLATE`, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from sam_on_moto import assembly
from sam_on_moto.cloud import Cloud, Naming


def main() -> int:
    """Deploy the template, print where it is and by which keys, and serve it."""
    options = _options()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    from sam_on_moto.moto_patches.pinned import MotoChanged
    from sam_on_moto.template.intrinsics import TemplateError
    from sam_on_moto.wire.ports import PortTaken

    with _state_directory(options.state_dir) as state_dir:
        try:
            _serve(options, state_dir, ended)
        except (TemplateError, PortTaken, MotoChanged) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sam_on_moto", description=__doc__)
    parser.add_argument("template", type=lambda text: Path(text).resolve())
    parser.add_argument("--port", type=int, default=4780, help="on loopback; 0 takes a free one")
    parser.add_argument(
        "--state-dir",
        type=lambda text: Path(text).resolve(),
        help="where code is staged; without it, in a directory that is removed at the end",
    )
    parser.add_argument(
        "--parameters",
        type=assembly.parameters,
        default={},
        help="JSON object of template parameters",
    )
    parser.add_argument("--no-iam", action="store_true", help="let every role do everything")
    parser.add_argument(
        "--stock-speed", action="store_true", help="without the patches that make moto faster"
    )
    return parser.parse_args()


@contextlib.contextmanager
def _state_directory(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="sam-on-moto-") as directory:
        yield Path(directory)


def _serve(options: argparse.Namespace, state_dir: Path, ended: threading.Event) -> None:
    assembly.environment(Naming(), state_dir)
    from sam_on_moto.iam.access import Access
    from sam_on_moto.template.deployment import Deployment
    from sam_on_moto.wire.ports import listen

    deployment = Deployment(state_dir, options.parameters)
    translated = deployment.translated(options.template)
    listener = listen(options.port)
    port, access = listener.getsockname()[1], Access(enforce=not options.no_iam)
    serving = assembly.build(
        Cloud(state_dir, port, access=access),
        listener,
        end=ended.set,
        update=deployment.update,
        fast=not options.stock_speed,
    )
    with serving:
        facts = deployment.make(serving.parts, translated, options.template)
        facts["adminToken"] = serving.admin.token
        assembly.write_local(state_dir, facts)
        serving.admin.deployed()
        print(json.dumps(facts, indent=2), flush=True)
        ended.wait()


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    # Every part has been ended; a thread that still waits for something must not keep the process.
    sys.stdout.flush()
    os._exit(status)
