"""Dry runs of arrays, chains and schedules: what is shown, and that only the question is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import FakeApi
from tests.unit.trainyard_cli.commands.test_arrays import FILE as ARRAY
from tests.unit.trainyard_cli.commands.test_chains import FILE as CHAIN
from tests.unit.trainyard_cli.commands.test_schedules import FILE as NIGHTLY

from trainyard_cli.commands.plans import price

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
PRICE = {"hourlyUsd": 6.0, "expectedUsd": 3.0, "mostUsd": 12.0}
UNKNOWN = {"hourlyUsd": None, "expectedUsd": None, "mostUsd": None}
PLAN = {**PRICE, "operation": None, "request": {}, "warnings": ["It would wait for people."]}
REFUSED = {
    "run": "sweep-0", "code": "cluster-not-found", "detail": "no cluster 'shared'.",
    "nextStep": "List clusters.",
}  # fmt: skip


def array_plan(**fields: Any) -> dict[str, Any]:
    return {
        "total": 5,
        "waves": [2, 2, 1],
        "firstName": "sweep-0",
        "firstParameters": {"lr": "0.10"},
        "first": PLAN,
        "one": PRICE,
        "all": {**PRICE, "mostUsd": 60.0},
        "refused": [],
        **fields,
    }


def asked(api: FakeApi) -> list[tuple[str, str, str | None]]:
    return [
        (one["method"], one["path"].removeprefix("/stage"), one["query"].get("dryrun"))
        for one in api.requests
    ]


def test_an_array_is_tried_dry(api: FakeApi, trainyard: Command, tmp_path: Path) -> None:
    (tmp_path / "array.yaml").write_text(ARRAY)
    api.answers["POST /v1/arrays"] = (200, array_plan())
    code, out, err = trainyard("array", "submit", str(tmp_path / "array.yaml"), "--dryrun")
    assert code == 0, err
    for words in (
        "sweep-0: lr=0.10", "2 of 2 at once, then 1", "60.00 USD at most",
        "It would wait for people.",
    ):  # fmt: skip
        assert words in out
    assert "Nothing was done." in err
    assert asked(api) == [("POST", "/v1/arrays", "true")]


def test_what_would_be_refused_is_said_and_ends_with_1(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "array.yaml").write_text(ARRAY)
    plan = array_plan(first=None, one=UNKNOWN, all=UNKNOWN, refused=[REFUSED])
    api.answers["POST /v1/arrays"] = (200, plan)
    file = str(tmp_path / "array.yaml")
    code, out, _ = trainyard("array", "submit", file, "--dryrun")
    assert code == 1
    assert "would be refused sweep-0: no cluster 'shared'. List clusters." in out
    code, out, _ = trainyard("--json", "array", "submit", file, "--dryrun")
    assert (code, json.loads(out)["refused"]) == (1, [REFUSED])


def test_a_schedule_is_tried_dry_with_its_times_in_its_zone(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "nightly.yaml").write_text(NIGHTLY)
    time = {"at": "2027-03-27T01:30:00Z", "local": "2027-03-27T02:30:00+01:00"}
    plan = {
        "timezone": "Europe/Berlin",
        "nextTimes": [time],
        "runs": [{"name": "evaluate", "plan": PLAN}],
        "one": PRICE,
        "all": PRICE,
        "refused": [],
    }
    api.answers["POST /v1/schedules"] = (200, plan)
    file = str(tmp_path / "nightly.yaml")
    code, out, err = trainyard("schedule", "add", file, "--dryrun")
    assert code == 0, err
    for words in ("Europe/Berlin", "2027-03-27T02:30:00+01:00", "evaluate", "12.00 USD at most"):
        assert words in out
    assert asked(api) == [("POST", "/v1/schedules", "true")]


def test_a_chain_is_tried_dry_to_its_end(api: FakeApi, trainyard: Command, tmp_path: Path) -> None:
    (tmp_path / "chain.yaml").write_text(CHAIN)
    gone = {"code": "cluster-not-found", "detail": "no cluster.", "nextStep": "Make it."}
    api.answers["POST /v1/runs"] = [(404, gone), (200, PLAN)]
    file = str(tmp_path / "chain.yaml")
    code, out, _ = trainyard("chain", "submit", file, "--dryrun")
    assert code == 1
    assert "train: no cluster. Make it." in out
    assert "all cost  not known" in out
    assert asked(api) == [("POST", "/v1/runs", "true")] * 2


def test_a_chain_that_would_be_taken_says_what_all_of_it_costs(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "chain.yaml").write_text(CHAIN)
    api.answers["POST /v1/runs"] = (200, PLAN)
    code, out, _ = trainyard("--json", "chain", "submit", str(tmp_path / "chain.yaml"), "--dryrun")
    assert code == 0
    assert json.loads(out)["all"] == {"expectedUsd": 6.0, "mostUsd": 24.0}


def test_an_api_that_is_away_is_no_refusal(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "chain.yaml").write_text(CHAIN)
    api.answers["POST /v1/runs"] = (403, {"message": "Forbidden"})
    code, out, _ = trainyard("chain", "submit", str(tmp_path / "chain.yaml"), "--dryrun")
    assert code == 7
    assert "would be refused" not in out


def test_a_directory_that_would_go_up_first_is_no_news(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/t.py").write_text("print()\n")
    text = ARRAY.replace('files: {t.py: ""}', "workdir: code")
    (tmp_path / "array.yaml").write_text(text)
    first = {**PLAN, "warnings": ["job.workdir: it is not there."]}
    missing = {**REFUSED, "code": "upload-incomplete"}
    api.answers["POST /v1/arrays"] = (200, array_plan(first=first, refused=[missing]))
    code, out, err = trainyard("array", "submit", str(tmp_path / "array.yaml"), "--dryrun")
    assert code == 0, out
    assert "Would upload" in err
    assert "job.workdir" not in out
    assert asked(api) == [("POST", "/v1/arrays", "true")]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (PRICE, "6.00 USD an hour, 3.00 USD expected, 12.00 USD at most"),
        ({**UNKNOWN, "mostUsd": 1}, "1.00 USD at most"),
        (UNKNOWN, "not known"),
        ({}, "not known"),
    ],
)
def test_a_price_is_said_as_far_as_it_is_known(found: dict[str, Any], words: str) -> None:
    assert price(found) == words
