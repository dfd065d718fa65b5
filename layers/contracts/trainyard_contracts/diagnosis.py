"""Finds why an attempt ended, and takes the root cause before its consequences.

It is pure, and reads what the scheduler, the launchers, the log and the nodes say. The agent and
the containers of training jobs use it; those have no pydantic, so it needs the standard library
only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

Kind = Literal["python-error", "signal", "out-of-memory", "node", "checkpoint", "unknown"]

#: A rank whose peer died raises one of these: a consequence, never the cause.
_CONSEQUENCES = (
    "connection closed by peer", "connection reset by peer", "connection refused",
    "connectfullmesh failed", "gloo/transport", "socket closed", "broken pipe", "timed out waiting",
    "nccl error", "distbackenderror", "distnetworkerror", "diststoreerror", "childfailederror",
    "signalexception", "rendezvousconnectionerror", "rendezvousclosederror", "keyboardinterrupt",
)  # fmt: skip
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::\s?(.*))?$")
_PREFIX = re.compile(r"^(?:\d+: ?)?(?:\[(?:rank|default)\d+\]: ?)?")
_ROOT_CAUSE = re.compile(r"Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
#: Behind an address in gloo's words; the next attempt has another one.
_PORT = re.compile(r"\]:\d+(?:\$\d+)?")
#: PyTorch's words, NCCL's and Neuron's for an accelerator without memory; Python's and PyTorch's
#: for the host. A launcher reads the whole exception; these are for logs and older launchers.
_NO_DEVICE_MEMORY = re.compile(
    r"OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory|(?:CUDA|HIP) error: out of memory|"
    r"Cuda failure (?:\d+ )?'out of memory'|CUBLAS_STATUS_ALLOC_FAILED|"
    r"status=4 message=\"?Allocation Failure"
)
_NO_HOST_MEMORY = re.compile(
    r"\bMemoryError\b|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory|"
    r"std::bad_alloc"
)
#: What Slurm's commands say when Slurm itself ended a step or a job.
_SLURM_ENDED = re.compile(r"srun: Force Terminated |slurmstepd: error: \*\*\* ")
_MAX_ERROR = 500
#: Linux, <signal.h>.
_SIGKILL, _SIGTERM = 9, 15
_ALL_KILLED = (
    "every process of the job is gone from its nodes, and Slurm's step daemons with them, so none "
    "could say why"
)
LOG_TAIL_BYTES = 8192
# The launchers of a job start within moments.
CLOCKS_DIFFER_SECONDS = 60.0
# A trainer's exit code: a checkpoint cannot be written.
CHECKPOINT_FAILED = 74


class Job(Protocol):
    """What the scheduler says of a job, in Slurm's words."""

    @property
    def state(self) -> str: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def signal(self) -> int: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...


class Launch(Protocol):
    """A launcher's report, as `LaunchReport` has it."""

    @property
    def node(self) -> str: ...
    @property
    def started(self) -> float | None: ...
    @property
    def ended(self) -> float | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def traceback(self) -> str | None: ...
    @property
    def exception(self) -> str | None: ...
    @property
    def lasting(self) -> str | None: ...
    @property
    def memory(self) -> str | None: ...
    @property
    def remark(self) -> str | None: ...


#: Kinds of a launcher's end that are causes and no consequences.
CAUSES = ("signal", "out-of-memory", "python-error", "checkpoint")


def names_cause(launch: Launch) -> bool:
    """The report says why the job ended; other reports only say that something ended them."""
    return launch.ended is not None and launch.kind in CAUSES


@dataclass(frozen=True)
class Diagnosis:
    """The fields of AttemptEnded that need judgement."""

    outcome: Literal["succeeded", "failed", "cancelled"]
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    error_kind: Kind | None = None
    failed_node: str | None = None
    exception: str | None = None
    lasting: bool = False
    memory: Literal["host", "device"] | None = None
    traceback: str = ""
    remark: str = ""

    def because(self, unwritable: str | None) -> Diagnosis:
        """Add the trouble of the shared filesystem, which the job itself could not write down.

        The job's launchers then seem killed.
        """
        if unwritable is None:
            return self
        trouble = f"the shared filesystem cannot be written: {unwritable}"
        if self.error_kind == "signal":
            return replace(self, signal=None, error=trouble, error_kind="unknown", failed_node=None)
        if unwritable in (self.error or ""):
            return self
        return replace(
            self,
            error=f"{self.error[: _MAX_ERROR - len(trouble) - 2]}; {trouble}"
            if self.error
            else trouble,
        )


def diagnose(
    job: Job | None,
    launches: Sequence[Launch],
    log_tail: str,
    *,
    lost: Sequence[str],
    cancelled: bool,
    superseded: bool,
    hollow: bool = False,
) -> Diagnosis:
    """`lost`: nodes of the job that are lost; `cancelled`: we were asked to.

    `superseded`: a newer attempt ended this one. `hollow`: we ended the job because its launchers
    had ended or were gone, so Slurm's words are about our scancel.
    """
    if hollow and _told_by_all(job, launches) and _all_well(launches):
        return _good_end(launches)
    if hollow and not lost and not cancelled:
        if launches and all(item.ended is None for item in launches):
            return _of_log(log_tail, None, None) or Diagnosis(
                "failed", None, _SIGKILL, _ALL_KILLED, "signal"
            )
        return _of_launches(launches, None, job) or _of_what_is_left(launches, log_tail, None, None)
    if job is not None and not lost and _well(job, launches):
        return _good_end(launches)
    return (
        _of_orders(job, lost=lost, cancelled=cancelled, superseded=superseded)
        or _of_nodes(job, lost)
        or _of_limits(job)
        or _of_program(job, launches, log_tail)
    )


def _good_end(launches: Sequence[Launch]) -> Diagnosis:
    remarks = [f"{launch.node}: {launch.remark}" for launch in launches if launch.remark]
    more = f" {len(remarks) - 1} more nodes say the like." if len(remarks) > 1 else ""
    return Diagnosis("succeeded", exit_code=0, remark=f"{remarks[0]}.{more}" if remarks else "")


def _codes(job: Job | None) -> tuple[int | None, int | None]:
    """Exit code and signal."""
    return (job.exit_code, job.signal or None) if job else (None, None)


def _well(job: Job, launches: Sequence[Launch]) -> bool:
    return job.exit_code == 0 and job.signal == 0 and _completed(job, launches)


def _of_orders(
    job: Job | None, *, lost: Sequence[str], cancelled: bool, superseded: bool
) -> Diagnosis | None:
    """The job was cancelled: by Slurm itself, by us, or by a person."""
    explained = bool(lost) or superseded
    if job is not None and not explained and not cancelled and _refused(job):
        return Diagnosis(
            "failed",
            error="Slurm: a node refused to start the job, so Slurm itself cancelled it",
            error_kind="unknown",
        )
    if cancelled or (job is not None and job.state == "CANCELLED" and not explained):
        code, number = _codes(job)
        return Diagnosis("cancelled", exit_code=code, signal=number)
    return None


def _of_nodes(job: Job | None, lost: Sequence[str]) -> Diagnosis | None:
    if not lost and (job is None or job.state != "NODE_FAIL"):
        return None
    code, number = _codes(job)
    node = lost[0] if lost else None
    return Diagnosis("failed", code, number, error_kind="node", failed_node=node)


def _of_limits(job: Job | None) -> Diagnosis | None:
    if job is None or job.state not in ("TIMEOUT", "DEADLINE", "BOOT_FAIL"):
        return None
    words = {"TIMEOUT": "the job's time limit was reached"}
    error = f"Slurm: {words.get(job.state, job.state)}"
    code, number = _codes(job)
    return Diagnosis("failed", code, number, error=error, error_kind="unknown")


def _of_program(job: Job | None, launches: Sequence[Launch], log_tail: str) -> Diagnosis:
    """What the launchers and the log say; Slurm's words where those know less."""
    code, number = _codes(job)
    found = _of_launches(launches, code, job) or _of_what_is_left(launches, log_tail, code, number)
    if job is not None and job.state == "OUT_OF_MEMORY" and found.error_kind != "out-of-memory":
        return replace(
            found,
            error="Slurm: a process of the job was killed for want of memory",
            error_kind="out-of-memory",
            memory="host",
        )
    if job is None and found.error_kind == "unknown" and found.exit_code is None:
        return replace(
            found,
            error="Slurm does not know the job any more; "
            "slurmctld lost it when it crashed, or forgot it after its end",
        )
    return found


def _refused(job: Job) -> bool:
    """Whether the batch script refused to run twice: a slurmctld that crashed starts jobs again.

    A person's scancel leaves a signal, or a job that never had a node.
    """
    return job.state == "CANCELLED" and bool(job.nodes) and not job.exit_code and not job.signal


def _completed(job: Job, launches: Sequence[Launch]) -> bool:
    """Whether the job ended well. COMPLETING does not say how a job ends, and lasts while a node is
    away; then the launchers of all nodes must say that they ended well. At COMPLETED none may say
    otherwise.
    """
    if job.state == "COMPLETING":
        return _told_by_all(job, launches) and _all_well(launches)
    return job.state == "COMPLETED" and not any(item.kind is not None for item in launches)


def _told_by_all(job: Job | None, launches: Sequence[Launch]) -> bool:
    """Whether all nodes' reports are there: one that cannot be read just now may say otherwise."""
    return bool(launches) and {launch.node for launch in launches} >= set(job.nodes if job else ())


def _all_well(launches: Sequence[Launch]) -> bool:
    return all(item.ended is not None and item.kind is None for item in launches)


def _of_launches(launches: Sequence[Launch], code: int | None, job: Job | None) -> Diagnosis | None:
    """The first launcher that reported a cause; else one that was killed before it could report."""
    causes = [item for item in launches if names_cause(item)]
    if causes:
        # Lack of memory explains the other killed processes, too: the kernel may kill several
        # processes of a node.
        first = min(
            causes, key=lambda item: (item.kind != "out-of-memory", _moment(item, launches))
        )
        kind = _kind(first)
        return Diagnosis(
            "failed",
            first.exit_code,
            first.signal,
            _one_line(first.error),
            kind,
            first.node,
            exception=first.exception,
            lasting=kind == "python-error" and _lasts(first, launches, job),
            memory=_memory(first) if kind == "out-of-memory" else None,
            traceback=first.traceback or "",
        )
    vanished = [item for item in launches if item.ended is None]
    if vanished and len(vanished) < len(launches):
        return Diagnosis("failed", code, _SIGKILL, None, "signal", vanished[0].node)
    plain = [item for item in launches if item.ended is not None and item.kind == "exit"]
    if plain:
        first = min(plain, key=lambda item: _moment(item, launches))
        return Diagnosis(
            "failed",
            first.exit_code,
            None,
            f"the program exited with {first.exit_code}",
            "unknown",
            first.node,
        )
    return None


def _moment(launch: Launch, launches: Sequence[Launch]) -> float:
    """The number by which ends are ordered: the time by the node's clock.

    If the clocks do not agree on when the job started, it is how long the launcher ran.
    """
    starts = [item.started for item in launches if item.started is not None]
    if len(starts) == len(launches) and max(starts) - min(starts) > CLOCKS_DIFFER_SECONDS:
        return (launch.ended or 0.0) - (launch.started or 0.0)
    return launch.ended or 0.0


def _lasts(first: Launch, launches: Sequence[Launch], job: Job | None) -> bool:
    """Whether another attempt would fail in the same way: the program is wrong; or what it misses
    is missing on every node of the job, so that it is not one node that lacks it.
    """
    if first.lasting == "program":
        return True
    same = {one.node for one in launches if one.lasting and one.exception == first.exception}
    others = {one.node for one in launches}.union(job.nodes if job else ())
    return first.lasting == "environment" and others <= same


def _memory(launch: Launch) -> Literal["host", "device"] | None:
    if launch.memory in ("host", "device"):
        return "device" if launch.memory == "device" else "host"
    return _memory_in(launch.error or "") or ("host" if launch.kind == "out-of-memory" else None)


def _memory_in(text: str) -> Literal["host", "device"] | None:
    if _NO_DEVICE_MEMORY.search(text):
        return "device"
    return "host" if _NO_HOST_MEMORY.search(text) else None


def _kind(launch: Launch) -> Kind:
    if launch.kind == "python-error":
        return "out-of-memory" if _memory_in(launch.error or "") else "python-error"
    return (
        "signal"
        if launch.kind == "signal"
        else "out-of-memory"
        if launch.kind == "out-of-memory"
        else "checkpoint"
    )


def _of_what_is_left(
    launches: Sequence[Launch], log_tail: str, code: int | None, number: int | None
) -> Diagnosis:
    """The cause where no launcher names one: what the log says, or a launcher about other ranks,
    or the batch script's own end.
    """
    return (
        _of_log(log_tail, code, number) or _of_peers(launches) or _of_codes(log_tail, code, number)
    )


def _of_log(log_tail: str, code: int | None, number: int | None) -> Diagnosis | None:
    """A traceback that is no consequence, or torchrun's summary."""
    error = first_exception(log_tail)
    if error is not None:
        memory = _memory_in(error)
        kind: Kind = "python-error" if memory is None else "out-of-memory"
        return Diagnosis("failed", code, number, error, kind, memory=memory)
    root = _ROOT_CAUSE.search(log_tail)
    if root is not None and int(root.group(2)) < 0:
        return Diagnosis("failed", code, -int(root.group(2)), None, "signal")
    return None


def _of_peers(launches: Sequence[Launch]) -> Diagnosis | None:
    """Ranks lost each other and none failed: those that were left over were killed after it."""
    lost = [item for item in launches if item.ended is not None and item.kind == "peer"]
    if not lost:
        return None
    first = min(lost, key=lambda item: _moment(item, launches))
    said = _PORT.sub("]", first.error or "")
    error = f"ranks do not reach each other, and none of them failed: {said}"
    return Diagnosis(
        "failed", first.exit_code, None, _one_line(error), "unknown", first.node,
        exception=first.exception, traceback=first.traceback or "",
    )  # fmt: skip


def _of_codes(log_tail: str, code: int | None, number: int | None) -> Diagnosis:
    """The batch script's own end, with the log's last words."""
    if number:
        return Diagnosis("failed", code, number, None, "signal")
    if code is not None and 128 < code < 160 and code != 128 + _SIGTERM:
        return Diagnosis("failed", code, code - 128, None, "signal")
    last = next((line.strip() for line in reversed(log_tail.splitlines()) if line.strip()), None)
    if last is not None and _SLURM_ENDED.match(last):
        return Diagnosis("failed", code, number, _one_line(f"Slurm: {last}"), "unknown")
    return Diagnosis(
        "failed",
        code,
        number,
        _one_line(last),
        "checkpoint" if code == CHECKPOINT_FAILED else "unknown",
    )


def first_exception(log: str) -> str | None:
    """The last line of the first Python traceback that is no mere consequence of a peer's death."""
    inside = False
    for line in log.splitlines():
        text = _PREFIX.sub("", line)
        if text.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and text and not text.startswith((" ", "\t")):
            inside = False
            if _EXCEPTION.match(text) and not is_consequence(text):
                return _one_line(text)
    return None


def is_consequence(text: str) -> bool:
    """The error says that another process went away."""
    return any(part in text.lower() for part in _CONSEQUENCES)


def _one_line(text: str | None) -> str | None:
    return text.strip().splitlines()[0][:_MAX_ERROR] if text and text.strip() else None
