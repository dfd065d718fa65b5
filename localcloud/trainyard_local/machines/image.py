"""The disk that machine nodes start from: Debian, with HyperPod's files where its image has them.

It is built once, and shared read-only. When another has to be built, those that nobody uses go.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard_local.machines.host import Impossible

SUITE = "bookworm"
#: What HyperPod's image has and Debian's packages give. No python3-venv: the real image lacks it,
#: too.
PACKAGES = (
    "ca-certificates", "dbus", "git", "hostname", "iproute2", "kmod", "munge", "openssh-server",
    "procps", "python3", "python3-pip", "slurm-client", "slurmctld", "slurmd", "sudo", "systemd",
    "systemd-sysv",
)  # fmt: skip
SOURCES = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: What the image has beside the packages, laid over the root as it is.
FILES = Path(__file__).with_name("overlay")
#: Slurm's commands and daemons. HyperPod keeps them below /opt/slurm, and in the PATH of login
#: shells only.
COMMANDS = (
    "sacct",
    "sacctmgr",
    "salloc",
    "sattach",
    "sbatch",
    "sbcast",
    "scancel",
    "scontrol",
    "sinfo",
    "sprio",
    "squeue",
    "srun",
    "sstat",
)
DAEMONS = ("slurmctld", "slurmd")
#: Left to the lifecycle scripts, or to the set-up before OnInitComplete.
NOT_AT_BOOT = (
    "munge",
    "slurmctld",
    "slurmd",
    "getty@tty1",
    "console-getty",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_reap",
)
ACCOUNTS = {"ubuntu": 1000, "ssm-user": 1001}
BUILD_SECONDS = 900
PROC = Path("/proc")
#: What this module makes in the cache; `left` by a build or a removal that was killed.
_NAME = re.compile(r"^(?:base|image)-[0-9a-f]{12}(?P<left>\.part|\.gone)?$")


def cache_directory() -> Path:
    """Where images are kept: outside every state directory, so that `local down` leaves them."""
    chosen = os.environ.get("TRAINYARD_LOCAL_IMAGES")
    return Path(chosen) if chosen else Path.home() / ".cache" / "trainyard" / "machines"


def ready() -> Path:
    """The image's root, built if it is not there, and kept as long as this process lives.

    Raises Impossible when it cannot be built.
    """
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory):
        was_there = there()
        packages = _digest(" ".join((SUITE, *PACKAGES)).encode())
        base = _built(directory / f"base-{packages}", _bootstrap)
        root = _built(_image(), lambda root: _lay_out(base, root))
        _hold(root)
        if not was_there:
            _remove_unused(directory, {base, root})
        return root


def there() -> bool:
    """Whether the image is built already."""
    return _image().is_dir()


def _image() -> Path:
    return cache_directory() / f"image-{_digest(_recipe())}"


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]


def _recipe() -> bytes:
    """Everything that the image is made of: this file and those that are laid over."""
    files = sorted(path for path in FILES.rglob("*") if path.is_file())
    return Path(__file__).read_bytes() + b"".join(
        str(path.relative_to(FILES)).encode() + path.read_bytes() for path in files
    )


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One builder at a time; the others wait for its result."""
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _built(root: Path, build: object) -> Path:
    """`root`, made by `build` under another name first.

    So a build that was killed leaves nothing that counts.
    """
    if not root.is_dir():
        part = root.with_name(root.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        assert callable(build)
        build(part)
        part.rename(root)
    return root


def _lock_of(root: Path) -> Path:
    return root.with_name(f".{root.name}.lock")


def _hold(root: Path) -> None:
    """The descriptor stays open on purpose: the kernel closes it with the process."""
    held = os.open(_lock_of(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(held, fcntl.LOCK_SH)


def _remove_unused(directory: Path, keep: Collection[Path]) -> None:
    """Every other image and base, and what killed builds and removals left."""
    for root in sorted(directory.iterdir()):
        named = _NAME.match(root.name)
        if named is None or root in keep or _in_use(root):
            continue
        gone = root
        if not named["left"]:  # a removal that is killed leaves nothing that counts
            gone = root.rename(root.with_name(root.name + ".gone"))
            _lock_of(root).unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)


def _in_use(root: Path) -> bool:
    """Whether a local cloud may start nodes from it, or a node runs on it."""
    if _lock_of(root).exists():
        with open(_lock_of(root)) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    lower = f"lowerdir={root},".replace(" ", "\\040")  # as mountinfo writes it
    return any(lower in _text(mounts) for mounts in PROC.glob("[0-9]*/mountinfo"))


def _text(path: Path) -> str:
    """What it holds; '' where its process has ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def mirror() -> str:
    """The package mirror of this machine's own sources.

    Raises Impossible if they name none for the suite.
    """
    for place in SOURCES:
        text = place.read_text(errors="replace") if place.is_file() else ""
        found = re.search(
            rf"^URIs:\s*(\S+)\n(?:.+\n)*?Suites:(?:.*\s)?{SUITE}(?:\s|$)", text, re.M
        ) or re.search(rf"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{SUITE}\s", text, re.M)
        if found:
            return found[1]
    raise Impossible(
        f"no package source of this machine has Debian's {SUITE}",
        f"Add one to /etc/apt/sources.list.d, such as: deb http://MIRROR/debian {SUITE} main",
    )


def _bootstrap(root: Path) -> None:
    keyring = [f"--keyring={KEYRING}"] if KEYRING.exists() else []
    alone = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--",
    ]  # what it mounts goes with it, also when it is killed
    argv = [
        *alone,
        "debootstrap",
        "--variant=minbase",
        *keyring,
        f"--include={','.join(PACKAGES)}",
        SUITE,
        str(root),
        mirror(),
    ]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Impossible(
            f"debootstrap did not end within {BUILD_SECONDS} s",
            "Look at the network and try again.",
        ) from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Impossible(
            f"debootstrap failed: {said[-1] if said else done.returncode}",
            "Is the package mirror of this machine reachable?",
        )


def _lay_out(base: Path, root: Path) -> None:
    """The base system with Slurm, users and units where HyperPod's image has them."""
    subprocess.run(["cp", "-a", str(base), str(root)], check=True)
    for stale in (
        "etc/hostname",
        "etc/resolv.conf",
        "etc/munge/munge.key",
        "etc/machine-id",
        "var/lib/dbus/machine-id",
    ):
        (root / stale).unlink(missing_ok=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):  # each machine makes its own
        key.unlink()
    _move_slurm(root)
    for name, number in ACCOUNTS.items():
        _account(root, name, number)
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    for daemon in ("munge", *DAEMONS):
        (root / "etc/init.d" / daemon).unlink(missing_ok=True)
    for unit in NOT_AT_BOOT:
        _not_at_boot(root, unit if "." in unit else f"{unit}.service")
    (root / "etc/systemd/system/multi-user.target.wants/apt-at-boot.service").symlink_to(
        "/etc/systemd/system/apt-at-boot.service"
    )
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for directory in (
        ".fsx",
        "fsx",
        "opt/ml/config",
        "opt/sagemaker_cluster",
        "opt/trainyard/env",
        "var/log/provision",
    ):
        (root / directory).mkdir(parents=True, exist_ok=True)


def _move_slurm(root: Path) -> None:
    for directory, names in (("bin", COMMANDS), ("sbin", DAEMONS)):
        target = root / "opt/slurm" / directory
        target.mkdir(parents=True)
        for name in names:
            (root / "usr" / directory / name).rename(target / name)
    configuration = root / "opt/slurm/etc"
    configuration.mkdir()
    shutil.rmtree(root / "etc/slurm", ignore_errors=True)
    (root / "etc/slurm").symlink_to("/opt/slurm/etc")  # where Debian's programs look
    slurm = next(
        line.split(":")
        for line in (root / "etc/passwd").read_text().splitlines()
        if line.startswith("slurm:")
    )
    for spool in ("var/spool/slurmctld", "var/log/slurm"):
        (root / spool).mkdir(parents=True, exist_ok=True)
        os.chown(root / spool, int(slurm[2]), int(slurm[3]))
    os.chown(configuration, int(slurm[2]), int(slurm[3]))


def _account(root: Path, name: str, number: int) -> None:
    home = root / "home" / name
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, number, number)
    with open(root / "etc/passwd", "a") as passwd:
        passwd.write(f"{name}:x:{number}:{number}::/home/{name}:/bin/bash\n")
    with open(root / "etc/group", "a") as group:
        group.write(f"{name}:x:{number}:\n")
    with open(root / "etc/shadow", "a") as shadow:
        shadow.write(f"{name}:*:19000:0:99999:7:::\n")


def _not_at_boot(root: Path, unit: str) -> None:
    for wanted in (root / "etc/systemd/system").glob(f"*.wants/{unit}"):
        wanted.unlink()
