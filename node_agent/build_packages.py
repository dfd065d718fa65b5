"""Packs what the agent imports into one archive for each kind of processor, so that a node needs no
package index and no pip.

`python build_packages.py DIRECTORY` writes linux-x86_64.zip and linux-aarch64.zip into DIRECTORY.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PINS = Path(__file__).with_name("packages.txt")
MACHINES = ("x86_64", "aarch64")
#: HyperPod's images have 3.10. Compiled modules carry the version in their names, so several fit
#: side by side.
PYTHONS = ("3.10", "3.11", "3.12")
PIP = "pip==25.3"
PER_PYTHON = ("pydantic_core",)
#: botocore is here for signatures and credentials: its descriptions of four hundred services would
#: be nine tenths of the archive.
KEPT_DATA = {"endpoints.json", "partitions.json", "sdk-default-configuration.json", "_retry.json"}
#: The same bytes for the same packages, whenever it is built.
MOMENT = (2020, 1, 1, 0, 0, 0)


def main(argv: Sequence[str]) -> int:
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(argv[0])
    target.mkdir(parents=True, exist_ok=True)
    for machine in MACHINES:
        with tempfile.TemporaryDirectory() as scratch:
            site = Path(scratch, "site")
            for python in PYTHONS:
                install(
                    machine,
                    python,
                    site,
                    pins()
                    if python == PYTHONS[0]
                    else [pin for pin in pins() if pin.startswith(PER_PYTHON)],
                )
            pack(site, target / f"linux-{machine}.zip")
    fetch_pip(target / "pip.whl")
    return 0


def fetch_pip(wheel: Path) -> None:
    """pip itself, which runs from its wheel.

    It makes jobs' environments where the image has no ensurepip.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        PIP,
    ]
    with tempfile.TemporaryDirectory() as own:
        subprocess.run(
            [*command, "--dest", own],
            check=True,
            stdin=subprocess.DEVNULL,
            env=without_constraints(),
        )
        (found,) = Path(own).glob("pip-*.whl")
        shutil.copyfile(found, wheel)


def pins() -> list[str]:
    return [line for line in PINS.read_text().splitlines() if "==" in line]


def install(machine: str, python: str, site: Path, packages: Sequence[str]) -> None:
    """Unpack the pinned wheels of one kind of processor and Python into `site`; nothing is run."""
    platforms = [
        f"manylinux2014_{machine}",
        f"manylinux_2_17_{machine}",
        f"manylinux_2_28_{machine}",
    ]
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
        "--no-deps", "--no-compile", "--upgrade", "--only-binary=:all:", "--implementation=cp",
        f"--python-version={python}", *(f"--platform={name}" for name in platforms), *packages,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as own:
        subprocess.run(
            [*command, "--target", own],
            check=True,
            stdin=subprocess.DEVNULL,
            env=without_constraints(),
        )
        shutil.copytree(own, site, dirs_exist_ok=True)


def without_constraints() -> dict[str, str]:
    """packages.txt is exact; what else constrains pip here is about other environments."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PIP_CONSTRAINT", "PIP_TARGET")
    }


def pack(site: Path, archive: Path) -> None:
    part = archive.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in wanted(site):
            entry = zipfile.ZipInfo(path.relative_to(site).as_posix(), MOMENT)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, path.read_bytes())
    part.replace(archive)
    print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB")


def wanted(site: Path) -> Iterator[Path]:
    data = site / "botocore" / "data"
    for path in sorted(site.rglob("*")):
        described = path.is_relative_to(data) and not (
            path.parent == data and path.name in KEPT_DATA
        )
        tests = {"tests", "bin", "__pycache__"} & set(path.relative_to(site).parts[:-1])
        if path.is_file() and not described and not tests:
            yield path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
