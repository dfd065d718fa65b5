"""A node in real trouble on a real Slurm: full or read-only disks, hung slurmctld, still agents."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_cluster import (
    AgentCluster,
    Node,
    processes_with,
    sockets_of,
)
from tests.support.agent_jobs import (
    TRAINER,
    UNHURRIED,
    event,
    node_named,
    paced,
    put_bundle,
    submit,
)
from tests.support.repository import ROOT
from tests.support.waiting import eventually

from trainyard_agent.host.identifiers import ulid

#: Steps of 20 ms, a checkpoint each half second: `seconds` of training.
STATE_BYTES, SHARED_BYTES = 16 * 1024 * 1024, 32 * 1024 * 1024


def arguments(seconds: float) -> list[str]:
    return ["--steps", str(int(seconds * 50)), "--step-seconds", "0.02", "--every", "25"]


def mount(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentCluster]:
    """One for all tests; its state and shared directory lie on small disks that we may mount."""
    running = AgentCluster(tmp_path_factory.mktemp("trouble"))
    try:
        for directory, size in ((state(running), STATE_BYTES), (running.shared, SHARED_BYTES)):
            directory.mkdir(parents=True)
            mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory))
        running.start()
        eventually("ClusterReady", lambda: running.sink.of("ClusterReady"), 20)
        yield running
    finally:
        running.stop()


@pytest.fixture
def disks(cluster: AgentCluster) -> None:
    if not cluster.shared.is_mount():
        pytest.skip("small disks of their own need the right to mount; run as root")


@pytest.fixture
def run(cluster: AgentCluster) -> Iterator[str]:
    """A new run's id; afterwards its job is gone and the cluster is as it was."""
    run_id = f"run-{ulid().lower()}"
    yield run_id
    cluster.agent("cancel", "--run", run_id)
    eventually("all nodes idle again", lambda: cluster.idle() == cluster.workers, 40)
    assert cluster.sink.of("NodeLost") == []


def state(cluster: AgentCluster) -> Path:
    return cluster.controller.root / "var/lib/trainyard"


def fill(directory: Path) -> None:
    """Take every byte of a disk, that of the agent's reserve, too."""
    for _ in range(2):
        with (directory / "filler").open("ab", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(b"x" * 4096)
        (directory / "reserve").unlink(missing_ok=True)


@contextlib.contextmanager
def full(directory: Path) -> Iterator[None]:
    try:
        fill(directory)
        yield
    finally:
        (directory / "filler").unlink()


def train(cluster: AgentCluster, run: str, attempt: int = 1, **changes: Any) -> list[str]:
    """Submit and wait for the first checkpoint; returns the job's nodes, batch host first."""
    answer = submit(
        cluster,
        attempt,
        run=run,
        **{"files": {"train.py": TRAINER}, "arguments": arguments(1000)} | changes,
    )
    assert "jobId" in answer, answer
    event(cluster, "CheckpointCommitted", runId=run, attempt=attempt)
    nodes: list[str] = event(cluster, "AttemptStarted", runId=run, attempt=attempt)["nodes"]
    return nodes


def step(cluster: AgentCluster, run: str) -> int:
    return int(cluster.agent("status", "--run", run)["step"] or 0)


def goes_on(cluster: AgentCluster, run: str) -> None:
    before = step(cluster, run)
    eventually("training advances", lambda: step(cluster, run) > before, 20)


def lives(cluster: AgentCluster) -> None:
    assert cluster.controller.agent is not None
    assert cluster.controller.agent.poll() is None, "the agent ended"


def committed(cluster: AgentCluster, run: str) -> set[int]:
    return {found["step"] for found in cluster.sink.of("CheckpointCommitted", runId=run)}


def log_of(cluster: AgentCluster) -> str:
    return (cluster.controller.root / "var/log/trainyard/agent.log").read_text()


@contextlib.contextmanager
def standing_still(*pids: int) -> Iterator[None]:
    """SIGSTOP, and SIGCONT in every case."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def agents(*nodes: Node) -> list[int]:
    return [node.agent.pid for node in nodes if node.agent is not None]


def slurmctld(cluster: AgentCluster) -> int:
    return int((cluster.directory / "run/slurmctld.pid").read_text())


# -- a full disk ---------------------------------------------------------------------------------
@pytest.mark.usefixtures("disks")
def test_a_full_disk_under_the_agent_loses_no_change_of_state(
    cluster: AgentCluster, run: str
) -> None:
    train(cluster, run, arguments=arguments(4))
    cluster.sink.reachable = False
    with full(state(cluster)):
        eventually(
            "the end of training",
            lambda: cluster.agent("status", "--run", run)["state"] == "ended",
            20,
        )
        lives(cluster)
        cluster.sink.reachable = True
        assert event(cluster, "AttemptEnded", runId=run)["outcome"] == "succeeded"
        eventually(
            "every checkpoint's event, with the disk still full",
            lambda: committed(cluster, run) == set(range(25, 201, 25)),
            20,
        )
        answer = submit(cluster, 2, run=run, arguments=arguments(2))
        assert "jobId" in answer or answer["error"] == "disk-full", answer
    eventually("the reserve is there again", (state(cluster) / "reserve").exists, 20)
    assert "jobId" in submit(cluster, 2, run=run, arguments=arguments(2))
    assert event(cluster, "AttemptEnded", runId=run, attempt=2)["outcome"] == "succeeded"
    for kind in ("AttemptStarted", "AttemptEnded"):
        assert len({found["id"] for found in cluster.sink.of(kind, runId=run)}) == 2, kind


@pytest.mark.usefixtures("disks")
def test_an_agent_that_starts_on_a_full_disk_waits_for_room_and_goes_on(
    cluster: AgentCluster, run: str
) -> None:
    train(cluster, run)
    agent = cluster.controller.agent
    assert agent is not None
    agent.terminate()
    assert agent.wait(120) == 0, "it stops without a fault"
    with full(state(cluster)):
        cluster.start_agent(cluster.controller)
        eventually(
            "the agent says what it waits for", lambda: "waits for room" in log_of(cluster), 20
        )
        lives(cluster)
    goes_on(cluster, run)
    lives(cluster)


@pytest.mark.usefixtures("disks")
@pytest.mark.parametrize("trouble", ["No space left on device", "Read-only file system"])
def test_a_shared_disk_that_takes_nothing_more_ends_the_attempt_and_says_why(
    cluster: AgentCluster, run: str, trouble: str
) -> None:
    train(cluster, run)
    with shared_disk_refuses(cluster, trouble):
        ended = event(cluster, "AttemptEnded", runId=run)
        assert trouble in (ended["error"] or ""), ended
        assert (ended["outcome"], ended["signal"]) == ("failed", None)
        if trouble.startswith("No space"):
            fill(cluster.shared)  # what the launchers kept for their reports
        refused = submit(cluster, 2, run=run)
        assert refused["error"] == "disk"
        assert trouble in refused["message"]
        whole = max(committed(cluster, run))
    train(cluster, run, 2)
    assert event(cluster, "AttemptStepped", runId=run, attempt=2)["resumedFrom"] == whole
    assert cluster.sink.of("CheckpointRejected", runId=run) == []
    assert [found["attempt"] for found in cluster.sink.of("AttemptStarted", runId=run)] == [1, 2]
    again = [found["path"] for found in cluster.sink.of("CheckpointCommitted", runId=run)]
    assert len(again) == len(set(again)), "what cannot be pruned now is not reported again"


@contextlib.contextmanager
def shared_disk_refuses(cluster: AgentCluster, trouble: str) -> Iterator[None]:
    """Full, or read-only for all that is opened from now on.

    The kernel refuses to remount what is open for writing.
    """
    shared = str(cluster.shared)
    if trouble == "No space left on device":
        with full(cluster.shared):
            yield
        return
    assert mount("--bind", shared, shared)
    assert mount("-o", "remount,bind,ro", shared)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", shared], check=True)


# -- what hangs ----------------------------------------------------------------------------------
def test_a_slurmctld_that_hangs_is_waited_for(cluster: AgentCluster, run: str) -> None:
    nodes = train(cluster, run, arguments=arguments(6))
    with standing_still(slurmctld(cluster)):
        goes_on(cluster, run)
        answer = submit(cluster, run=other(run))
        assert answer["error"] == "slurm", answer
        eventually(
            "the job's end, which nobody tells slurmctld",
            lambda: not cluster.processes(TRAINYARD_RUN_ID=run),
            20,
        )
        assert cluster.sink.of("AttemptEnded", runId=run) == []
    ended = event(cluster, "AttemptEnded", 40, runId=run)
    assert (ended["outcome"], ended["lastStep"], {found["agent"] for found in ended["nodes"]}) == (
        "succeeded",
        300,
        {"linked"},
    )
    assert nodes
    assert "jobId" in submit(cluster, run=other(run))
    jobs = cluster.slurm(
        "squeue", "-h", "--states=all", f"--name={other(run)}-1", "-o", "%i"
    ).split()
    assert len(jobs) == 1, "what slurmctld took while it hung is the job, not a second one"
    cluster.agent("cancel", "--run", other(run))
    event(cluster, "AttemptEnded", runId=other(run))
    assert len(cluster.sink.of("AttemptEnded", runId=run)) == 1


def other(run: str) -> str:
    """A second run's id."""
    return run[:-1] + ("0" if run[-1] != "0" else "1")


def test_agents_that_stood_still_lose_no_node_and_submit_once(
    cluster: AgentCluster, run: str
) -> None:
    train(cluster, run)
    uri = put_bundle(cluster, run=other(run), nodes=1)
    argv = ["submit", "--run", other(run), "--attempt", "1", "--bundle", uri]
    with standing_still(*agents(*cluster.nodes)):
        asking = subprocess.Popen(
            [sys.executable, "-m", "trainyard_agent", *argv],
            env=cluster.environment(cluster.controller),
            stdout=subprocess.DEVNULL,
        )
        time.sleep(11)  # longer than an agent may be silent, and than it waits for any command
        asking.kill()  # its caller's patience is over
        asking.wait()
    first = cluster.agent(*argv)
    assert first["jobId"] == cluster.agent(*argv)["jobId"]
    assert (
        len(
            cluster.slurm(
                "squeue", "-h", "--states=all", f"--name={other(run)}-1", "-o", "%i"
            ).split()
        )
        == 1
    )
    goes_on(cluster, run)
    cluster.agent("cancel", "--run", other(run))
    event(cluster, "AttemptEnded", runId=other(run))
    eventually(
        "every agent linked",
        lambda: all(node["agent"] == "linked" for node in cluster.agent("nodes")["nodes"][1:]),
        20,
    )
    assert cluster.sink.of("AttemptEnded", runId=run) == []


@pytest.mark.parametrize(
    "still", ["controller's agent", pytest.param("slurmctld", marks=pytest.mark.long)]
)
def test_old_knowledge_is_no_sign_against_a_node_that_trains(
    cluster: AgentCluster, run: str, still: str
) -> None:
    """A node's agent and slurmd are dead, its training is not: steps unseen have not stopped."""
    node = node_named(cluster, train(cluster, run, arguments=UNHURRIED)[1])
    paced(cluster, run)
    cluster.kill_agent(node)
    os.kill(
        int((cluster.directory / "run" / f"slurmd-{node.name}.pid").read_text()), signal.SIGKILL
    )
    event(cluster, "AgentSilent")
    pids = agents(cluster.controller) if still == "controller's agent" else [slurmctld(cluster)]
    with standing_still(*pids):
        time.sleep(4)
    goes_on(cluster, run)
    assert cluster.sink.of("NodeLost") == []
    cluster.start_slurmd(node)
    cluster.start_agent(node)
    event(cluster, "AgentBack")
    cluster.sink.events[:] = [
        found for found in cluster.sink.events if found[0] not in ("AgentSilent", "AgentBack")
    ]


# -- the tests' own small Slurm ------------------------------------------------------------------
ABANDONED = """
import os, signal, sys
from pathlib import Path
from tests.support.agent_cluster import AgentCluster
cluster = AgentCluster(Path(sys.argv[1]), workers=1).start()
print(cluster.index, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_test_run_left_is_ended_by_the_next(tmp_path: Path) -> None:
    left = (tmp_path / "left").resolve()
    done = subprocess.run(
        [sys.executable, "-c", ABANDONED, str(left)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(processes_with(TRAINYARD_LOCAL=str(left))) >= 5, (
        "Slurm and agents outlive their test run"
    )
    following = AgentCluster(tmp_path / "next", workers=1)
    try:
        assert following.index == int(done.stdout), "its ports and addresses are free again"
        assert processes_with(TRAINYARD_LOCAL=str(left)) == []
        assert not sockets_of(left).exists()
    finally:
        following.stop()
