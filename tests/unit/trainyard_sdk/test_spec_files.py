"""The examples are specs that the API takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support.repository import ROOT

from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.specs import RunSpec
from trainyard_sdk.problems import InvalidInput
from trainyard_sdk.spec_files import read_spec, spec_in

EXAMPLES = ROOT / "examples"

NUMBERS = """
name: numbers
cluster: {name: shared}
job:
  nodes: &two 2
  module: train
  arguments: [--steps, 100, --lr, 0.10, 010, *two, 1_000, 1.0e-5]
  environment: {N: 1, LR: .5, TWO: *two, BY: !!int "7"}
"""


def test_numbers_for_the_program_are_texts_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(NUMBERS)
    job = read_spec(str(tmp_path / "run.yaml"), "run")["job"]
    assert job["nodes"] == 2
    assert job["arguments"] == ["--steps", "100", "--lr", "0.10", "010", "2", "1_000", "1.0e-5"]
    assert job["environment"] == {"N": "1", "LR": ".5", "TWO": "2", "BY": "7"}


def test_what_is_no_number_is_left_to_the_api(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("job: {arguments: [yes, null], environment: {A: {b: 1}}}")
    job = read_spec(str(tmp_path / "run.yaml"), "run")["job"]
    assert job == {"arguments": [True, None], "environment": {"A": {"b": 1}}}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("budget: {maxUsd: .nan}", "budget.maxUsd"),
        ("budget: {maxUsd: 1.0e+999}", "budget.maxUsd"),
        ("budget: {warnAt: [0.5, -.inf]}", "budget.warnAt.1"),
        ("a: &a [.inf]\nb: *a", "a.0"),
    ],
)
def test_a_number_that_is_none_is_refused_by_its_field(text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        spec_in(text, "mine.yaml")
    assert caught.value.detail.startswith(f"mine.yaml: {field}: must be a finite number")


@pytest.mark.parametrize("text", ["", "job:", "job: [1]", "job: {arguments: 5}", "- 1"])
def test_a_spec_of_another_form_is_read_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    expected = yaml.safe_load(text)
    if isinstance(expected, dict):
        assert read_spec(str(tmp_path / "run.yaml")) == expected
    else:
        with pytest.raises(InvalidInput, match="empty or no mapping"):
            read_spec(str(tmp_path / "run.yaml"))


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


@pytest.mark.parametrize("name", ["ddp-demo.yaml", "ddp-on-parallelcluster.yaml"])
def test_the_first_run_has_the_time_that_a_cluster_takes_on_aws(name: str) -> None:
    """25 minutes were seen for a cluster alone; then come its workers, torch, and the export."""
    limits = RunSpec.model_validate(read_spec(str(EXAMPLES / name), "run")).limits
    assert limits.cluster_deadline_seconds >= 3 * 25 * 60
    assert limits.max_duration_seconds >= limits.cluster_deadline_seconds + 25 * 60
