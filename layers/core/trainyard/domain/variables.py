"""The variables that a run's program will find, as far as they are known before it is submitted.

What the launcher sets on the nodes is written in trainyard_trainers.launch, which the control plane
does not have; tests/contract/test_dry_run_variables.py compares the two. Values of secrets are
known to nobody here: a secret is shown by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trainyard_contracts import places
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.specs import JobSpec, RunSpec

#: job: of job.environment. secret: of job.secrets. trainyard: set for every job. launcher: set by
#: the recipe's launcher, for each process.
Source = Literal["job", "secret", "trainyard", "launcher"]

#: Of recipe 'neuron', on all nodes, unless the job sets them.
NEURON = {
    "NEURON_CC_FLAGS": "--model-type=transformer",
    "NEURON_FUSE_SOFTMAX": "1",
    "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS": "3",
    "MALLOC_ARENA_MAX": "64",
    "NEURON_RT_NUM_CORES": "1",
}
#: Of recipe 'neuron' on several nodes of a type with EFA.
NEURON_EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1", "FI_EFA_FORK_SAFE": "1"}
#: Unless the job sets them.
DEFAULTS = {
    "PYTHONFAULTHANDLER": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore:Failed to initialize NumPy",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class Variable:
    """`value` is None where it is not known yet, or secret; `note` then says what it will be."""

    name: str
    value: str | None
    source: Source
    note: str = ""


def variables(spec: RunSpec, cluster: ClusterBase) -> list[Variable]:
    """Those of the first attempt: the user's own first, each name once."""
    job = spec.job
    given = [Variable(name, value, "job") for name, value in job.environment.items()]
    given += [
        Variable(name, None, "secret", f"the value of the secret '{reference}', read on the nodes")
        for name, reference in job.secrets.items()
    ]
    ours = [*_of_the_run(spec, cluster), *_of_every_job(job, cluster), *_of_the_launcher(job)]
    named = {one.name for one in given}
    return given + [one for one in ours if one.name not in named]


def _of_the_run(spec: RunSpec, cluster: ClusterBase) -> Iterator[Variable]:
    saves, kept = spec.checkpoint, f"below trainyard/runs of {cluster.shared_path}"
    yield _ours("TRAINYARD_RUN_ID", note="the run's id, which it gets when it is submitted")
    yield _ours("TRAINYARD_ATTEMPT", "1", "2 in the next attempt, and so on")
    yield _ours("TRAINYARD_RUN_DIR", note=f"the run's directory, named by its id, {kept}")
    directory = "of the run's directory"
    yield _ours("TRAINYARD_ATTEMPT_DIR", note=f"{places.ATTEMPTS}/1 {directory}")
    yield _ours("TRAINYARD_OUTPUT_DIR", note=f"{places.OUTPUT} {directory}: results belong there")
    where = saves.directory or places.CHECKPOINTS
    yield _ours("TRAINYARD_CHECKPOINT_DIR", note=f"{where} {directory}")
    yield _ours("TRAINYARD_CHECKPOINT_EVERY_SECONDS", _seconds(saves.every_seconds))
    yield _ours("TRAINYARD_CHECKPOINT_EVERY_STEPS", _text(saves.every_steps))
    yield _ours("TRAINYARD_CHECKPOINT_KEEP", _text(saves.keep))
    yield _ours("TRAINYARD_SECONDS_BETWEEN_FAILURES", _seconds(saves.seconds_between_failures))


def _of_every_job(job: JobSpec, cluster: ClusterBase) -> Iterator[Variable]:
    if job.secrets:
        yield _ours("TRAINYARD_JOB_SECRETS", ",".join(job.secrets), "the names above, no values")
        yield _ours("TRAINYARD_JOB_SECRETS_TAKEN", "1")
    yield _ours(
        "PYTHONPATH", note="the working directory and Trainyard's packages, before what is there"
    )
    yield _ours("PYTHONUNBUFFERED", "1")
    for name, value in DEFAULTS.items():
        yield _ours(name, value)
    yield _ours("GLOO_SOCKET_IFNAME", note="the interface that has the node's own address")
    if cluster.nodes_come_with_jobs:
        yield _ours("NCCL_SOCKET_IFNAME", note="the interface over which the hosts speak")
        yield _ours("TRAINYARD_HOSTS", note="the names of all hosts, such as algo-1,algo-2")
        yield _ours("TRAINYARD_HOST", note="the name of this host")


def _of_the_launcher(job: JobSpec) -> Iterator[Variable]:
    if job.recipe == "command":
        return
    each = job.processes_per_node
    yield _launched("RANK", note=f"of the process: 0 to {job.nodes * each - 1}")
    yield _launched("LOCAL_RANK", note=f"of the process on its node: 0 to {each - 1}")
    yield _launched("WORLD_SIZE", str(job.nodes * each))
    # DeepSpeed's launcher has a word of its own.
    yield _launched("LOCAL_SIZE" if job.recipe == "deepspeed" else "LOCAL_WORLD_SIZE", str(each))
    yield _launched("MASTER_ADDR", note="the address of the first node")
    yield _launched("MASTER_PORT", note="a port of the attempt's own, 10000 to 19999")
    yield from _of_the_recipe(job)


def _of_the_recipe(job: JobSpec) -> Iterator[Variable]:
    if job.recipe == "accelerate":
        yield _launched("ACCELERATE_USE_CPU", note="'true' on nodes without an accelerator")
    elif job.recipe == "deepspeed":
        yield _launched("TORCH_EXTENSIONS_DIR", note="torch-extensions of the run's directory")
        yield _launched("DS_ACCELERATOR", note="'cpu' on nodes without a GPU")
    elif job.recipe == "neuron":
        for name, value in NEURON.items():
            yield _launched(name, value)
        note = "trainyard/neuron-compile-cache of the shared filesystem"
        yield _launched("NEURON_COMPILE_CACHE_URL", note=note)
        for name, value in NEURON_EFA.items() if job.nodes > 1 else ():
            yield _launched(name, value, "on instance types with EFA only")


def _ours(name: str, value: str | None = None, note: str = "") -> Variable:
    return Variable(name, value, "trainyard", note)


def _launched(name: str, value: str | None = None, note: str = "") -> Variable:
    return Variable(name, value, "launcher", note)


def _seconds(value: float | str | None) -> str:
    """As the bundle has them: a default may be a whole number, and a bundle has a fraction."""
    return _text(float(value) if isinstance(value, int) else value)


def _text(value: object) -> str:
    return "" if value is None else str(value)
