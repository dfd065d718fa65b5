"""Why an attempt ended: the root cause, never its consequences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.host.slurm_jobs import Job
from trainyard_contracts.diagnosis import diagnose
from trainyard_contracts.diagnosis_words import first_exception
from trainyard_contracts.launch_report import LaunchReport as Launch

A, B = "ip-10-0-0-1", "ip-10-0-0-2"


FAILED = Job("7", "FAILED", 1, 0, (A, B))
GLOO = """
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 3, in <module>
[rank0]:     work.wait()
[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] \
Connection closed by peer [127.0.0.1]:5132
"""
BUG = """
1: Traceback (most recent call last):
1:   File "train.py", line 9, in step
1:     raise ValueError("bad batch")
1: ValueError: bad batch
"""


def run(
    job: Job | None = FAILED, launches: list[Launch] | None = None, log: str = "", **changes: object
):  # type: ignore[no-untyped-def]
    facts = {"lost": [], "cancelled": False, "superseded": False} | changes
    return diagnose(job, launches or [], log, **facts)  # type: ignore[arg-type]


def test_a_job_that_ended_with_zero_succeeded() -> None:
    assert run(Job("7", "COMPLETED", 0, 0, (A,))).outcome == "succeeded"
    assert run(Job("7", "COMPLETING", 0, 0, (A,))).outcome == "failed", "nobody said how it ended"
    said = [Launch(node=A, ended=2.0), Launch(node=B, ended=2.0, exit_code=1, kind="exit")]
    assert run(Job("7", "COMPLETED", 0, 0, (A, B)), said).outcome == "failed", "one says it failed"
    assert (
        run(
            Job("7", "COMPLETING", 0, 0, (A, B)),
            [Launch(node=A, ended=2.0), Launch(node=B, ended=2.0)],
        ).outcome
        == "succeeded"
    )
    assert (
        run(
            Job("7", "COMPLETING", 0, 0, (A, B)),
            [Launch(node=A, ended=2.0), Launch(node=B, ended=None)],
        ).outcome
        == "failed"
    )
    assert (
        run(
            Job("7", "COMPLETING", 0, 0, (A,)),
            [Launch(node=A, ended=2.0, exit_code=143, kind="stopped")],
        ).outcome
        == "failed"
    )


def test_zero_on_a_lost_node_is_no_success() -> None:
    found = run(Job("7", "COMPLETING", 0, 0, (A, B)), lost=[B])
    assert (found.outcome, found.error_kind, found.failed_node) == ("failed", "node", B)


@pytest.mark.parametrize("wrong", [-3600.0, 0.0, 3600.0])
def test_who_failed_first_is_known_also_where_a_nodes_clock_is_an_hour_off(wrong: float) -> None:
    first = Launch(
        node=A,
        ended=1012.0,
        exit_code=1,
        kind="python-error",
        error="ValueError: bad batch",
        started=1000.0,
    )
    later = Launch(
        node=B,
        ended=1013.0 + wrong,
        exit_code=1,
        kind="python-error",
        error="OSError: no peer",
        started=1000.5 + wrong,
    )
    assert run(launches=[later, first]).error == "ValueError: bad batch"
    plain = [Launch(node=A, ended=1012.0, exit_code=3, kind="exit", started=1000.0)]
    plain.append(
        Launch(node=B, ended=1013.0 + wrong, exit_code=4, kind="exit", started=1000.5 + wrong)
    )
    assert run(launches=plain).exit_code == 3


def test_memory_is_named_by_whoever_says_it() -> None:
    killed = Launch(
        node=B,
        ended=3.0,
        exit_code=137,
        signal=9,
        kind="out-of-memory",
        error="the kernel's killer ended process 7",
    )
    first = Launch(node=A, ended=2.0, exit_code=137, signal=9, kind="signal")
    found = run(launches=[first, killed])
    assert (found.error_kind, found.failed_node, found.signal, found.error) == (
        "out-of-memory",
        B,
        9,
        killed.error,
    )
    slurm = run(Job("7", "OUT_OF_MEMORY", 0, 125, (A, B)), [first])
    assert (slurm.error_kind, slurm.failed_node, slurm.error) == (
        "out-of-memory", A, "Slurm: a process of the job was killed for want of memory",
    )  # fmt: skip
    assert run(Job("7", "OUT_OF_MEMORY", 0, 125, (A, B)), [killed]).error == killed.error


@pytest.mark.parametrize(("error", "kind"), [
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB", "out-of-memory"),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: "
     "can't allocate memory: you tried to allocate 8", "out-of-memory"),
    ("MemoryError: ", "out-of-memory"),
    ("OSError: [Errno 12] Cannot allocate memory", "out-of-memory"),
    ("ValueError: memory bank is empty", "python-error"),
])  # fmt: skip
def test_errors_for_want_of_memory_are_known_by_their_words(error: str, kind: str) -> None:
    assert (
        run(
            launches=[Launch(node=A, ended=2.0, exit_code=1, kind="python-error", error=error)]
        ).error_kind
        == kind
    )
    assert run(log=f"Traceback (most recent call last):\n  File x\n{error}\n").error_kind == kind


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", "device"),
        ("RuntimeError: CUDA error: out of memory", "device"),
        ('RuntimeError: nrt_load status=4 message="Allocation Failure"', "device"),
        ("MemoryError: ", "host"),
        ("ValueError: bad batch", None),
    ],
)
def test_which_memory_ran_out_is_known_where_only_the_log_speaks(
    error: str, memory: str | None
) -> None:
    assert run(log=f"Traceback (most recent call last):\n  File x\n{error}\n").memory == memory


def failed(
    node: str, lasting: str | None, exception: str = "ImportError", **more: object
) -> Launch:
    fields = {"ended": 2.0, "exit_code": 1, "kind": "python-error", "error": "x", **more}
    return Launch.model_validate(
        {"node": node, "lasting": lasting, "exception": exception, **fields}
    )


@pytest.mark.parametrize(
    ("launches", "lasting"),
    [
        ([failed(A, "program")], True),
        ([failed(A, "program"), Launch(node=B, ended=3.0, kind="stopped", exit_code=143)], True),
        ([failed(A, "environment")], False),
        ([failed(A, "environment"), failed(B, "environment")], True),
        ([failed(A, "environment"), failed(B, "environment", "FileNotFoundError")], False),
        ([failed(A, "environment"), Launch(node=B, ended=3.0, kind="stopped")], False),
        ([failed(A, "environment"), Launch(node=B)], False),
        ([failed(A, None), failed(B, None)], False),
        ([failed(A, None, ended=1.0), failed(B, "program")], False),
    ],
)
def test_what_is_missing_lasts_only_if_every_node_misses_it(
    launches: list[Launch], lasting: bool
) -> None:
    found = run(launches=launches)
    assert (found.lasting, found.error_kind) == (lasting, "python-error")


def test_the_traceback_is_that_of_the_first_cause_and_begins_at_a_line() -> None:
    frames = "".join(f'  File "train.py", line {number}\n' for number in range(400))
    text = f"Traceback (most recent call last):\n{frames}ValueError: a\n"
    found = run(launches=[failed(A, None, traceback=text), failed(B, None, ended=1.5)])
    assert found.traceback == ""
    found = run(launches=[failed(A, None, traceback=text), failed(B, None, ended=2.5)])
    first, gap, third, *_, last = found.traceback.splitlines()
    assert (first, gap, last) == ("Traceback (most recent call last):", "  ...", "ValueError: a")
    assert third.startswith('  File "train.py", line ')
    assert len(found.traceback) <= 4000


def test_a_good_end_with_a_crash_behind_it_is_remarked() -> None:
    launches = [
        Launch(node=A, ended=2.0, exit_code=0, remark="process 7 was killed by SIGABRT"),
        Launch(node=B, ended=2.0, exit_code=0),
    ]
    found = run(Job("7", "COMPLETED", 0, 0, (A, B)), launches)
    assert (found.outcome, found.remark) == (
        "succeeded",
        f"{A}: process 7 was killed by SIGABRT.",
    )


CANCELLED = Job("7", "CANCELLED", 0, 15, (A, B))


def test_of_a_job_that_we_ended_because_its_launchers_had_the_launchers_say_how_it_went() -> None:
    well = [Launch(node=A, ended=2.0), Launch(node=B, ended=3.0)]
    assert run(CANCELLED, well, hollow=True).outcome == "succeeded"
    assert run(CANCELLED, well, hollow=True, lost=[B]).outcome == "succeeded", (
        "what is done, no lost node undoes"
    )
    assert run(CANCELLED, well).outcome == "cancelled", "a person's scancel"
    for told in ([], well[:1]):  # what cannot be read just now may say otherwise
        assert run(CANCELLED, told, hollow=True).outcome == "failed"
    killed = [
        Launch(node=A, ended=2.0, exit_code=137, signal=9, kind="signal", error="why"),
        Launch(node=B, ended=None),
    ]
    found = run(CANCELLED, killed, hollow=True)
    assert (found.outcome, found.error_kind, found.failed_node, found.error) == (
        "failed",
        "signal",
        A,
        "why",
    )
    assert run(CANCELLED, killed, hollow=True, lost=[B]).error_kind == "node"
    assert run(CANCELLED, killed, hollow=True, cancelled=True).outcome == "cancelled"


@pytest.mark.parametrize("line", [
    "srun: Force Terminated StepId=2.0",
    "slurmstepd: error: *** STEP 2.0 ON ip-10-0-0-2 CANCELLED AT 2026-11-22T14:33:00 DUE TO NODE "
    "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
])  # fmt: skip
def test_what_slurm_ended_itself_is_said_to_be_slurms(line: str) -> None:
    found = run(log=f"a line of the program\n{line}\n")
    assert (found.error_kind, found.error) == ("unknown", f"Slurm: {line}")
    assert run(log="srun: job 2 queued\nthe end\n").error == "the end"


def test_a_lost_node_outweighs_what_its_peers_say() -> None:
    assert run(log=GLOO, lost=[B]).error_kind == "node"


def test_the_first_cause_wins_over_consequences() -> None:
    launches = [
        Launch(
            node=A,
            ended=10.0,
            exit_code=1,
            kind="peer",
            error="RuntimeError: gloo: Connection closed by peer",
        ),
        Launch(node=B, ended=10.5, exit_code=137, signal=9, kind="signal"),
    ]
    found = run(launches=launches, log=GLOO)
    assert (found.error_kind, found.signal, found.failed_node) == ("signal", 9, B)


def test_ranks_that_only_lost_each_other_say_so_and_not_how_slurm_ended_the_others() -> None:
    def peers(port: int) -> list[Launch]:
        refused = (
            "RuntimeError: Gloo connectFullMesh failed with [.../gloo/transport/tcp/pair.cc:152] "
            f"timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:{port}$1"
        )
        killed = "another rank failed first, and this one did not end when it was asked to"
        return [
            Launch(node=A, ended=12.0, exit_code=137, kind="peer", error=killed),
            Launch(node=B, ended=10.0, exit_code=1, kind="peer", error=refused, traceback="..."),
        ]

    job = Job("7", "FAILED", 137, 0, (A, B))
    found = run(job, peers(7579), log=GLOO)
    assert (found.signal, found.exit_code, found.failed_node) == (None, 1, B)
    assert (found.error or "").startswith(
        "ranks do not reach each other, and none of them failed: RuntimeError: Gloo connectFullMesh"
    )
    assert found.traceback == "..."
    assert run(job, peers(20908)) == found, "the same error whatever port the ranks had"
    assert run(job, peers(7579), log=BUG).error == "ValueError: bad batch"


def test_the_earlier_of_two_causes_wins() -> None:
    launches = [
        Launch(node=A, ended=11.0, exit_code=1, kind="python-error", error="KeyError: 'b'"),
        Launch(
            node=B,
            ended=10.0,
            exit_code=1,
            kind="python-error",
            error="ValueError: bad batch\nsecond line",
        ),
    ]
    found = run(launches=launches)
    assert (found.error_kind, found.error, found.failed_node) == (
        "python-error",
        "ValueError: bad batch",
        B,
    )


def test_a_launcher_that_was_killed_itself_is_a_signal_on_its_node() -> None:
    found = run(
        launches=[
            Launch(node=A, ended=10.0, exit_code=143, kind="stopped"),
            Launch(node=B, ended=None),
        ]
    )
    assert (found.error_kind, found.signal, found.failed_node) == ("signal", 9, B)


def test_a_shared_disk_that_takes_nothing_explains_launchers_that_could_not_report() -> None:
    full = "No space left on device"
    vanished = run(
        launches=[
            Launch(node=A, ended=10.0, exit_code=143, kind="stopped"),
            Launch(node=B, ended=None),
        ]
    ).because(full)
    assert (vanished.error_kind, vanished.signal, vanished.failed_node) == ("unknown", None, None)
    assert vanished.error == f"the shared filesystem cannot be written: {full}"
    said = run(
        launches=[
            Launch(
                node=A,
                ended=1.0,
                exit_code=1,
                kind="python-error",
                error=f"OSError: [Errno 28] {full}",
            )
        ]
    )
    assert said.because(full) == said
    assert run().because(None) == run()
    assert full in str(run(log=BUG).because(full).error)


def test_a_trainer_that_could_not_save_is_known_by_its_exit_code() -> None:
    assert run(Job("7", "FAILED", 74, 0, (A, B))).error_kind == "checkpoint"


def test_without_launchers_the_log_speaks() -> None:
    assert run(log=BUG).error == "ValueError: bad batch"
    assert run(log=GLOO + BUG).error == "ValueError: bad batch"
    assert run(log=GLOO).error_kind == "unknown"
    torchrun = (
        "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 0)\n"
        "  exitcode  : -9 (pid: 4)\n"
    )
    assert (run(log=torchrun).error_kind, run(log=torchrun).signal) == ("signal", 9)


def test_only_a_cancel_that_was_asked_for_is_one() -> None:
    cancelled = Job("7", "CANCELLED", 0, 15, (A,))
    assert run(cancelled, cancelled=True).outcome == "cancelled"
    assert run(cancelled).outcome == "cancelled", "a person's own scancel"
    assert run(cancelled, superseded=True).outcome == "failed", (
        "our own scancel of an older attempt"
    )
    assert run(Job("7", "COMPLETED", 0, 0, (A,)), cancelled=True).outcome == "succeeded"


def test_a_job_that_a_node_refused_to_start_was_cancelled_by_nobody() -> None:
    refused = Job("7", "CANCELLED", 0, 0, (A, B))
    assert run(refused).outcome == "failed"
    assert "Slurm itself" in (run(refused).error or "")
    assert run(refused, cancelled=True).outcome == "cancelled"
    assert run(Job("7", "CANCELLED", 0, 0, ())).outcome == "cancelled", (
        "a person's scancel of a job that waited"
    )


def test_a_job_slurm_forgot_is_a_failure_with_what_is_known() -> None:
    assert run(None).outcome == "failed"
    assert run(None, log=BUG).error_kind == "python-error"
    assert "does not know the job" in (
        run(None, [Launch(node=A, ended=None)], log="rank 1 on ip-10-0-0-2 from step 0").error or ""
    )


@given(st.text(), st.booleans(), st.integers(0, 255), st.integers(0, 64))
def test_no_log_breaks_the_diagnosis(log: str, cancelled: bool, code: int, signal: int) -> None:
    found = run(Job("7", "FAILED", code, signal, (A,)), log=log, cancelled=cancelled)
    assert (found.outcome == "cancelled") == cancelled
    assert found.error is None or len(found.error) <= 500
    first_exception(log)
