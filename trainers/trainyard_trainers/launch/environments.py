"""Python environments on a filesystem that nodes share: the first process that asks makes one, and
none is used before it is whole.

Used by the cluster's lifecycle scripts (the environment of all jobs) and by `launch` (packages of
one job's own). Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trainyard_job.common.files import write_text

INSTALL_TIMEOUT_SECONDS = 3600
#: Written last into an environment: without it there is half of one.
STAMP = "trainyard-environment.json"
CONDA_HOMES = (
    "/opt/conda/bin",
    "/opt/miniconda3/bin",
    "/opt/miniforge3/bin",
    "/root/miniconda3/bin",
)
UV_HOMES = ("/usr/local/bin", "/root/.local/bin", "/root/.cargo/bin")
_LAST_LINES = 8
#: Counts the ways in which an environment was put together: one that was made otherwise stays on
#: the shared filesystem, and is not used.
_LAYOUT = 2
#: Prints where an interpreter keeps packages; on some systems those with libraries lie elsewhere.
_PACKAGES = "import sysconfig; print('\\n'.join(map(sysconfig.get_path, ('purelib', 'platlib'))))"


class EnvironmentFailed(Exception):
    """An environment cannot be made; the message has the last words of the program that failed."""


@dataclass(frozen=True)
class Wanted:
    """What makes one environment another: its hash names its directory.

    `python` is a version, `base` the interpreter that it is made from.
    """

    kind: str
    python: str
    base: str
    requirements: tuple[str, ...]

    @classmethod
    def of(cls, document: dict[str, object], base: str = sys.executable) -> Wanted:
        """From `pythonEnvironment` of a job."""
        requirements = document.get("requirements")
        version = str(document.get("python") or _own_version())
        listed = sorted(map(str, requirements)) if isinstance(requirements, list) else []
        return cls(str(document.get("kind") or "venv"), version, base, tuple(listed))

    @property
    def name(self) -> str:
        made_of = json.dumps([_LAYOUT, asdict(self)])
        return "job-" + hashlib.sha256(made_of.encode()).hexdigest()[:20]


def _own_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def ready(directory: Path, wanted: Wanted) -> Path:
    """The interpreter of the environment below `directory`, which is built if it is not there.
    Raises EnvironmentFailed.

    A process that comes while another one builds waits for it. The environment is built in its own
    place, since scripts in it name that place; the stamp makes it whole.
    """
    path = directory / wanted.name
    python = path / "bin" / "python"
    if (path / STAMP).exists():
        return python
    with alone(path):
        if (path / STAMP).exists():  # built while we waited
            return python
        shutil.rmtree(path, ignore_errors=True)  # a process was killed while it built
        print(
            f"trainyard: building {wanted.kind} environment {path.name}: "
            f"{' '.join(wanted.requirements)}",
            flush=True,
        )
        make(wanted.kind, path, base=wanted.base, version=wanted.python)
        if wanted.python == _own_version():
            see(wanted.base, python)
        install(wanted.kind, python, wanted.requirements)
        _stamp(path, wanted)
    return python


def _stamp(path: Path, wanted: Wanted) -> None:
    write_text(path / STAMP, json.dumps(asdict(wanted), indent=1), durable=False)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One builder at a time, on all nodes that share the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(kind: str, path: Path, *, base: str, version: str) -> None:
    """An empty environment with pip (uv: without). Raises EnvironmentFailed."""
    if kind == "venv":
        # HyperPod's image has the module venv, but not ensurepip: pip then comes with us.
        command([base, "-m", "venv", *(["--without-pip"] if pip_wheel() else []), str(path)])
    elif kind == "uv":
        command(
            [
                find("uv", UV_HOMES),
                "venv",
                "--quiet",
                "--python",
                base if version == _own_version() else version,
                str(path),
            ]
        )
    elif kind == "conda":
        command(
            [
                find("conda", CONDA_HOMES),
                "create",
                "--yes",
                "--quiet",
                "--prefix",
                str(path),
                f"python={version}",
                "pip",
            ]
        )
    else:
        raise EnvironmentFailed(f"kind '{kind}' is unknown; use venv, uv or conda")


def install(kind: str, python: Path, requirements: Sequence[str]) -> None:
    """Raises EnvironmentFailed with the installer's last lines."""
    if not requirements:
        return
    doing = f"installing {', '.join(requirements)}"
    if kind == "uv":
        command(
            [
                find("uv", UV_HOMES),
                "pip",
                "install",
                "--quiet",
                "--python",
                str(python),
                *requirements,
            ],
            doing=doing,
        )
    else:
        # Otherwise the output ends with pip's version check, and a person who looks for the reason
        # sees only that.
        command(
            [
                str(python),
                *pip(),
                "--disable-pip-version-check",
                "install",
                "--quiet",
                *requirements,
            ],
            doing=doing,
        )


def pip_wheel() -> Path | None:
    """The pip that travels with the library: in the lifecycle bundle below `packages`, on a node
    beside the library itself.
    """
    beside = Path(__file__).resolve().parents[3]
    return next(
        (
            wheel
            for wheel in (beside / "pip.whl", beside / "packages" / "pip.whl")
            if wheel.exists()
        ),
        None,
    )


def pip() -> list[str]:
    """How an environment's interpreter is asked for pip: a wheel runs as it is."""
    wheel = pip_wheel()
    return ["-m", "pip"] if wheel is None else [f"{wheel}/pip"]


def see(base: str, python: Path) -> None:
    """The environment sees what its base has, torch above all.

    Whatever it has itself comes first.
    """
    directories = {program: _packages(program) for program in (base, str(python))}
    # The base may itself see another environment by such a file. Python reads the files of a
    # directory that `addsitedir` adds, but not those of one that a plain line names.
    lines = [
        f"import site; site.addsitedir({directory!r})\n"
        for directory in dict.fromkeys(directories[base])
    ]
    Path(directories[str(python)][0], "base.pth").write_text("".join(lines), encoding="utf-8")


def _packages(python: str) -> list[str]:
    return command([python, "-c", _PACKAGES]).splitlines()


def find(name: str, homes: Sequence[str]) -> str:
    """The path of a tool that not every node has. Raises EnvironmentFailed."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *homes]))
    if not found:
        raise EnvironmentFailed(
            f"kind is '{name}', but no {name} is installed on this node; use 'venv', or an image "
            f"with {name}"
        )
    return found


def command(
    argv: Sequence[str],
    *,
    timeout: float = INSTALL_TIMEOUT_SECONDS,
    doing: str = "",
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program (never through a shell) and return its stdout.

    Raises EnvironmentFailed with its last words; `doing` says what for.
    """
    what = doing or f"'{' '.join(argv)}'"
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=env,
        )
    except FileNotFoundError:
        raise EnvironmentFailed(f"the program '{argv[0]}' is not installed on this node") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(f"{what} did not end within {timeout:.0f} s") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:]
        raise EnvironmentFailed(
            f"{what} ended with {done.returncode}: {' | '.join(words) or 'no output'}"
        )
    return str(done.stdout)
