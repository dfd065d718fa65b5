"""A configuration is refused in ParallelCluster's words, and what is not done here by its name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.parallelcluster_specs import SETTINGS, making, spec

from trainyard.backends.parallelcluster.config import configuration
from trainyard_local.parallelcluster.judging import BadRequest, World, findings, parsed

Json = dict[str, Any]
THERE = World(SETTINGS.region, lambda arn: True, lambda bucket, key: True)


def document(**changes: Any) -> Json:
    return configuration(making(spec(**changes)))


def told(given: Json, world: World = THERE) -> list[tuple[str, str]]:
    return [(one.type, one.message) for one in findings(given, world)]


def test_what_our_backend_writes_has_no_finding() -> None:
    assert told(document()) == []
    ((validator, words),) = told(configuration(making()))
    assert validator == "UrlValidator", "of a script that is not in S3"
    assert "https://example.com/x.sh" in words


def in_queue(**changes: Any) -> Callable[[Json], None]:
    return lambda given: given["Scheduling"]["SlurmQueues"][0].update(changes)


def in_nodes(**changes: Any) -> Callable[[Json], None]:
    return lambda given: given["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0].update(
        changes
    )


@pytest.mark.parametrize(
    ("change", "validator", "words"),
    [
        (in_queue(Colour="red"), "ConfigSchemaValidator", "Colour"),
        (in_queue(ComputeResources=[]), "ConfigSchemaValidator", "exactly one"),
        (in_nodes(Instances=[]), "ConfigSchemaValidator", "required field"),
        (lambda given: given.pop("Image"), "ConfigSchemaValidator", "required field"),
        (in_nodes(MinCount=5), "ComputeResourceSizeValidator", "greater than or equal"),
        (in_queue(CapacityType="CAPACITY_BLOCK"), "ComputeResourceSizeValidator", "same value"),
        (in_nodes(MaxCount=5000), "MaxCountValidator", "nodes at most"),
        (in_queue(Name="default"), "NameValidator", "default"),
        (
            lambda given: given["Scheduling"]["SlurmSettings"].update(
                CustomSlurmSettings=[{"Epilog": "/bin/true"}]
            ),
            "CustomSlurmSettingsValidator",
            "Epilog",
        ),
    ],
)
def test_a_mistake_is_named_by_its_validator(
    change: Callable[[Json], Any], validator: str, words: str
) -> None:
    given = copy.deepcopy(document())
    change(given)
    ((found, message),) = told(given)
    assert (found, words in message) == (validator, True), message


def test_policies_and_scripts_must_be_there() -> None:
    nothing = World(SETTINGS.region, lambda arn: False, lambda bucket, key: False)
    assert {validator for validator, _ in told(document(), nothing)} == {
        "AdditionalIamPolicyValidator",
        "S3BucketUriValidator",
    }


@pytest.mark.parametrize("text", ["no: [configuration", "- a list", "Region: eu-west-1"])
def test_a_text_that_is_no_configuration_of_this_region_is_refused_at_once(text: str) -> None:
    with pytest.raises(BadRequest):
        parsed(text, "us-east-1")
