"""What a fault cost is read from the API's own words, and nothing unseen counts as measured."""

from __future__ import annotations

from demo.measure import newest_whole_step, recovery, seconds_between

RUN = {
    "attempts": [
        {
            "number": 1,
            "submittedAt": "2026-03-01T10:00:00Z",
            "firstStepAt": "2026-03-01T10:00:05Z",
            "resumedFrom": None,
        },
        {
            "number": 2,
            "submittedAt": "2026-03-01T10:00:22.500Z",
            "firstStepAt": "2026-03-01T10:00:28.250000+00:00",
            "resumedFrom": 40,
        },
    ]
}
FAULT = 1772359220.0  # 2026-03-01T10:00:20Z


def test_a_recovery_is_timed_from_the_fault_to_the_submission_and_the_first_new_step() -> None:
    found = recovery(RUN, number=2, fault_at=FAULT, last_step=47)
    assert found.fault_to_submit_seconds == 2.5
    assert found.fault_to_resumed_step_seconds == 8.25
    assert found.resumed_from == 40
    assert found.steps_lost == 7
    assert found.complete


def test_an_attempt_that_never_came_is_no_recovery() -> None:
    found = recovery(RUN, number=3, fault_at=FAULT, last_step=47)
    assert not found.complete
    assert found.fault_to_submit_seconds is None
    assert found.steps_lost is None


def test_a_fresh_start_after_the_fault_is_no_resume() -> None:
    assert not recovery(RUN, number=1, fault_at=FAULT, last_step=47).complete


def test_the_newest_whole_checkpoint_is_the_attempts_own_even_if_pruned_and_never_rejected() -> (
    None
):
    checkpoints = [
        {"step": 60, "attempt": 2, "status": "whole"},
        {"step": 50, "attempt": 1, "status": "rejected"},
        {"step": 40, "attempt": 1, "status": "pruned"},
        {"step": 30, "attempt": 1, "status": "pruned"},
    ]
    assert newest_whole_step(checkpoints, attempts={1}) == 40
    assert newest_whole_step([], attempts={1}) is None


def test_a_moment_that_was_not_seen_has_no_seconds() -> None:
    assert seconds_between(FAULT, None) is None
