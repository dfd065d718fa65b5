"""Job control and liveness of the agent on a real Slurm of four nodes, with faults."""

from __future__ import annotations

import json
import os
import pwd
import signal
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN
from tests.support.agent_cluster import KILL_WAIT, AgentCluster, agent_cluster, kill_all
from tests.support.agent_jobs import (
    LIGHT_TRAINER,
    TRAINER,
    UNHURRIED,
    arrival,
    event,
    node_named,
    paced,
    put_bundle,
    submit,
    training,
)
from tests.support.waiting import eventually

from trainyard_contracts.files import LogTimes

EITHER_NODE = [
    pytest.param(0, id="on the batch host"),
    pytest.param(1, id="on the other node", marks=pytest.mark.long),
]
assert TRAINER.count("lockstep(step)") == 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    with agent_cluster(tmp_path / "c", workers=3) as running:
        eventually("ClusterReady", lambda: running.sink.of("ClusterReady"), 20)
        yield running


def test_a_job_starts_steps_commits_checkpoints_and_succeeds(cluster: AgentCluster) -> None:
    sixty_steps = ["--steps", "60", "--step-seconds", "0.02", "--every", "10"]
    answer = submit(cluster, arguments=[*sixty_steps, "--echo", "a;b $(id) `id`"])
    again = submit(cluster)
    assert answer["jobId"] == again["jobId"], "the same attempt is never submitted twice"
    ended = event(cluster, "AttemptEnded")
    assert (ended["outcome"], ended["exitCode"], ended["errorKind"], ended["lastStep"]) == (
        "succeeded",
        0,
        None,
        60,
    )
    assert len(event(cluster, "AttemptStarted")["nodes"]) == 2
    stepped = event(cluster, "AttemptStepped")
    assert stepped["resumedFrom"] is None
    assert "a;b $(id) `id`" in ended["logTail"], "the user's strings arrive as data"
    committed = eventually(
        "the last checkpoint's event", lambda: cluster.sink.of("CheckpointCommitted", step=60), 20
    )[0]
    assert committed["path"] == "checkpoints/step-000000000060-attempt-1"
    status = cluster.agent("status", "--run", RUN)
    assert (status["step"], status["jobState"], status["state"]) == (60, "COMPLETED", "ended")
    eventually(
        "the log in S3", lambda: f"data/runs/{RUN}/logs/attempt-1.log" in cluster.sink.objects, 20
    )
    times = f"data/runs/{RUN}/logs/attempt-1.times.json"
    eventually("its times beside it", lambda: times in cluster.sink.objects, 20)
    LogTimes.model_validate_json(cluster.sink.objects[times][0])
    asked = ("logs", "--run", RUN, "--attempt", "1")
    assert cluster.agent(*asked, "--since", "8640000") == cluster.agent(*asked)
    for trouble in ("NodeLost", "AgentSilent", "CheckpointRejected"):
        assert cluster.sink.of(trouble) == []
    assert_only_the_newest_checkpoints_are_kept(cluster)
    assert len(cluster.sink.of("AttemptEnded")) == 1


def assert_only_the_newest_checkpoints_are_kept(cluster: AgentCluster) -> None:
    kept = sorted(
        path.name for path in (cluster.shared / f"trainyard/runs/{RUN}/checkpoints").iterdir()
    )
    assert kept[-1].startswith("step-000000000060")
    assert len(kept) == 3, f"older checkpoints are pruned: {kept}"
    eventually(
        "the events of the pruned ones", lambda: len(cluster.sink.of("CheckpointPruned")) == 3, 20
    )
    assert sorted(pruned["step"] for pruned in cluster.sink.of("CheckpointPruned")) == [10, 20, 30]


@pytest.mark.parametrize("victim", ["batch host", "other worker"])
def test_a_killed_node_is_lost_within_seconds_and_the_next_attempt_resumes_on_the_spare(
    cluster: AgentCluster, victim: str
) -> None:
    nodes = training(cluster)
    bad = nodes[0] if victim == "batch host" else nodes[1]
    fault = cluster.kill_node(node_named(cluster, bad))
    lost = event(cluster, "NodeLost")
    noticed = arrival(cluster, "NodeLost") - fault
    assert (lost["about"]["node"], lost["about"]["agent"], lost["about"]["scheduler"]) == (
        bad,
        "silent",
        "down",
    )
    assert (lost["runId"], lost["attempt"]) == (RUN, 1)
    assert noticed < 2.0, f"NodeLost came after {noticed:.2f} s"
    answer = submit(cluster, 2, downNodes=[bad], excludeNodes=[bad])
    submitted = time.time() - fault
    assert answer["state"] == "submitted"
    stepped = event(cluster, "AttemptStepped", attempt=2)
    print(
        f"\n{victim}: lost after {noticed:.2f} s, submitted {submitted:.2f} s, "
        f"first step {arrival(cluster, 'AttemptStepped', attempt=2) - fault:.2f} s"
    )
    assert stepped["resumedFrom"] >= 10
    assert bad not in event(cluster, "AttemptStarted", attempt=2)["nodes"]
    ended = event(cluster, "AttemptEnded", attempt=1)
    assert (ended["outcome"], ended["errorKind"], ended["failedNode"]) == ("failed", "node", bad)
    fence = cluster.shared / f"trainyard/runs/{RUN}/fence"
    assert fence.read_text().strip() == "2"
    assert not cluster.processes(TRAINYARD_RUN_ID=RUN, TRAINYARD_ATTEMPT="1")


def test_a_lost_node_that_comes_back_serves_again(cluster: AgentCluster) -> None:
    nodes = training(cluster)
    node = node_named(cluster, nodes[1])
    cluster.kill_node(node)
    event(cluster, "NodeLost")
    submit(cluster, 2, downNodes=[node.name])
    event(cluster, "AttemptStepped", attempt=2)
    assert "DOWN" in cluster.node_state(node)
    cluster.start_slurmd(node)
    cluster.start_agent(node)
    assert event(cluster, "NodeReturned")["about"]["node"] == node.name
    assert cluster.node_state(node).startswith("IDLE")


def test_a_dead_agent_changes_nothing_while_training_goes_on(cluster: AgentCluster) -> None:
    nodes = training(cluster)
    node = node_named(cluster, nodes[1])
    cluster.kill_agent(node)
    silent = event(cluster, "AgentSilent")
    assert (silent["about"]["node"], silent["about"]["scheduler"]) == (node.name, "up")
    cluster.start_agent(node)
    assert event(cluster, "AgentBack")["about"]["node"] == node.name
    assert cluster.sink.of("NodeLost") == []
    assert cluster.sink.of("AttemptEnded") == []


def test_agent_and_slurmd_dead_is_no_lost_node_while_steps_advance(cluster: AgentCluster) -> None:
    nodes = training(cluster, files={"train.py": LIGHT_TRAINER}, arguments=UNHURRIED)
    paced(cluster)
    node = node_named(cluster, nodes[1])
    cluster.kill_agent(node)
    slurmd = (cluster.directory / "run" / f"slurmd-{node.name}.pid").read_text()
    os.kill(int(slurmd), signal.SIGKILL)
    event(cluster, "AgentSilent")
    step = cluster.agent("status", "--run", RUN)["step"]
    eventually(
        "training advances", lambda: cluster.agent("status", "--run", RUN)["step"] > step + 2, 20
    )
    assert cluster.sink.of("NodeLost") == []


def test_a_killed_worker_process_is_a_signal_on_its_node(cluster: AgentCluster) -> None:
    nodes = training(cluster)
    for pid in cluster.ranks(RUN, nodes[1]):
        os.kill(pid, signal.SIGKILL)
    ended = event(cluster, "AttemptEnded")
    assert (ended["outcome"], ended["errorKind"], ended["signal"], ended["failedNode"]) == (
        "failed",
        "signal",
        9,
        nodes[1],
    )
    assert {node["agent"] for node in ended["nodes"]} == {"linked"}
    submit(cluster, 2)
    assert event(cluster, "AttemptStepped", attempt=2)["resumedFrom"] >= 10


#: Hears SIGTERM and goes on, as a rank does that waits for its peers in a collective.
#: With an argument it saves for so many seconds, and ends.
STUBBORN = """
import os, pathlib, signal, sys, time
NODE = os.environ["SLURMD_NODENAME"]

def told(*_):
    pathlib.Path(f"told-{NODE}").touch()
    if len(sys.argv) > 1:
        time.sleep(float(sys.argv[1]))
        pathlib.Path(f"saved-{NODE}").touch()
        os._exit(143)

signal.signal(signal.SIGTERM, told)
pathlib.Path(f"ready-{NODE}").touch()
while True:
    time.sleep(0.05)
"""


def stubborn(cluster: AgentCluster, *arguments: str) -> tuple[list[str], Path]:
    """Submit it, wait until it handles the signal; the job's nodes, and its working directory."""
    submit(cluster, files={"train.py": STUBBORN}, arguments=list(arguments))
    nodes: list[str] = event(cluster, "AttemptStarted")["nodes"]
    work = cluster.shared / f"trainyard/runs/{RUN}/work"
    eventually("the program", lambda: all((work / f"ready-{node}").exists() for node in nodes), 20)
    return nodes, work


def left_of(cluster: AgentCluster) -> list[int]:
    return cluster.processes(TRAINYARD_RUN_ID=RUN)


def test_ranks_that_do_not_hear_sigterm_end_soon_after_one_was_killed_though_slurm_would_wait(
    cluster: AgentCluster,
) -> None:
    nodes, work = stubborn(cluster)
    for pid in cluster.ranks(RUN, nodes[0]):
        os.kill(pid, signal.SIGKILL)
    ended = event(cluster, "AttemptEnded", KILL_WAIT / 2)
    assert (ended["outcome"], ended["errorKind"], ended["signal"], ended["failedNode"]) == (
        "failed",
        "signal",
        9,
        nodes[0],
    )
    assert (work / f"told-{nodes[1]}").exists(), "it was asked before it was killed"
    report = json.loads((work.parent / f"attempts/1/launch-{nodes[1]}.json").read_text())
    assert (report["kind"], report["signal"]) == ("peer", None), (
        "its own launcher ended it, and knows that it is not the cause"
    )
    eventually("no process of the job is left", lambda: not left_of(cluster), 20)


def test_a_job_whose_node_was_restarted_ends_at_once_though_its_ranks_do_not_hear_sigterm(
    cluster: AgentCluster,
) -> None:
    nodes, _ = stubborn(cluster)
    node = node_named(cluster, nodes[1])
    cluster.kill_agent(node)
    (node.root / "var/run/trainyard-boot").unlink()
    cluster.start_agent(node)
    ended = event(cluster, "AttemptEnded", KILL_WAIT / 2)
    assert (ended["outcome"], ended["error"]) == ("failed", f"{node.name} was restarted")
    assert not left_of(cluster), "nothing of it runs when its end is told"


def test_what_a_job_saves_after_a_persons_scancel_is_there_before_its_end_is_told(
    cluster: AgentCluster,
) -> None:
    nodes, work = stubborn(cluster, "4")
    cluster.slurm("scancel", cluster.agent("status", "--run", RUN)["jobId"])
    assert event(cluster, "AttemptEnded", KILL_WAIT)["outcome"] == "cancelled"
    assert all((work / f"saved-{node}").exists() for node in nodes)


def step_daemon(cluster: AgentCluster, node: str) -> int:
    """The pid of the node's slurmstepd of the job's step: the parent of the node's launcher."""
    report = cluster.shared / f"trainyard/runs/{RUN}/attempts/1/launch-{node}.json"
    launcher = (
        eventually("the launcher's report", report.exists, 20)
        and json.loads(report.read_text())["pid"]
    )
    parent = int(Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[1])
    assert Path(f"/proc/{parent}/comm").read_text() == "slurmstepd\n"
    return parent


@pytest.mark.parametrize("which", EITHER_NODE)
def test_a_step_whose_daemon_was_killed_is_ended_and_the_next_attempt_goes_on(
    cluster: AgentCluster, which: int
) -> None:
    nodes = training(cluster)
    os.kill(step_daemon(cluster, nodes[which]), signal.SIGKILL)
    ended = event(cluster, "AttemptEnded", 40)
    assert (ended["outcome"], ended["errorKind"], ended["signal"], ended["failedNode"]) == (
        "failed",
        "signal",
        9,
        nodes[which],
    )
    assert "slurmstepd" in ended["error"]
    assert cluster.sink.of("NodeLost") == []
    submit(cluster, 2)
    assert event(cluster, "AttemptStepped", 30, attempt=2)["resumedFrom"] >= 10


@pytest.mark.parametrize(
    "agents",
    [
        pytest.param(False, id="agents go on", marks=pytest.mark.long),
        pytest.param(True, id="agents are killed"),
    ],
)
def test_a_job_of_which_every_process_was_killed_is_ended_and_the_next_attempt_goes_on(
    cluster: AgentCluster, agents: bool
) -> None:
    nodes = training(cluster)
    daemons = [step_daemon(cluster, name) for name in nodes]
    of_nodes = [node_named(cluster, name) for name in nodes]
    for node in of_nodes if agents else ():
        cluster.kill_agent(node)
    for pid in daemons:
        os.kill(pid, signal.SIGKILL)
    for name in nodes:
        step = {"TRAINYARD_RUN_ID": RUN, "SLURM_STEP_ID": "0", "SLURMD_NODENAME": name}
        kill_all(partial(cluster.processes, **step))
    for node in of_nodes if agents else ():
        cluster.start_agent(node)
    ended = event(cluster, "AttemptEnded", 60)
    assert (ended["outcome"], ended["errorKind"]) == ("failed", "signal")
    assert cluster.sink.of("NodeLost") == []
    if not agents:
        assert "every process of the job is gone" in ended["error"]
    submit(cluster, 2)
    assert event(cluster, "AttemptStepped", 30, attempt=2)["resumedFrom"] >= 10


@pytest.mark.parametrize("which", EITHER_NODE)
def test_training_that_finished_is_a_success_though_its_steps_daemon_was_killed(
    cluster: AgentCluster, which: int
) -> None:
    program = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "pathlib.Path('ready-' + os.environ['SLURMD_NODENAME']).touch()\n"
        "while not pathlib.Path('done').exists():\n    time.sleep(0.05)\n"
    )
    submit(cluster, files={"train.py": program})
    nodes = event(cluster, "AttemptStarted")["nodes"]
    daemon = step_daemon(cluster, nodes[which])
    files = cluster.shared / f"trainyard/runs/{RUN}/work"
    # One that has not come to its handler yet would die of the signal that it is to survive.
    eventually("the program", lambda: all((files / f"ready-{node}").exists() for node in nodes), 20)
    os.kill(daemon, signal.SIGKILL)
    (files / "done").touch()
    ended = event(cluster, "AttemptEnded", 40)
    assert (ended["outcome"], ended["exitCode"]) == ("succeeded", 0)


def test_a_node_that_is_done_leaves_the_others_the_time_they_need(cluster: AgentCluster) -> None:
    program = (
        "import os, time\ntime.sleep(6.5 if os.environ['SLURM_PROCID'] == '0' else 0)\n"
        "print('done', os.environ['SLURM_PROCID'])"
    )
    submit(cluster, files={"train.py": program})
    ended = event(cluster, "AttemptEnded", 30)
    assert (ended["outcome"], ended["exitCode"]) == ("succeeded", 0)
    assert "done 0" in ended["logTail"]


def test_a_python_error_is_reported_with_its_last_line(cluster: AgentCluster) -> None:
    submit(cluster, arguments=["--steps", "100", "--step-seconds", "0.01", "--fail-at", "7"])
    ended = event(cluster, "AttemptEnded")
    assert (ended["outcome"], ended["errorKind"], ended["error"]) == (
        "failed",
        "python-error",
        "ValueError: bad batch at step 7",
    )
    assert "ValueError: bad batch at step 7" in ended["logTail"]


def test_a_cancelled_run_stops_at_a_checkpoint(cluster: AgentCluster) -> None:
    arguments = ["--steps", "100000", "--step-seconds", "0.02", "--every", "50"]
    training(cluster, arguments=arguments, files={"train.py": LIGHT_TRAINER})
    assert cluster.agent("cancel", "--run", RUN) == {"state": "cancelling"}
    assert cluster.agent("cancel", "--run", RUN)["state"] in ("cancelling", "ended")
    assert event(cluster, "AttemptEnded")["outcome"] == "cancelled"
    assert cluster.agent("cancel", "--run", RUN) == {"state": "ended"}


def test_a_restarted_daemon_goes_on_and_sends_nothing_twice(cluster: AgentCluster) -> None:
    training(cluster, files={"train.py": LIGHT_TRAINER})
    cluster.kill_agent(cluster.controller)
    cluster.start_agent(cluster.controller)
    step = eventually(
        "the daemon answers", lambda: cluster.agent("status", "--run", RUN).get("step"), 20
    )
    eventually(
        "training advances", lambda: cluster.agent("status", "--run", RUN)["step"] > step, 20
    )
    assert cluster.agent("cancel", "--run", RUN) == {"state": "cancelling"}
    assert event(cluster, "AttemptEnded")["outcome"] == "cancelled"
    for kind in ("ClusterReady", "AttemptStarted", "AttemptStepped", "AttemptEnded"):
        assert len({detail["id"] for detail in cluster.sink.of(kind)}) == 1, kind
    assert cluster.sink.of("NodeLost") == []


def test_a_job_that_ends_while_the_daemon_is_dead_is_reported_afterwards(
    cluster: AgentCluster,
) -> None:
    submit(cluster, arguments=["--steps", "40", "--step-seconds", "0.02"])
    event(cluster, "AttemptStarted")
    cluster.kill_agent(cluster.controller)
    eventually("the job's end", lambda: cluster.idle() == 3, 20)
    cluster.start_agent(cluster.controller)
    assert event(cluster, "AttemptEnded")["outcome"] == "succeeded"


def test_an_interrupted_submission_finds_its_job_by_name(cluster: AgentCluster) -> None:
    submit(cluster)
    event(cluster, "AttemptStarted")
    cluster.kill_agent(cluster.controller)
    import sqlite3

    with sqlite3.connect(cluster.controller.root / "var/lib/trainyard/outbox.sqlite") as database:
        (job,) = database.execute("SELECT job FROM attempts").fetchone()
        database.execute("UPDATE attempts SET state = 'submitting', job = ''")
    cluster.start_agent(cluster.controller)
    assert submit(cluster)["jobId"] == job
    assert len(cluster.slurm("squeue", "-h").splitlines()) == 1


def test_events_wait_for_an_unreachable_bus_and_arrive_in_order(cluster: AgentCluster) -> None:
    uri = put_bundle(cluster, arguments=["--steps", "30", "--step-seconds", "0.02"])
    assert "jobId" in cluster.agent("submit", "--run", RUN, "--attempt", "1", "--bundle", uri)
    cluster.sink.reachable = False
    before = len(cluster.sink.events)
    eventually("the end", lambda: cluster.agent("status", "--run", RUN)["state"] == "ended", 20)
    cluster.kill_agent(cluster.controller)
    cluster.sink.reachable = True
    cluster.start_agent(cluster.controller)
    event(cluster, "AttemptEnded")
    kinds = [
        kind
        for kind, detail, _ in cluster.sink.events[max(0, before - 3) :]
        if detail.get("runId") and kind.startswith("Attempt")
    ]
    assert kinds == sorted(kinds, key=["AttemptStarted", "AttemptStepped", "AttemptEnded"].index)
    assert kinds[-1] == "AttemptEnded"


def test_a_corrupted_checkpoint_is_rejected_and_never_deleted(cluster: AgentCluster) -> None:
    training(cluster, arguments=["--steps", "100000", "--step-seconds", "0.05", "--every", "40"])
    newest = eventually(
        "a checkpoint",
        lambda: sorted((cluster.shared / f"trainyard/runs/{RUN}/checkpoints").glob("step-*"))[-1:],
        20,
    )[0]
    payload = newest / "payload.json"
    payload.write_bytes(payload.read_bytes()[::-1])
    rejected = event(cluster, "CheckpointRejected")
    assert rejected["path"] == f"checkpoints/{newest.name}"
    assert "hash" in rejected["reason"]
    assert newest.is_dir()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (
            ["submit", "--run", "run-$(id)", "--attempt", "1", "--bundle", "s3://data/x"],
            "invalid-request",
        ),
        (["submit", "--run", RUN, "--attempt", "0", "--bundle", "s3://data/x"], "invalid-request"),
        (
            ["submit", "--run", RUN, "--attempt", "1", "--bundle", "file:///etc/passwd"],
            "invalid-request",
        ),
        (
            ["submit", "--run", RUN, "--attempt", "1", "--bundle", "s3://data/nothing"],
            "bundle-missing",
        ),
        (
            [
                "submit",
                "--run",
                RUN,
                "--attempt",
                "1",
                "--bundle",
                "s3://data/x",
                "--sha256",
                "no hash",
            ],
            "invalid-request",
        ),
        (["submit", "--run", RUN], "invalid-request"),
        (["status", "--run", RUN], "run-not-found"),
        (["explode"], "invalid-request"),
    ],
)
def test_a_bad_command_is_refused_with_a_code(
    refusing: AgentCluster, arguments: list[str], code: str
) -> None:
    assert refusing.agent(*arguments)["error"] == code


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"../../escape.py": "x"}},
        {"checkpointDirectory": "../../elsewhere"},
        {"excludeNodes": ["a;reboot"]},
        {"partition": "main --wrap=id"},
        {"clusterName": "another"},
        {"attempt": 2},
        {"nodes": 0},
    ],
)
def test_a_bad_bundle_is_refused_before_anything_is_written(
    refusing: AgentCluster, changes: dict[str, Any]
) -> None:
    uri = put_bundle(refusing, **changes)
    assert (
        refusing.agent("submit", "--run", RUN, "--attempt", "1", "--bundle", uri)["error"]
        == "bundle-refused"
    )
    assert not (refusing.shared / f"trainyard/runs/{RUN}").exists()


def test_a_bundle_overwritten_after_its_hash_was_told_is_refused_before_anything_is_written(
    refusing: AgentCluster,
) -> None:
    uri = put_bundle(refusing)
    meant = sha256(refusing.sink.objects[uri.removeprefix("s3://")][0]).hexdigest()
    put_bundle(refusing, files={"train.py": "print('of somebody else')"})
    refused = refusing.agent(
        "submit", "--run", RUN, "--attempt", "1", "--bundle", uri, "--sha256", meant
    )
    assert refused["error"] == "bundle-changed"
    assert "was overwritten" in refused["message"]
    assert not (refusing.shared / f"trainyard/runs/{RUN}").exists()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentCluster]:
    with agent_cluster(tmp_path_factory.mktemp("refusing"), workers=1) as running:
        yield running


def test_peoples_jobs_are_told_with_the_heartbeat_and_a_runs_own_are_not(
    cluster: AgentCluster,
) -> None:
    submit(cluster)
    event(cluster, "AttemptStarted", attempt=1)
    mine = ("sbatch", "--parsable", "--job-name=mine", "--output=/dev/null", "--wrap=sleep 600")
    cluster.slurm(*mine, "--nodes=1")
    cluster.slurm(*mine, "--nodes=3")

    def told() -> list[dict[str, Any]]:
        found = [
            beat["otherJobs"]
            for beat in cluster.sink.of("ClusterHeartbeat")
            if beat.get("otherJobs")
        ]
        return [jobs for jobs in found if (jobs["running"], jobs["queued"]) == (1, 1)]

    assert eventually("one running and one queued job", told, 20)[0]["users"] == [
        pwd.getpwuid(os.getuid()).pw_name
    ]
