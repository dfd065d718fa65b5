"""Recipe `neuron`: torchrun's agent with the variables of Neuron and EFA for the nodes' instance
type, and compilation as a step before.

Never run on Trainium or Inferentia: none was at hand. The variables are those of AWS's
documentation for Neuron and EFA.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from trainyard_job.common.files import write_json

from ...common import precompile
from ...common.failure import Failure
from .. import own_log
from ..allocation import PORTS, Allocation
from . import CannotLaunch


@dataclass(frozen=True)
class Instance:
    """One instance type: `cores` that the runtime shows to programs (on trn2 two physical ones make
    one), and whether it has EFA.
    """

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
    # Trainers fork their writing process, and EFA must know that.
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
    """Raises CannotLaunch for a type that is not in INSTANCES, and for more processes than it has
    cores.
    """
    name = allocation.job.document.get("instanceType")
    found = INSTANCES.get(str(name))
    if found is None:
        raise CannotLaunch(
            f"instance type {name or 'not given: the job may use nodes of several types'}; known "
            f"are {', '.join(INSTANCES)}"
        )
    if allocation.processes > found.cores:
        raise CannotLaunch(
            f"job.processesPerNode is {allocation.processes}, but {name} has {found.cores} "
            f"NeuronCores; ask for at most {found.cores}"
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


# -- compilation ---------------------------------------------------------------------------------
def precompiled(allocation: Allocation) -> None:
    """Return when the program's graphs are compiled. Raises CannotLaunch if a compilation failed:
    training would only fail in the same way.

    All nodes take part, because the number of processes is part of the graphs. A file in the run's
    directory says that it was done. Every node reads it before the first node can write it, because
    the first node's compilation needs all others.
    """
    whole = allocation.job.run_dir / "precompile.json"
    if not whole.exists():
        record = allocation.job.attempt_dir / f"precompile-{allocation.node.name}.json"
        subprocess.run(
            precompile_command(allocation, record),
            env=own_log.kept_out(os.environ),  # what the compilations print is judged
            stdin=subprocess.DEVNULL,
            check=False,
        )  # the record says how it ended
        try:
            precompile.require_compiled(record)
        except precompile.NotCompiled as error:
            raise CannotLaunch(f"training does not start: {error}") from None
        if allocation.node.rank == 0:
            write_json(whole, json.loads(record.read_text(encoding="utf-8")))


def precompile_command(allocation: Allocation, record: Path) -> list[str]:
    """`neuron_parallel_compile` of what trains, with its very flags: any other is another graph."""
    from .. import elastic

    place = elastic.Placement.of(allocation)
    # A rendezvous of its own, below Linux's ephemeral ports too.
    apart = replace(
        place,
        master_port=place.master_port + PORTS,
        run=f"{place.run}-precompile",
        log_dir=place.log_dir / "precompile",
    )
    return [
        sys.executable,
        "-u",
        "-m",
        "trainyard_trainers.precompile",
        f"--output={record}",
        "--",
        sys.executable,
        "-m",
        "torch.distributed.run",
        *apart.torchrun_arguments(),
        "-m",
        "trainyard_trainers.launch.program",
        *allocation.job.command(),
    ]
