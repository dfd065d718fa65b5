"""Refuses specs whose fields are well-formed but which AWS or a node would refuse hours later.

Every function returns a sentence about what is wrong and what would be right, or None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping

#: A mount over one of these hides the system itself, or what a backend or Trainyard keeps
#: there.
SYSTEM_DIRECTORIES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin",
    "/sys", "/tmp",  # noqa: S108
    "/usr", "/var", "/opt/aws", "/opt/ml", "/opt/sagemaker", "/opt/slurm", "/opt/trainyard",
)  # fmt: skip
#: Accounts of Ubuntu's image, AWS, Slurm or Session Manager (/etc/passwd of the image, and its
#: services' users).
SYSTEM_ACCOUNTS = frozenset({
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy",
    "www-data", "backup", "list", "irc", "gnats", "nobody", "messagebus", "sshd", "syslog",
    "tcpdump", "ubuntu", "ec2-user", "ssm-user", "slurm", "munge", "mysql", "docker", "trainyard",
    "systemd-network", "systemd-resolve", "systemd-timesync",
})  # fmt: skip
#: What launchers give each process: torch's elastic agent, DeepSpeed's launch.py and our mpirun.
LAUNCHERS_NAMES = frozenset({
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "CROSS_RANK",
    "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "LOCAL_SIZE",
    "CROSS_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
})  # fmt: skip
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]+")


def climbing(path: str) -> str | None:
    """Refuse an absolute path that leads elsewhere than it seems."""
    if any(
        segment in (".", "..") or not _SEGMENT.fullmatch(segment) for segment in path.split("/")[1:]
    ):
        return "must not contain '.' or '..' as a part; give the plain path, such as /fsx"
    return None


def mounted_over_system(path: str) -> str | None:
    """Refuse a mount that hides a directory of the system, or lies in one."""
    for system in SYSTEM_DIRECTORIES:
        if path == system or path.startswith(system + "/") or system.startswith(path + "/"):
            return (
                f"'{path}' would hide {system} or lie in it; choose a directory of its own, "
                "such as /fsx or /data"
            )
    return None


def mounts_that_meet(paths: Iterable[str]) -> str | None:
    """Refuse two mounts on one path, or one in the other: one hides the other, or fails."""
    seen: list[str] = []
    for path in paths:
        for other in seen:
            if path == other:
                return f"'{path}' is mounted twice; give every mount a path of its own"
            if path.startswith(other + "/") or other.startswith(path + "/"):
                return f"'{path}' and '{other}' lie in each other; mount them side by side"
        seen.append(path)
    return None


def account_taken(users: Iterable[tuple[str, int]]) -> str | None:
    """Refuse a user name or uid that the system has, or that two users share."""
    names: set[str] = set()
    owners: dict[int, str] = {}
    for name, uid in users:
        if name in SYSTEM_ACCOUNTS:
            return f"'{name}' is an account of the system; choose another name"
        if name in names:
            return f"'{name}' is given twice; give every user once, with all keys"
        if uid in owners:
            return (
                f"uid {uid} is given to '{owners[uid]}' and '{name}'; "
                "give every user a uid of its own"
            )
        names.add(name)
        owners[uid] = name
    return None


def tags_not_ours(tags: Mapping[str, str]) -> str | None:
    """Refuse keys of AWS (`aws:`, in any case of letters) and of ours (`trainyard:`)."""
    for key in tags:
        if key.lower().startswith("aws:"):
            return (
                f"'{key[:100]}' begins with 'aws:', which AWS keeps for itself; choose another key"
            )
        if key.lower().startswith("trainyard:"):
            return (
                f"'{key[:100]}' begins with 'trainyard:', which Trainyard sets itself; "
                "choose another key"
            )
    return None


def file_and_directory(paths: Collection[str]) -> str | None:
    """Refuse a path that is a file and holds another file."""
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if (parent := "/".join(parts[:end])) in paths:
                return (
                    f"'{parent}' is a file, and '{path}' needs it to be a directory; "
                    "rename one of them"
                )
    return None


def launchers_name(names: Iterable[str], recipe: str) -> str | None:
    """Refuse a variable that the recipe's launcher sets: the program would not see the user's.

    Recipe 'command' has no launcher, and a program may need them to be set.
    """
    for name in names if recipe != "command" else ():
        if name in LAUNCHERS_NAMES or name.startswith("OMPI_COMM_WORLD_"):
            return (
                f"'{name}' is set by the launcher (recipe '{recipe}') for each process; remove it, "
                "and say with 'nodes' and 'processesPerNode' how many there are"
            )
    return None


def text_of(value: object) -> object:
    """A number as text, where only one text can be meant; anything else as it is.

    Raises ValueError for what must be put in quotes.
    """
    if isinstance(value, bool):
        raise ValueError(
            "must be a text; true and false are written in several ways (True, yes, 1), so put the "
            f"one that the program reads in quotes: '{str(value).lower()}'"
        )
    if value is None:
        raise ValueError("must be a text, not null; put it in quotes ('' is the empty text)")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        if not math.isfinite(value) or "e" in text:
            raise ValueError(
                "must be a text, or a number without an exponent; put this one in quotes, as the "
                f"program reads it: '{text}'"
            )
        return text
    return value
