"""What is kept of the logs of single ranks, and what a person may ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainyard.app.runs.rank_logs import Kept
from trainyard.app.runs.whose_logs import Whose
from trainyard.domain.errors import LogNotKept

KEY = "clusters/c/runs/r/logs/attempt-1.log"


def kept(objects: dict[str, str], logs: list[dict[str, Any]], **more: Any) -> Kept:
    bodies = {f"clusters/c/runs/r/logs/attempt-1/{name}": text for name, text in objects.items()}
    bodies["clusters/c/runs/r/logs/attempt-1/rank-logs.json"] = json.dumps({"logs": logs, **more})
    return Kept(KEY, lambda key: bodies[key].encode() if key in bodies else None)


def entry(rank: int | None, size: int, *, whole: int = 0, **more: Any) -> dict[str, Any]:
    return {"node": "ip-1", "rank": rank, "bytes": whole or size, "kept": size, **more}


TWO = kept(
    {"rank-0.log": "a\nb\n", "rank-1.log": "c\nd\n"},
    [entry(0, 4), entry(1, 4), {**entry(2, 0), "node": "ip-2"}],
)


def test_one_ranks_log_and_those_of_a_node() -> None:
    assert TWO.text(Whose(rank=1), 10, "", 0) == "c\nd"
    assert TWO.text(Whose(rank=1), 1, "", 0) == "d"
    assert TWO.text(Whose(rank=1), 10, "c", 0) == "c"
    headed = "==> rank 0 on ip-1 <==\nb\n\n==> rank 1 on ip-1 <==\nd"
    assert TWO.text(Whose(node="ip-1"), 1, "", 0) == headed
    assert TWO.text(Whose(node="ip-2"), 1, "", 0) == "", "it printed nothing"


def test_a_program_that_ran_once_on_its_node() -> None:
    alone = kept({"program-ip-1.log": "alone\n"}, [entry(None, 6)])
    assert alone.text(Whose(node="ip-1"), 9, "", 0) == "alone"


def test_nothing_is_kept_before_the_list_is() -> None:
    assert Kept(KEY, lambda key: None).text(Whose(rank=0), 9, "", 0) is None


def test_what_was_not_kept_is_told() -> None:
    some = kept({"rank-0.log": "end\n"}, [entry(0, 4, whole=104)])
    assert some.text(Whose(rank=0), 9, "", 0) == "(the 100 bytes before this were not kept)\nend"
    assert some.text(Whose(rank=0), 9, "end", 0) == (
        "(the 100 bytes before this were not kept)\nend"
    )
    with pytest.raises(LogNotKept, match="those of 1 are, and 7 are not"):
        kept({}, [entry(0, 0)], leftOut=7).text(Whose(rank=3), 9, "", 0)


def test_since_a_time_counts_back_from_the_attempts_end() -> None:
    marks = [{"at": 900, "left": 2}, {"at": 990, "left": 0}]
    log = kept({"rank-0.log": "a\nb\n"}, [entry(0, 4, marks=marks)], endedAt=1000)
    assert log.text(Whose(rank=0), 9, "", 1) == ""
    assert log.text(Whose(rank=0), 9, "", 60) == "b"
    assert log.text(Whose(rank=0), 9, "", 200) == "a\nb"
