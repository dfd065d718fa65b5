"""A schedule's chain: names become the ids of one time."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainyard_contracts.schedules import MOST_RUNS, ChainedRun, ScheduleSpec
from trainyard_contracts.specs import RunSpec

FIRST, SECOND, BEFORE = (f"run-{digit * 26}" for digit in "012")


def of(name: str, **extra: Any) -> dict[str, Any]:
    job = {"nodes": 1, "script": "t.py", "files": {"t.py": ""}}
    return {"name": name, "cluster": {"name": "shared"}, "job": job, **extra}


def chain(*runs: dict[str, Any]) -> list[ChainedRun]:
    spec = {"name": "nightly", "cron": "0 2 * * *", "runs": list(runs)}
    return ScheduleSpec.model_validate(spec).chain


def test_names_in_after_and_in_sources_become_ids_and_the_rest_stays() -> None:
    inputs = [
        {"source": "run:train/outputs/final", "path": "model"},
        {"source": "run:train/outputs", "path": "all"},
        {"source": "corpus", "path": "data"},
    ]
    _, second = chain(of("train"), of("test", after=["train"], inputs=inputs, labels={"a": "b"}))
    spec = second.with_ids({"train": FIRST, "test": SECOND})
    assert type(spec) is RunSpec
    assert (spec.after, spec.after_policy) == ([FIRST], "success")
    assert [one.source for one in spec.inputs] == [
        f"run:{FIRST}/outputs/final", f"run:{FIRST}/outputs", "corpus",
    ]  # fmt: skip
    assert spec.labels == {"a": "b"}


def test_what_follows_no_run_of_its_time_begins_after_those_before_however_they_ended() -> None:
    first, second = chain(of("train"), of("test", after=["train"]))
    ids = {"train": FIRST, "test": SECOND}
    begins, follows = first.with_ids(ids, [BEFORE]), second.with_ids(ids, [BEFORE])
    assert (begins.after, begins.after_policy) == ([BEFORE], "end")
    assert (follows.after, follows.after_policy) == ([FIRST], "success")


def test_one_run_is_a_chain_of_one() -> None:
    spec = ScheduleSpec.model_validate({"name": "n", "rate": "6 hours", "run": of("train")})
    (only,) = spec.chain
    assert only.with_ids({"train": FIRST}) == spec.run


def test_a_chain_has_so_many_runs_that_the_next_one_can_wait_for_all() -> None:
    runs = [of(f"run-{number}") for number in range(MOST_RUNS + 1)]
    chain(*runs[:-1])[0].with_ids({"run-0": FIRST}, [f"run-{n:026d}" for n in range(MOST_RUNS)])
    with pytest.raises(ValidationError, match="runs"):
        chain(*runs)
