"""torchrun's agent for one node: its own argument parser, rendezvous and monitor, with a faster way
to start our trainers.

torchrun starts each worker as a new interpreter, which imports torch a second time: two seconds
that every restart pays. Trainers of this package are forked from the agent instead, which has
imported torch by then. Programs of users get processes of their own, as always.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from trainyard_job.common.exits import STOPPED
from trainyard_job.common.signals import FORWARDED

from ..common import failure
from ..common.failure import Failure
from . import descendants, ended_well, loopback, program
from .allocation import Allocation


@dataclass(frozen=True)
class Placement:
    """One node's place in an attempt's job."""

    nodes: int
    node_rank: int
    processes: int
    master_address: str
    master_port: int
    local_address: str
    run: str
    log_dir: Path

    @classmethod
    def of(cls, allocation: Allocation) -> Placement:
        job, node = allocation.job, allocation.node
        return cls(
            nodes=len(node.names),
            node_rank=node.rank,
            processes=allocation.processes,
            master_address=allocation.master_address,
            master_port=allocation.master_port,
            local_address=allocation.address,
            run=f"{job.document['runId']}-{job.document['attempt']}",
            log_dir=job.attempt_dir / "torchrun" / node.name,
        )

    def torchrun_arguments(self) -> list[str]:
        """Options of torchrun: static rendezvous of the attempt's own, no restarts (Trainyard
        resubmits).
        """
        return [
            f"--nnodes={self.nodes}",
            f"--node-rank={self.node_rank}",
            f"--nproc-per-node={self.processes}",
            "--rdzv-backend=static",
            f"--rdzv-id={self.run}",
            f"--master-addr={self.master_address}",
            f"--master-port={self.master_port}",
            # Without this torchrun looks its own name up, which takes seconds where no name server
            # answers.
            f"--local-addr={self.local_address}",
            "--max-restarts=0",
            "--monitor-interval=0.05",
            f"--log-dir={self.log_dir}",
        ]


def _pass_on(number: int, _frame: FrameType | None) -> None:
    """Hand a signal to the workers; torchrun then sees how they end.

    Before there are any, SIGTERM ends this process.
    """
    workers = descendants.children()
    if not workers and number == signal.SIGTERM:
        os._exit(STOPPED)
    for pid in workers:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _forked(command: Sequence[str]) -> None:
    """A worker that was forked from the agent: torch keeps its exception to itself, so it is
    printed here.
    """
    # What ps shows is the launcher's, and so is /proc/<pid>/environ; this name says which rank it
    # is.
    Path("/proc/self/comm").write_text(f"trainer-{os.environ['RANK']}"[:15])
    try:
        program.run(command)
    except Exception as error:
        program.show(type(error), error, error.__traceback__)
        raise


def run(
    placement: Placement, command: Sequence[str], entry: str = "trainyard_trainers.launch.program"
) -> Failure:
    """Run this node's workers to their end and say how it went.

    `entry`: the module that runs the command in each of them.
    """
    for number in FORWARDED:
        signal.signal(number, _pass_on)
    _quiet()
    ours = command[0] == "-m" and command[1].startswith("trainyard_trainers.")
    forked = ours and entry == program.__name__
    gc.disable()  # collecting while torch is imported finds nothing and costs a seventh of the time
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler
    from torch.distributed.launcher.api import elastic_launch

    if forked:
        with contextlib.suppress(ImportError):  # each rank will say what is missing
            importlib.import_module(command[1])  # the fork brings along what the trainer imports
    gc.freeze()
    gc.enable()

    arguments = torchrun.parse_args(  # type: ignore[no-untyped-call]
        [*placement.torchrun_arguments(), "-m", entry, *command]
    )
    subprocess_handler.Popen = ended_well.Popen  # type: ignore[attr-defined]
    config, interpreter, worker = torchrun.config_from_args(arguments)
    _keep_sigterm(config, placement)
    _leave_in_order(placement.node_rank)
    try:
        if forked:
            config.start_method = "fork"
            elastic_launch(config, _forked)(list(command))
        else:
            elastic_launch(config, interpreter)(*worker)
    except ChildFailedError as error:
        return first_failure(error.failures)
    return Failure(0, remark=ended_well.remark())


def _quiet() -> None:
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    # It logs every traceback once more, with a prefix on each line.
    logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.CRITICAL)


def _keep_sigterm(config: Any, placement: Placement) -> None:
    """SIGTERM is ours: torchrun would kill the workers after 30 seconds, amid a checkpoint.

    Before torch 2.8 that could not be said.
    """
    if hasattr(config, "signals_to_handle"):
        config.signals_to_handle = "SIGINT,SIGQUIT"
        if placement.master_address.startswith("127."):
            loopback.keep_stores("torch.distributed.elastic.rendezvous.static_tcp_rendezvous")


#: So long the host of the rendezvous waits for the others to say that they have left.
_LEAVE_SECONDS = 5


def _leave_in_order(node_rank: int) -> None:
    """The first node hosts the store at which all nodes meet at the end. It may see the last one
    come, and be gone before that one has asked whether all are there: torch then logs an error,
    the last words of a run that ended well. So each of the others says that it leaves.
    """
    meetings: Any = importlib.import_module("torch.distributed.elastic.utils.store")
    final: Any = importlib.import_module("torch.distributed.elastic.agent.server.api")
    name = getattr(final, "_TERMINAL_STATE_SYNC_ID", None)
    if name is not None:  # one more line in the log is no reason to fail
        meetings.barrier = orderly(meetings.barrier, node_rank, name)


def orderly(barrier: Callable[..., None], node_rank: int, final: str) -> Callable[..., None]:
    """Torch's barrier, of which the host goes last where it is the one of the name `final`."""

    def meet(store: Any, world_size: int, key_prefix: str, *more: Any, **options: Any) -> None:
        barrier(store, world_size, key_prefix, *more, **options)
        if key_prefix != final:
            return
        left = [f"{final}/left/{rank}" for rank in range(1, world_size)]
        with contextlib.suppress(RuntimeError):  # torch's errors of a store; all have met
            if node_rank > 0:
                store.set(left[node_rank - 1], "1")  # which waits for no answer
            elif left:
                store.wait(left, timedelta(seconds=_LEAVE_SECONDS))

    return meet


def first_failure(failures: Mapping[int, Any]) -> Failure:
    """Of torch's failed workers, by rank, the one that failed first, and of its own accord."""
    ends = {
        rank: failure.of_worker(one.exitcode, rank, Path(one.error_file), one.pid)
        for rank, one in failures.items()
    }

    def order(rank: int) -> tuple[bool, int, bool, float, int]:
        # Torch knows the second only. Within it an exception says more than a signal.
        at = failure.read_error_file(Path(failures[rank].error_file)).at
        seconds = float(failures[rank].timestamp) if at is None else at
        followed = ends[rank].kind in ("peer", "stopped")
        return followed, int(seconds), ends[rank].signal is not None, seconds, rank

    first = min(ends, key=order)
    words = f"trainyard: rank {first} ended with exit code {failures[first].exitcode}"
    print(words, file=sys.stderr, flush=True)
    return ends[first]
