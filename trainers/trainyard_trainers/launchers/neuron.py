"""Recipe `neuron`: torchrun's agent with the variables of Neuron and EFA for the nodes' instance type, and compilation as a step before.

Never run on Trainium or Inferentia: none was at hand. The variables are those of AWS's documentation for Neuron and EFA.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import ranks
from ..allocation import Allocation
from ..failure import Failure
from . import CannotLaunch

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Instance:
    """One instance type: `cores` that the runtime shows to programs (on trn2 two physical ones make one), and whether it has EFA."""

    cores: int
    efa: bool = False


INSTANCES = {
    "ml.trn1.2xlarge": Instance(cores=2),
    "ml.trn1.32xlarge": Instance(cores=32, efa=True),
    "ml.trn1n.32xlarge": Instance(cores=32, efa=True),
    "ml.trn2.3xlarge": Instance(cores=4),
    "ml.trn2.48xlarge": Instance(cores=64, efa=True),
    "ml.inf2.xlarge": Instance(cores=2),
    "ml.inf2.8xlarge": Instance(cores=2),
    "ml.inf2.24xlarge": Instance(cores=12),
    "ml.inf2.48xlarge": Instance(cores=24),
}
NEURON = {
    "NEURON_CC_FLAGS": "--model-type=transformer",
    "NEURON_FUSE_SOFTMAX": "1",
    # The device works ahead while the host prepares the next steps.
    "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS": "3",
    # glibc's arenas otherwise grow with every thread of the runtime.
    "MALLOC_ARENA_MAX": "64",
}
EFA = {
    "FI_PROVIDER": "efa",
    "FI_EFA_USE_DEVICE_RDMA": "1",
    # Trainers fork (their writing process), which EFA must be told.
    "FI_EFA_FORK_SAFE": "1",
}


def run(allocation: Allocation) -> Failure:
    """Compile if the job asks for it, then run this node's workers to their end."""
    from .. import elastic  # here, so that a plain program never pays for it

    for name, value in environment(allocation).items():
        os.environ.setdefault(name, value)
    if allocation.job.document.get("precompile"):
        precompiled(allocation)
    return elastic.run(elastic.Placement.of(allocation), allocation.job.command())


def instance(allocation: Allocation) -> Instance:
    """Raises CannotLaunch for a type that is not in INSTANCES, and for more processes than it has cores."""
    name = allocation.job.document.get("instanceType")
    found = INSTANCES.get(str(name))
    if found is None:
        raise CannotLaunch(f"instance type {name or 'not given: the job may use nodes of several types'}; known are {', '.join(INSTANCES)}")
    if allocation.processes > found.cores:
        raise CannotLaunch(
            f"job.processesPerNode is {allocation.processes}, but {name} has {found.cores} NeuronCores; ask for at most {found.cores}"
        )
    return found


def environment(allocation: Allocation) -> dict[str, str]:
    """What the runtime, the compiler and EFA need, unless the user set it. Raises CannotLaunch."""
    kind = instance(allocation)
    return {
        **NEURON,
        **(EFA if kind.efa and len(allocation.node.names) > 1 else {}),
        # On the shared filesystem: what one run compiled, no node and no later run compiles again.
        "NEURON_COMPILE_CACHE_URL": str(allocation.job.run_dir.parents[1] / "neuron-compile-cache"),
        # A core belongs to one process; torchrun starts one for each.
        "NEURON_RT_NUM_CORES": "1",
    }


# -- compilation -------------------------------------------------------------------------------------------------------
def precompiled(allocation: Allocation) -> None:
    """Return when the program's graphs are compiled: the first node does it once for the run, the others wait for its word.

    Raises CannotLaunch while a compilation failed: training would compile it again on every node, and fail there.
    """
    told = allocation.job.run_dir / "precompile.json"
    if allocation.node.rank == 0:
        if not _succeeded(_read(told)):
            told.unlink(missing_ok=True)
            ranks.start(precompile_command(allocation, told)).wait()
            if not told.exists():
                raise CannotLaunch("the compilation ended without a summary; its messages are in the job's log")
    else:
        while not told.exists():  # the first node's launcher ends this one where it fails
            time.sleep(_POLL_SECONDS)
    if not _succeeded(found := _read(told)):
        raise CannotLaunch(
            f"{found.get('failed', 'some')} compilations failed, so training does not start; the job's log and {told} say why"
        )


def precompile_command(allocation: Allocation, told: Path) -> list[str]:
    """`neuron_parallel_compile` of the very command that trains: any other flag is another graph."""
    return [
        sys.executable,
        "-u",
        "-m",
        "trainyard_trainers.precompile",
        "--output",
        str(told),
        "--",
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={allocation.processes}",
        f"--master-port={allocation.master_port}",
        "-m",
        "trainyard_trainers.program",
        *allocation.job.command(),
    ]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _succeeded(told: dict[str, Any]) -> bool:
    return bool(told) and not told.get("failed")
