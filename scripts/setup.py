"""Makes a clean clone runnable: virtual environment, locked packages, editable members, Slurm;
standard library only.

python scripts/setup.py [trainers | parallelcluster | docs]

With `trainers` also what their tests and measurements need, and with `parallelcluster` the API of
AWS ParallelCluster, in an environment of its own. With `docs` only what builds the site of the
pages, in its own environment, too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "trainyard-setup.stamp"
TRAINERS_STAMP = VENV / "trainyard-setup-trainers.stamp"
PARALLELCLUSTER = ROOT / ".venv-parallelcluster"
DOCS = ROOT / ".venv-docs"
#: Stands for the images of training jobs in the local cloud.
JOBS_VENV = ROOT / ".venv-training-jobs"
JOBS_STAMP = JOBS_VENV / "trainyard-setup.stamp"
MEMBERS = (
    "layers/contracts",
    "layers/core",
    "node_agent",
    "job_library",
    "trainers",
    "localcloud/sam_on_moto",
    "localcloud",
    "cli",
)
SLURM_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "munged")
SLURM_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
#: DeepSpeed compiles parts of itself at run time, SageMaker's toolkit one when it is installed; the
#: recipe mpirun is Open MPI.
TRAINER_PROGRAMS = {"g++": "g++", "mpirun": "openmpi-bin"}
#: The pages of the web console are looked at in it; its tests are left out where it is not.
BROWSER_PROGRAMS = {"chromium": "chromium"}
#: What judges whether people can use the pages: axe-core, as `requirements/console.json` names it.
AXE = ROOT / "build/axe"
#: ParallelCluster makes its template with a program for node.js, 10.13 or newer.
PARALLELCLUSTER_PROGRAMS = {"node": "nodejs"}
#: It is installed from source, must find the torch that is there, and builds nothing before it is
#: used.
DEEPSPEED = {"DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}
APT_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")


class SetupError(Exception):
    """Something a person must do first; the message says what."""


def fingerprint() -> str:
    """What the environment depends on: the lock, the members' metadata and the interpreter."""
    digest = hashlib.sha256(sys.version.encode())
    for path in [
        ROOT / "requirements/dev.txt",
        *(ROOT / member / "pyproject.toml" for member in MEMBERS),
        Path(__file__),
    ]:
        digest.update(path.read_bytes())
    # A moved clone has stale editable paths and stale shebangs.
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def privilege() -> list[str] | None:
    """The prefix that makes apt-get run as root without asking anything, or None."""
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def apt(packages: tuple[str, ...], why: str) -> None:
    """Install Debian packages, or say exactly which command a person has to run."""
    by_hand = f"sudo apt-get update && sudo {' '.join(APT_INSTALL)} {' '.join(packages)}"
    prefix = privilege()
    if shutil.which("apt-get") is None or prefix is None:
        raise SetupError(
            f"{why}. This user may not install packages; run this once, then the same make "
            f"command again:\n\n    {by_hand}\n"
        )
    print(f"setup: {why}; installing {' '.join(packages)}", flush=True)
    environment = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive"]
    for command in (["apt-get", "update", "-qq"], [*APT_INSTALL, "-qq", *packages]):
        done = subprocess.run(
            [*environment, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SetupError(
                f"{why}, and '{' '.join(command)}' "
                f"failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}\nBy hand:\n\n    {by_hand}\n"
            )


def missing_slurm() -> list[str]:
    """Slurm programs that are not installed; daemons are in sbin, often not on a user's PATH."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"])
    return [program for program in SLURM_PROGRAMS if shutil.which(program, path=path) is None]


def ensure_slurm() -> None:
    missing = missing_slurm()
    if missing:
        apt(SLURM_PACKAGES, f"Slurm is not complete (missing: {', '.join(missing)})")
    if still := missing_slurm():
        raise SetupError(
            f"the Slurm packages are installed, but {', '.join(still)} is not on the PATH nor "
            "in /usr/sbin"
        )


def missing_programs(programs: Mapping[str, str]) -> list[str]:
    return [program for program in programs if shutil.which(program) is None]


def ensure_programs(programs: Mapping[str, str], whose: str) -> None:
    """`programs` has the Debian package of each."""
    missing = missing_programs(programs)
    if missing:
        packages = tuple(programs[program] for program in missing)
        apt(packages, f"{whose} tests need {' and '.join(missing)}")
    if still := missing_programs(programs):
        raise SetupError(
            f"the packages are installed, but {' and '.join(still)} is not on the PATH"
        )


def ensure_venv(venv: Path = VENV) -> None:
    """Create the environment, and its seed packages from the distribution if split off there."""
    if (venv / "bin/python").exists():
        return
    create = [sys.executable, "-m", "venv", str(venv)]
    if subprocess.run(create, capture_output=True, check=False).returncode:
        shutil.rmtree(venv, ignore_errors=True)
        apt(
            (f"python{sys.version_info.major}.{sys.version_info.minor}-venv",),
            "this Python cannot make virtual environments",
        )
        subprocess.run(create, check=True)


def pip(*arguments: str, **environment: str) -> None:
    """`pip install` into the environment of all commands."""
    pip_into(VENV, *arguments, **environment)


def pip_into(venv: Path, /, *arguments: str, **environment: str) -> None:
    # A person sees each download with its size; a log is spared hundreds of lines.
    quiet = () if sys.stdout.isatty() else ("-q",)
    python = str(venv / "bin/python")
    command = [python, "-m", "pip", "install", *quiet, "--disable-pip-version-check", *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        raise SetupError(
            "pip failed (above); the network or the package index may be away. "
            f"Command:\n\n    {' '.join(command)}\n"
        )


def install_packages() -> None:
    print(
        "setup: installing the locked packages (once; torch is most of it, some GB where its build "
        "brings CUDA: a minute from a near index, many over a slow line)",
        flush=True,
    )
    pip("-r", str(ROOT / "requirements/dev.txt"))
    editable = [part for member in MEMBERS for part in ("-e", str(ROOT / member))]
    # The lock holds the build backend too, so nothing is fetched twice.
    pip("--no-deps", "--no-build-isolation", *editable)


def install_trainer_packages() -> None:
    """The lock holds all of them, so nothing is resolved, and torch is never looked at."""
    print("setup: installing the packages of the trainers' tests (once)", flush=True)
    lock = [
        line
        for line in (ROOT / "requirements/trainers.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    pip("--no-deps", *(line for line in lock if not line.startswith("deepspeed==")))
    pip(
        "--no-deps",
        "--no-build-isolation",
        *(line for line in lock if line.startswith("deepspeed==")),
        **DEEPSPEED,
    )


def install_client_generator() -> None:
    """Its bound of typer is older than ours, so nothing that it asks for is resolved."""
    pip("--no-deps", "-r", str(ROOT / "requirements/openapi-client.txt"))


def install_job_packages() -> None:
    """SageMaker's toolkits and all that they import; the lock holds it, so nothing is resolved."""
    print("setup: installing what stands for images of training jobs (once)", flush=True)
    pip_into(JOBS_VENV, "--no-deps", "-r", str(ROOT / "requirements/training-jobs.txt"))


def ensure_basis() -> str:
    """What every command needs. Returns its fingerprint."""
    ensure_slurm()
    wanted = fingerprint()
    if not STAMP.exists() or STAMP.read_text() != wanted:
        ensure_venv()
        install_packages()
        STAMP.write_text(wanted)
    return wanted


def ensure_trainers(basis: str) -> None:
    """What the tests and measurements of the trainers need besides."""
    ensure_programs(TRAINER_PROGRAMS, "the trainers'")
    wanted = hashlib.sha256(
        basis.encode()
        + (ROOT / "requirements/trainers.txt").read_bytes()
        + (ROOT / "requirements/openapi-client.txt").read_bytes()
    ).hexdigest()
    if not TRAINERS_STAMP.exists() or TRAINERS_STAMP.read_text() != wanted:
        install_trainer_packages()
        install_client_generator()
        TRAINERS_STAMP.write_text(wanted)


def ensure_browser() -> None:
    """What the tests of the web console need; without it they are left out, and say so."""
    try:
        ensure_programs(BROWSER_PROGRAMS, "the web console's")
    except SetupError as problem:
        print(f"setup: the tests of the web console are left out: {problem}", flush=True)
        return
    if (AXE / "axe.min.js").exists():
        return
    script = str(ROOT / "scripts/vendor_console.py")
    got = (
        shutil.which("npm")
        and not subprocess.run(
            [sys.executable, script, "axe", str(AXE)], stdin=subprocess.DEVNULL, check=False
        ).returncode
    )
    if not got:
        print("setup: no axe-core from npm: its tests of the web console are left out", flush=True)


def ensure_parallelcluster() -> None:
    """The API's environment."""
    ensure_programs(PARALLELCLUSTER_PROGRAMS, "ParallelCluster's")
    lock = ROOT / "requirements/parallelcluster.txt"
    ensure_locked(PARALLELCLUSTER, lock, "ParallelCluster's API (once; some 400 MB)")


def ensure_docs() -> None:
    """The environment that builds the site; it needs nothing else of ours."""
    ensure_locked(DOCS, ROOT / "requirements/docs.txt", "what builds the pages (once)")


def ensure_locked(venv: Path, lock: Path, what: str) -> None:
    """An environment of its own, installed from its lock unless that was done before."""
    stamp = venv / "trainyard-setup.stamp"
    wanted = hashlib.sha256(lock.read_bytes() + f"{sys.version}{ROOT}".encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"setup: installing {what}", flush=True)
    ensure_venv(venv)
    pip_into(venv, "-r", str(lock))
    stamp.write_text(wanted)


def ensure_headers() -> None:
    """What SageMaker's toolkit is compiled with, where the distribution splits it off."""
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        apt((f"python{version}-dev",), "this Python has no headers (Python.h)")


def ensure_job_environment() -> None:
    """The environment in which the local cloud runs programs of training jobs."""
    lock = (ROOT / "requirements/training-jobs.txt").read_bytes()
    # A moved clone has stale shebangs.
    wanted = hashlib.sha256(sys.version.encode() + str(ROOT).encode() + lock).hexdigest()
    if not JOBS_STAMP.exists() or JOBS_STAMP.read_text() != wanted:
        ensure_headers()
        ensure_venv(JOBS_VENV)
        install_job_packages()
        JOBS_STAMP.write_text(wanted)


def main(argv: Sequence[str]) -> int:
    if list(argv) not in ([], ["trainers"], ["parallelcluster"], ["docs"]):
        usage = "usage: python scripts/setup.py [trainers | parallelcluster | docs]"
        print(usage, file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        if list(argv) == ["docs"]:
            ensure_docs()
        else:
            basis = ensure_basis()
        if list(argv) == ["trainers"]:
            ensure_trainers(basis)
            ensure_browser()
            ensure_job_environment()
        if list(argv) == ["parallelcluster"]:
            ensure_parallelcluster()
    except SetupError as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return 1
    print(f"setup: ready in {time.monotonic() - started:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
