"""What is kept in S3 of an ended attempt's logs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent_s3 import AgentS3

from trainyard_agent.jobs import run_logs
from trainyard_agent.jobs.run_logs import RunLogs

RUN = "run-01j0000000000000000000000a"
AT = f"clusters/c/runs/{RUN}/logs/attempt-1"


def uploaded(directory: Path) -> dict[str, bytes]:
    s3: Any = AgentS3()
    config: Any = SimpleNamespace(runs_prefix="clusters/c/runs", data_bucket="data")
    attempt: Any = SimpleNamespace(directory=directory, run_id=RUN, number=1)
    asyncio.run(RunLogs(config, s3).upload(attempt))
    return dict(s3.objects)


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    (tmp_path / "job.log").write_text("all\n")
    (tmp_path / "job.log.times").write_text("1000 4\n")
    directory = tmp_path / "rank-logs" / "ip-1"
    directory.mkdir(parents=True)
    for rank in range(4):
        (directory / f"rank-{rank}.log").write_text(f"rank {rank} one\nrank {rank} two\n")
    (directory / "times").write_text("990 rank-0.log 11 rank-1.log 11\n1000 rank-0.log 22\n")
    return tmp_path


def test_each_ranks_log_is_kept_beside_the_log_of_all(attempt: Path) -> None:
    (attempt / "rank-logs/ip-1/rank-3.log").write_text("")
    (attempt / "rank-logs/ip-2").mkdir()
    (attempt / "rank-logs/ip-2/program.log").write_text("alone\n")
    found = uploaded(attempt)
    kept = json.loads(found.pop(f"{AT}/rank-logs.json"))
    assert found[f"{AT}/rank-2.log"] == b"rank 2 one\nrank 2 two\n"
    assert found[f"{AT}/program-ip-2.log"] == b"alone\n"
    names = {f"{AT}.log", f"{AT}.times.json", *(f"{AT}/rank-{rank}.log" for rank in range(3))}
    assert found.keys() == {*names, f"{AT}/program-ip-2.log"}
    assert (kept["endedAt"], kept["leftOut"]) == (1000, 0)
    by_rank = {log["rank"]: log for log in kept["logs"]}
    assert by_rank[0]["marks"] == [{"at": 990, "left": 11}, {"at": 1000, "left": 0}]
    assert (by_rank[3]["kept"], by_rank[None]["node"]) == (0, "ip-2")


def test_number_and_size_of_what_is_kept_are_bounded(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_logs, "RANKS_KEPT", 3)
    monkeypatch.setattr(run_logs, "ALL_RANKS_BYTES", 3 * 12)
    found = uploaded(attempt)
    assert found[f"{AT}/rank-1.log"] == b"rank 1 two\n", "whole lines of its end"
    kept = json.loads(found[f"{AT}/rank-logs.json"])
    assert [log["rank"] for log in kept["logs"]] == [0, 1, 2]
    assert (kept["leftOut"], kept["logs"][1]["bytes"], kept["logs"][1]["kept"]) == (1, 22, 11)
    assert f"{AT}/rank-3.log" not in found


def test_without_logs_of_ranks_the_log_of_all_is_kept_alone(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("all\n")
    assert uploaded(tmp_path).keys() == {f"{AT}.log", f"{AT}.times.json"}
