"""The benchmark of recovery: when a target is reached, and which rounds are played."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest
from bench import recovery

from trainyard_local.machines import host as machine_host

HELD = next(kind for kind in recovery.KINDS if kind.return_target)
GOOD = recovery.Round(
    HELD.name, 1, recovered=True, causes=[HELD.cause], lost_exactly_after_last_checkpoint=True,
    final_weights_equal=True, fault_to_resumed_step_seconds=40.0,
    return_to_resumed_step_seconds=3.0,
)  # fmt: skip


def test_of_a_run_that_waits_for_a_node_every_round_must_be_in_time_and_not_their_median() -> None:
    late = replace(GOOD, number=3, return_to_resumed_step_seconds=15.1)
    assert recovery.reached(recovery.summary(HELD, [GOOD, GOOD]))
    assert not recovery.reached(recovery.summary(HELD, [GOOD, GOOD, late]))
    assert not recovery.reached(
        recovery.summary(HELD, [replace(GOOD, return_to_resumed_step_seconds=None)])
    ), "no return was seen"


def test_the_seconds_since_a_return_are_those_of_the_return_that_the_attempt_waited_for() -> None:
    returns = ["2026-11-22T10:00:00Z", "2026-11-22T10:00:10Z", "2026-11-22T10:00:30Z"]
    assert recovery.since_return(returns, "2026-11-22T10:00:13.500Z") == 3.5, (
        "another node came back later"
    )
    assert recovery.since_return(returns[2:], "2026-11-22T10:00:13.500Z") is None
    assert recovery.since_return(returns, None) is None


def test_a_round_of_another_cause_or_other_weights_is_not_what_must_be() -> None:
    assert not recovery.reached(
        recovery.summary(HELD, [GOOD, replace(GOOD, causes=["worker-process"])])
    )
    assert not recovery.reached(
        recovery.summary(HELD, [GOOD, replace(GOOD, final_weights_equal=False)])
    )


def test_where_nodes_cannot_boot_their_faults_are_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        machine_host,
        "missing",
        lambda: ("packages are missing: nftables", "apt-get install nftables"),
    )
    arguments = argparse.Namespace(nodes="both", only="", rounds=1)
    left_out = recovery.left_out(arguments)
    assert left_out is not None
    assert all(
        word in left_out
        for word in (
            "node falls silent, batch host",
            "packages are missing: nftables",
            "apt-get install nftables",
        )
    )
    kinds = recovery.kinds(arguments, {"leftOut": left_out})
    assert {kind.nodes for kind in kinds} == {"processes"}
    assert recovery.left_out(argparse.Namespace(nodes="processes", only="")) is None
