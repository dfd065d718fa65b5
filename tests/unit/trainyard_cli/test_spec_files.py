"""The examples are specs that the API takes."""

from __future__ import annotations

import pytest
from tests.support.repository import ROOT

from trainyard_cli.spec_files import read_spec
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.specs import RunSpec

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_an_example_is_a_valid_spec(name: str) -> None:
    read = read_cluster_spec if name == "cluster.yaml" else RunSpec.model_validate
    assert read(read_spec(str(EXAMPLES / name))).name


def test_the_demo_has_a_controller_two_workers_and_a_spare_and_always_tears_down() -> None:
    run = RunSpec.model_validate(read_spec(str(EXAMPLES / "ddp-demo.yaml")))
    assert run.cluster.spec is not None
    assert [
        (group.role, group.count, group.spares) for group in run.cluster.spec.instance_groups
    ] == [
        ("controller", 1, 0),
        ("worker", 2, 1),
    ]
    assert (run.job.nodes, run.teardown_policy, run.export.checkpoints) == (2, "always", "all")


def test_the_own_script_example_is_python() -> None:
    run = RunSpec.model_validate(read_spec(str(EXAMPLES / "own-script.yaml")))
    compile(run.job.files["train.py"], "train.py", "exec")


def test_the_first_run_has_the_time_that_a_cluster_takes_on_aws() -> None:
    """25 minutes were seen for a cluster alone; then come its workers, torch, and the export."""
    limits = RunSpec.model_validate(read_spec(str(EXAMPLES / "ddp-demo.yaml"), "run")).limits
    assert limits.cluster_deadline_seconds >= 3 * 25 * 60
    assert limits.max_duration_seconds >= limits.cluster_deadline_seconds + 25 * 60
