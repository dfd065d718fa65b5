"""A stand-in for `srun` with Pyxis: a process that sees an image's root and what is mounted there.

It reads the options that our batch script gives. An "image" is a file with the squashfs magic and,
as JSON, directories of this machine that it consists of, and its variables. Nothing else of the
machine is visible: no home, no /tmp of the node, none of what is not mounted (Enroot's default
configuration; Pyxis 0.24, `pyxis_slurmstepd.c`, for variables and the locale). It needs root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MAGIC = "hsqs"
#: The system of this machine, for images that have a Python and nothing of ours.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
#: Options that change nothing here. Any other one is refused, as srun does.
KNOWN = (
    "--kill-on-bad-exit=1", "--wait=86400", "--cpu-bind=none", "--mem=0", "--export=ALL",
    "--container-writable", "--no-container-mount-home", "--no-container-entrypoint",
)  # fmt: skip
TAKEN = ("--container-image", "--container-mounts", "--container-workdir")


def image(environment: Mapping[str, str] | None = None, *more: str) -> str:
    """The bytes of such an image; `more`: directories that it has besides."""
    variables = {"PATH": "/usr/bin:/bin", **(environment or {})}
    about = {"system": list(dict.fromkeys([*SYSTEM, *more])), "environment": variables}
    return MAGIC + json.dumps(about)


def install(directory: Path) -> None:
    """Put the stand-in onto a PATH, as `srun`."""
    program = directory / "srun"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(0o755)


def parsed(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options and command."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest[0].partition("=")
        if name in TAKEN and equals:
            options[name] = value
        elif rest[0] not in KNOWN:
            sys.exit(f"srun: unrecognized option '{rest[0]}'")
        rest.pop(0)
    return options, rest


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def place(root: Path, source: str, target: str, flags: str) -> None:
    if not os.path.lexists(source):
        sys.exit(f"pyxis: --container-mounts: source path does not exist: {source}")
    inside = root / target.lstrip("/")
    if os.path.islink(source):  # /bin of a system whose programs lie below /usr
        inside.symlink_to(os.readlink(source))
        return
    inside.mkdir(parents=True, exist_ok=True)
    mount("--rbind", source, str(inside))
    if flags == "ro":
        mount("-o", "remount,bind,ro", str(inside))


def start(options: Mapping[str, str], command: Sequence[str]) -> None:
    """Become the command in the image; this process has mounts of its own by now."""
    text = Path(options["--container-image"]).read_text()
    if not text.startswith(MAGIC):
        sys.exit("pyxis: failed to create container filesystem: Invalid image format")
    about = json.loads(text[len(MAGIC) :])
    root = Path("/mnt")
    mount("-t", "tmpfs", "none", str(root))
    for directory in about["system"]:
        place(root, directory, directory, "ro")
    for directory in ("/proc", "/sys", "/dev"):
        place(root, directory, directory, "")
    for entry in options["--container-mounts"].split(","):
        source, _, rest = entry.partition(":")
        target, _, flags = rest.partition(":")
        place(root, source, target or source, flags)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "root").mkdir(exist_ok=True)
    os.chroot(root)
    os.chdir(options["--container-workdir"])
    node = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL")}
    environment = {**node, **about["environment"]}  # an image's variables win
    os.execvpe(command[0], list(command), environment)


def main() -> None:
    words = sys.argv[1:]
    if words == ["--help"]:
        print("      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH")
    elif words[0] == "--inside":
        start(*parsed(words[1:]))
    else:
        parsed(words)
        unshare = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__]
        os.execvp("unshare", [*unshare, "--inside", *words])


if __name__ == "__main__":
    main()
