"""Writes the locked requirement files from the .in files, in throw-away environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from setup import DEEPSPEED

ROOT = Path(__file__).resolve().parents[1]
HEADER = (
    "# Locked by `make lock` from {source}; exact versions, no hosts{more}.\n"
    "# Change the .in file, not this one.\n"
)
# A CPU build carries a local version (+cpu) that plain indexes do not know.
LOCAL_VERSION = re.compile(r"\+[A-Za-z0-9.]+$")
# Wheels that torch asks for on a machine with CUDA. They depend on the machine, so the lock leaves
# them out.
MACHINE = re.compile(r"^(nvidia-(?!ml-py)|triton|cuda-)")


def frozen(
    source: Path, python: str, basis: Path | None = None, alike: Sequence[Path] = ()
) -> list[str]:
    """Install `source` into a fresh environment and return its packages as name==version, sorted.

    A `basis`, another lock, is installed first and does not change; what it holds is left out.
    What the locks `alike` hold, too, gets their version.
    """
    with tempfile.TemporaryDirectory() as directory:
        if python == sys.executable:
            venv.create(directory, with_pip=True)
        else:
            subprocess.run([python, "-m", "venv", directory], check=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        held = basis.read_text().splitlines() if basis else []
        if basis:
            subprocess.run([*pip, "install", "-q", "-r", str(basis)], check=True)
        # DeepSpeed must find the torch of the basis when it is built.
        on_top = ["--no-build-isolation", "-c", str(basis)] if basis else []
        on_top += [part for lock in alike for part in ("-c", str(lock))]
        subprocess.run(
            [*pip, "install", "-q", *on_top, "-r", str(source)],
            check=True,
            env={**os.environ, **DEEPSPEED},
        )
        listing = subprocess.run(
            [*pip, "list", "--format=freeze"], check=True, capture_output=True, text=True
        ).stdout
    pins = [LOCAL_VERSION.sub("", line.strip()) for line in listing.splitlines()]
    return sorted(
        (
            pin
            for pin in pins
            if pin not in held and not pin.startswith("pip==") and not MACHINE.match(pin)
        ),
        key=str.lower,
    )


def write(source: Path, python: str, basis: Path | None = None, alike: Sequence[Path] = ()) -> None:
    target = source.with_suffix(".txt")
    more = f"; only what {basis.name} does not hold" if basis else ""
    target.write_text(
        HEADER.format(source=source.name, more=more)
        + "\n".join(frozen(source, python, basis, alike))
        + "\n"
    )
    print(f"wrote {target.relative_to(ROOT)}")


def main() -> int:
    from sam import find_python313, how_to_get_python313

    for name in ("runtime", "dev"):
        write(ROOT / "requirements" / f"{name}.in", sys.executable)
    development = ROOT / "requirements" / "dev.txt"
    trainers = ROOT / "requirements" / "trainers.in"
    write(trainers, sys.executable, development)
    jobs = ROOT / "requirements" / "training-jobs.in"
    write(jobs, sys.executable, alike=(development, trainers.with_suffix(".txt")))
    write(ROOT / "requirements" / "parallelcluster.in", sys.executable)
    write(ROOT / "requirements" / "docs.in", sys.executable)
    python313 = find_python313()
    if python313 is None:
        print(how_to_get_python313(), file=sys.stderr)
        return 1
    write(ROOT / "requirements" / "sam.in", python313)
    subprocess.run(
        [
            "npm",
            "install",
            "--package-lock-only",
            "--omit-lockfile-registry-resolved",
            "--no-audit",
            "--no-fund",
        ],
        cwd=ROOT / "requirements" / "asl",
        check=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
