"""What ranks tell of their ends, and whose failure came first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.launching import NODES, allocation

from trainyard_trainers.common.failure import Failure
from trainyard_trainers.launch import ranks
from trainyard_trainers.launch.allocation import Allocation

# -- the world that was asked for ----------------------------------------------------------------
WHOLE = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "10.0.0.3",
    "MASTER_PORT": "12000",
    "TRAINYARD_WORLD_SIZE": "4",
}


def test_a_process_that_is_alone_in_its_world_is_told_from_one_of_many() -> None:
    assert ranks.wrong_world(WHOLE) is None
    assert "formed 1 process, but the job asks for 4" in str(
        ranks.wrong_world({**WHOLE, "WORLD_SIZE": "1"})
    )
    assert "did not set RANK, LOCAL_RANK" in str(
        ranks.wrong_world({**WHOLE, "RANK": "", "LOCAL_RANK": ""})
    )


@pytest.mark.real
def test_a_rank_of_the_wrong_world_fails_before_its_program_starts(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    program = tmp_path / "program.py"
    program.write_text("print('TRAINED')")
    (given.job.attempt_dir / "ranks").mkdir()
    variables = {
        **WHOLE,
        "WORLD_SIZE": "1",
        "TRAINYARD_ATTEMPT_DIR": str(given.job.attempt_dir),
        "TRAINYARD_NODE_NAME": NODES[0],
    }
    command = [
        sys.executable,
        "-c",
        f"from trainyard_trainers.launch import ranks; ranks.run([{str(program)!r}])",
    ]
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, "TRAINED" in done.stdout) == (1, False)
    end = ranks.outcome(given, 1)
    assert (end.kind, end.rank) == ("python-error", 1)
    assert str(end.error).startswith(
        "WrongWorldSize: the launcher formed 1 process, but the job asks for 4"
    )


# -- whose failure came first --------------------------------------------------------------------
def report(
    given: Allocation, node: str, rank: int, end: Failure | None = None, ended: float = 0.0
) -> None:
    """What a rank wrote down."""
    directory = given.job.attempt_dir / "ranks"
    directory.mkdir(exist_ok=True)
    about = {"node": node, "rank": rank, "pid": 1, "started": 0.0}
    document = {**about, "ended": ended, **end.as_json()} if end else about
    (directory / f"{node}.{rank}.json").write_text(json.dumps(document))


KILLED = Failure(137, 9, 2)
LOST_ITS_PEER = Failure(1, rank=0, error="RuntimeError: Connection closed by peer [10.0.0.4]:12513")


def test_the_node_of_the_first_cause_reports_it_and_the_others_a_consequence(
    tmp_path: Path,
) -> None:
    here, there = allocation(tmp_path), allocation(tmp_path, rank=1)
    report(here, NODES[0], 0, LOST_ITS_PEER, ended=1.0)
    report(here, NODES[0], 1, Failure(143, rank=1), ended=3.0)
    report(here, NODES[1], 2, KILLED, ended=2.0)
    report(here, NODES[1], 3)
    assert ranks.outcome(there, 137) == KILLED
    assert ranks.outcome(here, 137).kind == "peer"


def test_ranks_that_only_lost_their_peers_are_no_cause(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    report(given, NODES[0], 0, LOST_ITS_PEER, ended=1.0)
    assert ranks.outcome(given, 1).kind == "peer"


def test_a_rank_whose_keeper_was_killed_too_was_killed(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    report(given, NODES[0], 0, Failure(143, rank=0), ended=1.0)
    report(given, NODES[0], 1)
    assert ranks.outcome(given, 137) == Failure(137, 9, 1)


def test_ranks_that_were_asked_to_stop_make_a_stopped_job_whatever_their_launcher_calls_it(
    tmp_path: Path,
) -> None:
    given = allocation(tmp_path)
    for rank in (0, 1):
        report(given, NODES[0], rank, Failure(143, rank=rank), ended=1.0)
    assert ranks.outcome(given, 1).kind == "stopped"


def test_a_launcher_that_started_too_few_and_calls_that_a_success_is_not_believed(
    tmp_path: Path,
) -> None:
    given = allocation(tmp_path)
    report(given, NODES[0], 0, Failure(0), ended=1.0)
    assert "1 of this node's 2 processes were started" in str(ranks.outcome(given, 0).error)
    report(given, NODES[0], 1, Failure(0), ended=1.0)
    assert ranks.outcome(given, 0).kind is None


@pytest.mark.parametrize(
    ("exit_code", "end"),
    [
        (0, Failure(0)),
        (1, Failure(1)),
        (-9, Failure(137, 9)),
        (137, Failure(137, 9)),
        (192, Failure(192, 64)),
        (213, Failure(213)),
    ],
)
def test_a_launchers_own_exit_code_is_a_signal_only_if_linux_has_it(
    tmp_path: Path, exit_code: int, end: Failure
) -> None:
    given = allocation(tmp_path)
    for rank in range(2):
        report(given, NODES[0], rank, Failure(0), ended=1.0)
    assert ranks.outcome(given, exit_code) == end
