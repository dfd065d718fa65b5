"""ParallelCluster's own API takes what we make of a spec: a dry run with all its validators."""

from __future__ import annotations

import pytest
from tests.parallelcluster.cloud import SETTINGS, Cloud
from tests.parallelcluster.specs import ACCEPTED, spec

from trainyard.backends.parallelcluster.config import document
from trainyard.backends.parallelcluster.making import Making
from trainyard.domain import errors
from trainyard_contracts.parallelcluster import ParallelClusterSpec

pytestmark = pytest.mark.parallelcluster


def making(given: dict[str, object]) -> Making:
    read = ParallelClusterSpec.model_validate(given)
    return Making(read, 1, {**read.tags, "trainyard:cluster": read.name}, SETTINGS)


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_configuration_of_ours_passes_every_validator(cloud: Cloud, name: str) -> None:
    made = making(spec(cloud.places, **ACCEPTED[name](cloud.places)))
    found = cloud.api.dry_run("demo", document(made)).findings
    assert {one.level for one in found} <= {"INFO", "WARNING"}, "HTTP 412: it would be taken"


def test_there_are_forty_of_them_at_least() -> None:
    assert len(ACCEPTED) >= 40


def test_a_dry_run_is_taken_before_anything_of_ours_is_there(cloud: Cloud) -> None:
    """No policy and no script of a cluster of this name exists."""
    made = making(spec(cloud.places, name="not-yet"))
    assert cloud.api.dry_run("not-yet", document(made.before_it_is_made())) is not None
    with pytest.raises(errors.BackendRejected, match="policy/parallelcluster/trainyard"):
        cloud.api.dry_run("not-yet", document(made))
