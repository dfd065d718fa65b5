"""Makes one Python layer for `sam build`: locked packages and our own, all compiled."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements/runtime.txt"
#: The functions' runtime and machine in template.yaml: arm64 on Amazon Linux 2023, whose glibc is
#: 2.34.
PYTHON = (3, 13)
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64")


def build(source: Path, artifacts: Path) -> None:
    """Put what a layer's folder needs below `artifacts`/python, which is on Lambda's path."""
    target = artifacts / "python"
    _install(source / "requirements.txt", target)
    for package in source.iterdir():
        if (package / "__init__.py").exists():
            _copy(package, target / package.name)
    compile_all(target)


def _install(requirements: Path, target: Path) -> None:
    """The locked versions, in wheels for the functions' machine; nothing is built or run here."""
    platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
    version = ".".join(map(str, PYTHON))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    command += [
        "--target",
        str(target),
        *platforms,
        "--python-version",
        version,
        "--only-binary",
        ":all:",
    ]
    command += ["--constraint", str(LOCK), "--requirement", str(requirements)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _copy(package: Path, target: Path) -> None:
    shutil.copytree(
        package, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )


def compile_all(target: Path) -> None:
    """Compile modules so that they hold whatever time a zip gives the sources.

    Files that are not our Python are left out in peace.
    """
    compileall.compile_dir(
        target,
        stripdir=str(target.parent),
        prependdir="/opt",  # where Lambda unpacks layers: the paths in tracebacks
        quiet=2,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def main(arguments: list[str]) -> int:
    if sys.version_info[:2] != PYTHON:
        wanted = ".".join(map(str, PYTHON))
        print(
            (
                f"the layers are for Python {wanted}, the functions' runtime, not "
                f"{sys.version.split()[0]}: run python{wanted}"
            ),
            file=sys.stderr,
        )
        return 1
    source, artifacts = map(Path, arguments)
    build(source, artifacts)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
