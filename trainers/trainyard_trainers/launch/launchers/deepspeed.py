"""Recipe `deepspeed`: DeepSpeed's own launcher on every node, started there by Slurm instead of by
ssh from the first one.

This is what `deepspeed --no_ssh --hostfile ... --node_rank ...` does, without the command's first
process: it imports torch once more on every node, only to start `deepspeed.launcher.launch` with
these arguments. Tried with deepspeed 0.19.8 (ZeRO-1 and ZeRO-3).
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ...common.failure import Failure
from .. import ranks
from ..allocation import Allocation
from . import CannotLaunch

#: DeepSpeed compiles parts of itself at first use.
_BUILDERS = {"g++": "g++", "ninja": "ninja-build, or ninja from pip"}


def run(allocation: Allocation) -> Failure:
    """Run this node's workers to their end."""
    _check(allocation)
    ranks.tell(allocation)
    (allocation.job.attempt_dir / f"hostfile-{allocation.node.name}").write_text(
        hostfile(allocation), encoding="utf-8"
    )
    for name, value in environment(allocation).items():
        os.environ.setdefault(name, value)
    ranks.pass_signals_on(allocation)
    remove_stale_locks(Path(os.environ["TORCH_EXTENSIONS_DIR"]), allocation)
    return ranks.outcome(allocation, exit_code(ranks.start(command(allocation)).wait()))


def _check(allocation: Allocation) -> None:
    # Beside the interpreter lies what pip installed; it is on no PATH unless the environment is
    # activated.
    os.environ["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")]
    )
    if importlib.util.find_spec("deepspeed") is None:
        raise CannotLaunch(
            "the environment has no package deepspeed; add it to "
            "job.pythonEnvironment.requirements or to the cluster's"
        )
    missing = [package for name, package in _BUILDERS.items() if shutil.which(name) is None]
    if missing and not needs_no_build(allocation):
        raise CannotLaunch(
            "DeepSpeed compiles parts of itself at first use, for which this node lacks "
            f"{' and '.join(missing)}; install it"
        )


def hostfile(allocation: Allocation) -> str:
    """DeepSpeed's: one node a line, in the order of the ranks.

    For the program and for people; the launcher gets `world`.
    """
    return "".join(f"{name} slots={allocation.processes}\n" for name in allocation.node.names)


def world(allocation: Allocation) -> str:
    """The hostfile as DeepSpeed's launcher takes it: base64 of {node: [slots]}."""
    slots = {name: list(range(allocation.processes)) for name in allocation.node.names}
    return base64.urlsafe_b64encode(json.dumps(slots).encode()).decode()


def command(allocation: Allocation) -> list[str]:
    """The launcher's argument list.

    The program's own strings are arguments of their own at its end.
    """
    return [
        sys.executable,
        "-u",
        "-m",
        "deepspeed.launcher.launch",
        f"--world_info={world(allocation)}",
        f"--node_rank={allocation.node.rank}",
        f"--master_addr={allocation.master_address}",
        f"--master_port={allocation.master_port}",
        "--log_level=warning",
        # The rank is in the environment; programs that do not expect the argument --local_rank must
        # run too.
        "--no_local_rank",
        "--module",
        __name__,
        *allocation.job.command(),
    ]


def environment(allocation: Allocation) -> dict[str, str]:
    """What DeepSpeed needs, unless the user set it."""
    extensions = allocation.job.run_dir / "torch-extensions" / allocation.node.name
    found = {"TORCH_EXTENSIONS_DIR": str(extensions)}
    if not any(Path("/dev", device).exists() for device in ("nvidia0", "kfd")):
        found["DS_ACCELERATOR"] = "cpu"
    return found


def needs_no_build(allocation: Allocation) -> bool:
    """On CPU the compiled part is an all-reduce through shared memory, which is used only when all
    ranks are on one node.
    """
    return (
        os.environ.get("DS_ACCELERATOR", environment(allocation).get("DS_ACCELERATOR")) == "cpu"
        and len(allocation.node.names) > 1
    )


def remove_stale_locks(extensions: Path, allocation: Allocation) -> None:
    """Remove the lock of a process that was killed while it compiled: every later process would
    wait for it for ever.
    """
    if (
        extensions == allocation.job.run_dir / "torch-extensions" / allocation.node.name
    ):  # no other process uses it: older attempts are dead
        for lock in extensions.glob("*/lock"):
            lock.unlink(missing_ok=True)


def exit_code(code: int) -> int:
    """DeepSpeed exits with a rank's negative code, of which the operating system keeps eight bits:
    247 is SIGKILL.
    """
    return 128 + (256 - code) if code > 192 else code


# -- in each worker ------------------------------------------------------------------------------
def main(command: Sequence[str]) -> None:
    """Be one rank."""
    ranks.run(command, before=_without_the_unused)


def _without_the_unused() -> None:
    """Else every node spends most of a minute on compiling it, in each rank's
    `init_distributed`.
    """
    if (
        os.environ.get("DS_ACCELERATOR") == "cpu"
        and os.environ["LOCAL_SIZE"] != os.environ["WORLD_SIZE"]
    ):
        ops = importlib.import_module("deepspeed.ops")
        # What DeepSpeed asks before it builds. Left out, it would be found out by trying the
        # compiler, for everything it could build.
        vars(ops).setdefault("__compatible_ops__", {})["deepspeed_shm_comm"] = False


if __name__ == "__main__":
    main(sys.argv[1:])
