"""What to do next names the very run, and begins with what was copied of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.records import NOW, run

from trainyard.domain.advice import advised, copied
from trainyard.domain.problems import TEXTS, problem
from trainyard.domain.records import Attempt, Run
from trainyard_contracts.files import SyncLatest

TRAINED = [Attempt(number=1, submitted_at=NOW)]


def ended(code: str, **changes: Any) -> Run:
    return run(**{"attempts": TRAINED, **changes}, problem=problem(code, "why"))


def next_step(given: Run, in_s3: str = "") -> str:
    found = advised(given, in_s3)
    assert found is not None
    return found.next_step


def synced(**fields: Any) -> str:
    latest = SyncLatest(run_id="run-1", attempt=1, at=NOW, number=1, objects=1, bytes=1, **fields)
    return copied(latest, NOW + timedelta(minutes=12))


@pytest.mark.parametrize("code", TEXTS)
def test_what_to_do_next_can_be_copied_as_it_stands(code: str) -> None:
    said = next_step(ended(code))
    assert not {"RUN", "CLUSTER", "{id}"} & {word.strip(".,;:)(") for word in said.split()}
    assert "{id}" not in said


def test_a_run_without_a_problem_has_no_next_step() -> None:
    assert advised(run()) is None


def test_a_run_that_never_trained_has_no_checkpoint_to_go_on_from() -> None:
    assert next_step(ended("cancelled", attempts=[])) == (
        "Nothing was trained. To start it after all: trainyard run resume run-1."
    )
    assert "from its newest checkpoint if it has one" in next_step(ended("cancelled"))


def test_a_copy_says_its_step_and_its_age() -> None:
    assert synced(last_step=41) == "step 41, copied 12 minutes ago"
    assert synced() == "no whole checkpoint, copied 12 minutes ago"


def test_a_run_whose_own_cluster_is_lost_goes_on_from_its_copy_where_it_is_told_to() -> None:
    said = next_step(ended("cluster-failed"), synced(last_step=41))
    assert said.startswith(
        "trainyard run resume run-1 goes on from what is in S3 (step 41, copied 12 minutes ago)"
    )
    assert "trainyard cluster delete demo-1 --force" in said
    assert "trainyard run resume run-1 --filesystem DNSNAME/MOUNTNAME" in said


def test_a_run_on_an_existing_cluster_needs_one_of_its_name() -> None:
    for code in ("cluster-failed", "cluster-not-found"):
        lost = ended(code, cluster_name="mine", owns_cluster=False)
        said = next_step(lost, synced(last_step=41))
        assert said.startswith("trainyard run resume run-1 goes on from what is in S3 (step 41")
        assert "create a cluster named 'mine'" in said
        assert "--filesystem" not in said


def test_without_a_copy_and_with_another_problem_nothing_is_promised() -> None:
    assert next_step(ended("cluster-failed")) == TEXTS["cluster-failed"][1]
    assert "S3" not in next_step(ended("python-error"), synced(last_step=41))
