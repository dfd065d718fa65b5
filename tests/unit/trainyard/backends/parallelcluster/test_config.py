"""The configuration of a rich spec is a golden file, and the same spec gives the same text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.parallelcluster_specs import RICH, making, spec

from trainyard.backends.parallelcluster.config import configuration, document
from trainyard.backends.parallelcluster.paths import ours

GOLDEN = Path(__file__).with_name("golden_rich.json")
Json = dict[str, Any]


def test_a_rich_specs_configuration_is_the_golden_file() -> None:
    assert json.loads(GOLDEN.read_text()) == configuration(making())


def test_it_is_yaml_and_always_the_same_text() -> None:
    text = document(making())
    assert yaml.safe_load(text) == configuration(making())
    assert document(making()) == text


def queue(**changes: Any) -> Json:
    made = configuration(making(spec(queue=changes)))
    return dict(made["Scheduling"]["SlurmQueues"][0])


def nodes(**changes: Any) -> Json:
    return dict(queue(**changes)["ComputeResources"][0])


def test_a_reservation_takes_one_type_and_a_fleet_takes_several() -> None:
    block = nodes(instanceTypes=["c5.xlarge"], capacityReservationId="cr-0123456789abcdef0")
    assert (block["InstanceType"], "Instances" in block) == ("c5.xlarge", False)
    assert nodes()["Instances"] == [{"InstanceType": "c5.xlarge"}]


@pytest.mark.parametrize(
    ("changes", "together"),
    [
        ({}, False),
        ({"placementGroup": True}, True),
        ({"instanceTypes": ["p5.48xlarge"], "efa": True}, True),
        ({"instanceTypes": ["p5.48xlarge"], "efa": True, "placementGroup": False}, False),
        (
            {
                "instanceTypes": ["p5.48xlarge"],
                "efa": True,
                "capacityReservationId": "cr-0123456789abcdef0",
            },
            False,
        ),
    ],
)
def test_a_placement_group_is_always_said(changes: Json, together: bool) -> None:
    """With EFA, ParallelCluster refuses a queue that says nothing of it."""
    assert queue(**changes)["Networking"]["PlacementGroup"] == {"Enabled": together}


def test_our_script_comes_first_and_is_told_the_role_and_what_to_install() -> None:
    made = configuration(making())
    head = made["HeadNode"]["CustomActions"]["OnNodeConfigured"]["Sequence"]
    prefix = "s3://trainyard-prod-1/clusters/llm-pretrain/3/lifecycle"
    ours_first = f"{prefix}/parallelcluster_node.sh"
    assert head == [
        {"Script": ours_first, "Args": [prefix, "controller"]},
        {"Script": "s3://tools/head.sh"},
    ]
    trainium = made["Scheduling"]["SlurmQueues"][2]["CustomActions"]["OnNodeConfigured"]
    assert trainium["Sequence"] == [{"Script": ours_first, "Args": [prefix, "worker", "neuron"]}]


def test_every_role_has_ssm_and_our_policy() -> None:
    made = configuration(making())
    roles = [
        made["HeadNode"]["Iam"],
        *(one["Iam"] for one in made["Scheduling"]["SlurmQueues"]),
        *(one["Iam"] for one in made["LoginNodes"]["Pools"]),
    ]
    for role in roles:
        arns = [one["Policy"] for one in role["AdditionalIamPolicies"]]
        assert arns[0] == "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
        assert arns[1].startswith(
            "arn:aws:iam::111122223333:policy/parallelcluster/trainyard/prod/llm-pretrain/3/"
        )


def test_a_dry_run_asks_for_nothing_that_is_made_with_the_cluster_only() -> None:
    text = document(making().before_it_is_made())
    assert "parallelcluster_node.sh" not in text
    assert "policy/parallelcluster/" not in text
    assert "s3://tools/head.sh" in text


def test_nodes_read_what_the_spec_and_their_scripts_need_and_no_more() -> None:
    access = configuration(making())["HeadNode"]["Iam"]["S3Access"]
    assert [(one["BucketName"], one["KeyName"], one["EnableWriteAccess"]) for one in access] == [
        ("corpus", "out/*", True),
        ("corpus", "tokens/v1/*", False),
        ("images", "train/*", False),
        (
            "trainyard-prod-1",
            "clusters/llm-pretrain/3/lifecycle/parallelcluster_node.sh",
            False,
        ),
        ("tools", "head.sh", False),
    ]


def test_each_part_of_a_configuration_leads_back_to_a_field_of_the_spec() -> None:
    """But for what the deployment alone gives."""
    given = {"Region", "Imds", "Iam", "CustomS3Bucket"}
    found = {
        path: ours(path) for path in leaves(configuration(making(RICH))) if path[0] not in given
    }
    assert [path for path, field in found.items() if not field] == []
    assert found["HeadNode", "LocalStorage", "RootVolume", "Size"] == "headNode.rootVolumeGib"


def leaves(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(tree, dict):
        below = tree.items()
    elif isinstance(tree, list):
        below = ((str(at), one) for at, one in enumerate(tree))
    else:
        return [path]
    return [leaf for key, one in below for leaf in leaves(one, (*path, key))]
