"""The commands that say what things cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, T

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]


def a_cost(**fields: Any) -> dict[str, Any]:
    span = {
        "since": T, "until": T, "ended": False, "hourlyUsd": 6.0, "source": "list", "nodes": 4,
        "share": 1.0,
    }  # fmt: skip
    return {
        "runId": RUN,
        "usd": 3.25,
        "reason": "",
        "at": T,
        "final": False,
        "nodeSeconds": 7200,
        "prices": [span],
        "ledger": [
            {"cause": "useful", "seconds": 1500, "nodeSeconds": 6000, "usd": 2.5},
            {"cause": "restart", "seconds": 300, "nodeSeconds": 1200, "usd": 0.75},
        ],
        "budget": {"maxUsd": 10, "spentUsd": 3.25, "heldBackUsd": 2.0, "stopsAt": T},
        **fields,
    }


def test_a_run_s_cost_is_shown_with_its_causes_and_its_budget(
    api: FakeApi, trainyard: Command
) -> None:
    api.answers[f"GET /v1/runs/{RUN}/cost"] = (200, a_cost())
    code, out, _ = trainyard("run", "cost", RUN)
    assert code == 0
    for words in (
        "3.25 USD so far", "6 USD an hour by the price list", "3.25 of 10 USD spent, 2.00 held",
        "useful", "restart", "0.75 USD",
    ):  # fmt: skip
        assert words in out
    code, out, _ = trainyard("run", "cost", RUN, "-o", "csv")
    assert out.splitlines() == [
        "cause,seconds,nodeSeconds,usd",
        "useful,1500,6000,2.5",
        "restart,300,1200,0.75",
    ]


def test_an_unknown_cost_says_why(api: FakeApi, trainyard: Command) -> None:
    unknown = a_cost(usd=None, reason="No price was known.", budget=None, prices=[], ledger=[])
    api.answers[f"GET /v1/runs/{RUN}/cost"] = (200, unknown)
    code, out, _ = trainyard("run", "cost", RUN)
    assert code == 0
    assert "not known so far" in out
    assert "No price was known." in out


def test_a_cluster_s_cost_is_divided_among_its_runs(api: FakeApi, trainyard: Command) -> None:
    found = {
        "clusterName": "shared", "usd": 9.0, "reason": "", "at": T, "nodeSeconds": 1,
        "prices": [], "runs": [{"runId": RUN, "usd": 5.0}], "idleUsd": 4.0,
    }  # fmt: skip
    api.answers["GET /v1/clusters/shared/cost"] = (200, found)
    code, out, _ = trainyard("cluster", "cost", "shared")
    assert code == 0
    assert "9.00 USD so far" in out
    assert "(idle)" in out
    assert "4.00 USD" in out
    assert trainyard("cluster", "cost", "shared", "-o", "csv")[1].splitlines()[1:] == [
        f"{RUN},5.0",
        "(idle),4.0",
    ]


def test_costs_are_added_up_and_no_cell_is_a_formula(api: FakeApi, trainyard: Command) -> None:
    total = {"runs": 2, "usd": 7.5, "unpriced": 1, "usefulUsd": 6.0, "nodeSeconds": 100}
    totals = [{"key": "=1+1", **total}]
    api.answers["GET /v1/costs"] = (
        200, {"by": "label:team", "at": T, "totals": totals, "leftOut": True},
    )  # fmt: skip
    code, out, err = trainyard("costs", "--by", "label:team", "--since", "30d", "-o", "csv")
    assert code == 0
    assert out.splitlines()[1] == "'=1+1,2,7.5,1,6.0,100"
    assert "more runs" in err
    assert "by=label%3Ateam" in str(api.requests[-1])
    code, out, _ = trainyard("costs", "--by", "label:team")
    assert "7.50 USD and 1 unknown" in out
