"""Reasons have the form in which AWS gives them."""

from __future__ import annotations

from trainyard_local.training_jobs import words


def test_an_algorithms_failure_is_cut_and_has_its_exit_code() -> None:
    assert words.algorithm_error("", 137) == "AlgorithmError: , exit code: 137"
    long = words.algorithm_error("x" * 2000, 1)
    assert long == f"AlgorithmError: {'x' * 1024}, exit code: 1"


def test_every_last_status_has_its_message() -> None:
    assert set(words.ENDED) == {
        "Completed",
        "Failed",
        "Stopped",
        "MaxRuntimeExceeded",
        "MaxWaitTimeExceeded",
    }
