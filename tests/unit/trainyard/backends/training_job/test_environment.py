"""EFA's variables are set for the types that AWS's container forgets, and never over the user's."""

from __future__ import annotations

import botocore.session
import pytest
from tests.support.training_jobs import intent, spec

from trainyard.backends.training_job.environment import (
    EFA_VARIABLES,
    FORGOTTEN_TYPES,
    environment,
)
from trainyard.backends.training_job.request import create_training_job_request


@pytest.mark.parametrize("instance_type", sorted(FORGOTTEN_TYPES))
def test_a_type_that_the_container_forgets_gets_efa(instance_type: str) -> None:
    assert environment({}, [instance_type]) == EFA_VARIABLES


@pytest.mark.parametrize("instance_type", ["ml.trn1.32xlarge", "ml.p4d.24xlarge", "ml.c5.xlarge"])
def test_another_type_is_left_to_the_container(instance_type: str) -> None:
    assert environment({}, [instance_type]) == {}


def test_what_the_user_set_is_kept() -> None:
    made = environment({"FI_PROVIDER": "tcp", "A": "1"}, ["ml.p5en.48xlarge"])
    assert made == {**EFA_VARIABLES, "FI_PROVIDER": "tcp", "A": "1"}


def test_a_group_without_efa_leaves_the_variables_out() -> None:
    assert environment({}, ["ml.p5en.48xlarge", "ml.c5.xlarge"]) == {}


def test_they_are_in_the_request() -> None:
    wanted = spec(framework=None, image="mine:1", instanceType="ml.trn2.48xlarge")
    assert create_training_job_request(intent(wanted))["Environment"] == EFA_VARIABLES


def test_each_of_these_types_can_train() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert set(model.shape_for("TrainingInstanceType").enum) >= FORGOTTEN_TYPES
