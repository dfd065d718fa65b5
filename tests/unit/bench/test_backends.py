"""The benchmark of backends: which kinds are played here, and when a kind's target is reached."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench import backends
from bench.recovery import Round, reached
from tests.conformance.adapter import adapter_of, members

KIND = next(kind for kind in backends.KINDS if kind.nodes == "training-job")
GOOD = Round(
    KIND.name, 1, recovered=True, causes=[KIND.cause], lost_exactly_after_last_checkpoint=True,
    final_weights_equal=True, fault_to_resumed_step_seconds=14.0,
)  # fmt: skip


def test_every_backend_of_the_union_is_struck_in_both_ways() -> None:
    found = {(kind.nodes, kind.fault) for kind in backends.KINDS}
    assert found >= {(name, fault) for name in members() for fault in ("lose_node", "kill_worker")}
    assert all(hasattr(adapter_of(kind.nodes), kind.fault) for kind in backends.KINDS)


def test_a_median_above_the_target_is_not_reached() -> None:
    late = replace(GOOD, fault_to_resumed_step_seconds=15.1)
    assert reached(backends.figures(KIND, [asdict(GOOD)]))
    assert not reached(backends.figures(KIND, [asdict(late)]))


def test_other_weights_are_not_reached_however_fast() -> None:
    other = replace(GOOD, final_weights_equal=False)
    assert not reached(backends.figures(KIND, [asdict(GOOD), asdict(other)]))


def test_the_figures_of_a_kind_are_those_of_its_rounds_alone() -> None:
    other = replace(GOOD, kind="another", fault_to_resumed_step_seconds=1.0)
    found = backends.figures(KIND, [asdict(GOOD), asdict(other)])
    assert (found["backend"], found["rounds"]) == ("training-job", 1)
    assert found["medianFaultToResumedStepSeconds"] == 14.0


def test_a_backend_that_is_not_there_is_left_out_with_the_reason() -> None:
    report: dict[str, Any] = {}
    assert backends.here([replace(KIND, nodes="another")], report) == []
    assert report["leftOut"] == {KIND.name: "no spec can name this backend"}


def test_what_was_measured_is_written_and_too_few_rounds_reach_nothing(tmp_path: Path) -> None:
    output = tmp_path / "new" / "backends.json"
    for rounds, expected in ((1, True), (2, False)):
        report: dict[str, Any] = {"machine": {}, "rounds": [asdict(GOOD)]}
        backends.write(report, [KIND], argparse.Namespace(rounds=rounds, output=output))
        found = json.loads(output.read_text())
        assert found["reached"] is expected
        assert found["kinds"][0]["medianFaultToResumedStepSeconds"] == 14.0


def test_no_kind_at_all_reaches_nothing(tmp_path: Path) -> None:
    report: dict[str, Any] = {"machine": {}, "rounds": []}
    backends.write(report, [], argparse.Namespace(rounds=1, output=tmp_path / "none.json"))
    assert report["reached"] is False


def test_a_machine_that_boots_for_the_next_attempt_is_not_counted() -> None:
    kind = next(kind for kind in backends.KINDS if backends.as_strike(kind).boot_target)
    good = replace(GOOD, kind=kind.name, causes=[kind.cause], boot_seconds=11.0)
    found = backends.figures(kind, [asdict(good)])
    assert (found["medianBootSeconds"], found["medianWithoutBootSeconds"]) == (11.0, 3.0)
    assert backends.as_wanted(found)
    late = replace(good, boot_seconds=9.0)
    assert not backends.as_wanted(backends.figures(kind, [asdict(late)]))
    unseen = replace(good, boot_seconds=None)
    assert not backends.as_wanted(backends.figures(kind, [asdict(unseen)]))


def test_a_notice_may_cost_no_step() -> None:
    kind = next(kind for kind in backends.KINDS if backends.as_strike(kind).keeps_all)
    good = replace(GOOD, kind=kind.name, causes=[kind.cause], steps_lost=0)
    assert backends.as_wanted(backends.figures(kind, [asdict(good)]))
    for lost in (1, None):
        bad = replace(good, steps_lost=lost)
        assert not backends.as_wanted(backends.figures(kind, [asdict(good), asdict(bad)]))


def test_a_warm_pool_counts_only_if_the_next_attempt_was_on_its_hosts() -> None:
    kind = next(kind for kind in backends.KINDS if backends.as_strike(kind).reuses)
    good = replace(GOOD, kind=kind.name, causes=[kind.cause], reused=True)
    assert backends.as_wanted(backends.figures(kind, [asdict(good)]))
    for other in (False, None):
        bad = replace(good, reused=other)
        assert not backends.as_wanted(backends.figures(kind, [asdict(good), asdict(bad)]))
