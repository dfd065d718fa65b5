"""One rank's lines, and one node's, out of two nodes with two ranks each."""

from __future__ import annotations

from tests.support.system import Json, System, eventually

PROGRAM = """
import os, sys, time
from pathlib import Path

rank = os.environ.get("RANK", "alone")
print(f"rank {rank} begins on {os.environ['SLURMD_NODENAME']}")
go = Path(os.environ["TRAINYARD_RUN_DIR"], "go")
while not go.exists():
    time.sleep(0.05)
print(f"rank {rank} ends", file=sys.stderr)
"""


def job(recipe: str, processes: int = 2) -> Json:
    return {
        "recipe": recipe,
        "nodes": 2,
        "processesPerNode": processes,
        "script": "say.py",
        "files": {"say.py": PROGRAM},
    }


def begun(system: System, run_id: str, lines: int) -> list[str]:
    """The attempt's nodes, once so many lines of the program are in the log of all."""

    def nodes() -> list[str]:
        text = system.api.logs(run_id)["text"]
        attempts = system.api.run(run_id)["attempts"]
        return attempts[0]["nodes"] if text.count(" begins on ") == lines else []

    return list(eventually("all ranks have begun", nodes, 120))


def test_a_ranks_lines_and_a_nodes_are_shown_while_they_print_and_when_all_is_gone(
    system: System, shared: str
) -> None:
    run_id = system.submit("rank-logs", job("torchrun"), shared, export={"enabled": False})
    first, second = begun(system, run_id, 4)
    live = system.api.logs(run_id, rank=3)
    assert (live["source"], live["text"]) == ("node", f"rank 3 begins on {second}")
    assert system.api.logs(run_id, node=first)["text"] == (
        f"==> rank 0 on {first} <==\nrank 0 begins on {first}\n\n"
        f"==> rank 1 on {first} <==\nrank 1 begins on {first}"
    )
    system.release(run_id)
    system.ended(run_id, "Succeeded", 120)
    kept = eventually(
        "the ranks' logs are kept",
        lambda: (log := system.api.logs(run_id, rank=2))["source"] == "s3" and log,
    )
    assert kept["text"] == f"rank 2 begins on {second}\nrank 2 ends"
    assert system.api.logs(run_id, rank=2, contains="ends")["text"] == "rank 2 ends"
    assert "rank 3 ends" in system.api.logs(run_id, node=second, since_seconds=3600)["text"]
    whole = system.api.logs(run_id)["text"].splitlines()
    assert {f"rank {rank} ends" for rank in range(4)} <= {*whole}


def test_a_plain_programs_lines_are_shown_by_its_node(system: System, shared: str) -> None:
    run_id = system.submit("node-logs", job("command", 1), shared, export={"enabled": False})
    first, second = begun(system, run_id, 2)
    for node in (first, second):
        assert system.api.logs(run_id, node=node)["text"] == f"rank alone begins on {node}"
    system.release(run_id)
    system.ended(run_id, "Succeeded", 120)
    kept = eventually(
        "the nodes' logs are kept",
        lambda: (log := system.api.logs(run_id, node=second))["source"] == "s3" and log,
    )
    assert kept["text"].splitlines()[-1] == "rank alone ends"


def test_the_last_words_of_a_rank_that_is_killed_are_its_own(system: System, shared: str) -> None:
    run_id = system.submit("rank-killed", job("torchrun"), shared, export={"enabled": False})
    victim = begun(system, run_id, 4)[1]
    system.fault("kill-process", shared, run=run_id, node=victim)
    system.until(run_id, "another attempt is there", lambda run: len(run["attempts"]) == 2)
    text = eventually(
        "the first attempt's logs are kept",
        lambda: (log := system.api.logs(run_id, attempt=1, node=victim))["source"] == "s3" and log,
    )["text"]
    assert text.count(f"begins on {victim}") == 2
    system.release(run_id)
    system.ended(run_id, "Succeeded", 120)
