"""A job's limits count the runtime of its attempts together, and the wait from its creation."""

from __future__ import annotations

from trainyard_local.training_jobs.endings import End, Kind, Limits


class Clock:
    """Stands still until it is told the time."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limits(clock: Clock, **conditions: int) -> Limits:
    return Limits.of({"StoppingCondition": conditions}, clock)


def test_only_training_counts_as_runtime_and_all_attempts_count() -> None:
    clock = Clock()
    found = limits(clock, MaxRuntimeInSeconds=10)
    clock.now += 50
    assert (found.passed(), found.left()) == (None, 10)
    found.training()
    clock.now += 6
    found.pause()
    clock.now += 50
    assert found.left() == 4
    found.training()
    clock.now += 4
    assert found.passed() == End(Kind.MAX_RUNTIME)


def test_the_wait_counts_from_the_creation() -> None:
    clock = Clock()
    found = limits(clock, MaxRuntimeInSeconds=10, MaxWaitTimeInSeconds=20)
    clock.now += 15
    assert (found.passed(), found.left()) == (None, 5)
    clock.now += 5
    assert found.passed() == End(Kind.MAX_WAIT)


def test_a_request_without_limits_has_a_day() -> None:
    assert limits(Clock()).left() == 86400
