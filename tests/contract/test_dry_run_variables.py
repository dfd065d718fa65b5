"""What a dry run says of a job's variables is what the launcher on the nodes sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.support.records import run as record
from tests.support.spec_parts import cluster_spec
from tests.support.story import run_spec
from tests.support.training_jobs import spec_fields

from trainyard.domain.recipes import job_bundle
from trainyard.domain.records import Attempt
from trainyard.domain.variables import NEURON, NEURON_EFA, Variable, variables
from trainyard_container import launching, surroundings
from trainyard_contracts import places
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.recipe_names import RecipeName
from trainyard_contracts.specs import RunSpec
from trainyard_trainers.launch.job_secrets import SECRETS
from trainyard_trainers.launch.launchers import neuron

SPEC = spec_fields(channels=None)
#: Prints what the launcher's child has put into its environment, as the node's part does it.
PROBE = """
import json, os, sys
from pathlib import Path
from trainyard_trainers.launch import node_part
from trainyard_trainers.launch.allocation import Allocation, Job, Node

before = dict(os.environ)
job = Job.read(Path(sys.argv[1]))
node_part._set_environment(Allocation.of(job, Node.from_environment(os.environ)))
print(json.dumps({name: value for name, value in os.environ.items() if before.get(name) != value}))
"""


def planned(spec: RunSpec, cluster: Any = None) -> dict[str, Variable]:
    where = read_cluster_spec(cluster or cluster_spec(workers=2))
    return {one.name: one for one in variables(spec, where)}


def set_on_a_node(spec: RunSpec, tmp_path: Path) -> Mapping[str, str]:
    """What the node's part sets for the first attempt of this run."""
    given = record(spec=spec)
    attempt_dir = tmp_path / "trainyard/runs" / given.id / "attempts/1"
    attempt_dir.mkdir(parents=True)
    document = json.loads(job_bundle(given, Attempt(number=1)).model_dump_json(by_alias=True))
    (attempt_dir / places.JOB).write_text(json.dumps(document))
    (attempt_dir.parents[1] / places.WORK).mkdir()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(attempt_dir)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"checkpoint": {"everySeconds": 5, "keep": 7, "directory": "saves"}},
        {"checkpoint": {"everySteps": 20, "secondsBetweenFailures": 3600}},
        {"job": {"environment": {"LR": "0.5", "OMP_NUM_THREADS": "4", "PYTHONWARNINGS": ""}}},
    ],
)
def test_a_dry_run_names_what_a_node_sets_with_its_very_values(
    change: dict[str, Any], tmp_path: Path
) -> None:
    job = {"nodes": 2, "module": "trainyard_trainers.ddp", **change.get("job", {})}
    spec = run_spec().model_dump(mode="json", by_alias=True) | {**change, "job": job}
    given = RunSpec.model_validate(spec)
    shown = {
        name: one
        for name, one in planned(given).items()
        if one.source != "launcher" and name not in ("GLOO_SOCKET_IFNAME",)
    }
    found = {
        name: value
        for name, value in set_on_a_node(given, tmp_path).items()
        if name != "GLOO_SOCKET_IFNAME"  # of the machine
    }
    assert found.keys() == shown.keys()
    known = {name: one.value for name, one in shown.items() if one.value is not None}
    assert known == {name: found[name] for name in known}
    unknown = {name for name, one in shown.items() if one.value is None}
    assert unknown == {
        "TRAINYARD_RUN_ID", "TRAINYARD_RUN_DIR", "TRAINYARD_ATTEMPT_DIR", "TRAINYARD_OUTPUT_DIR",
        "TRAINYARD_CHECKPOINT_DIR", "PYTHONPATH",
    }  # fmt: skip
    directory = found["TRAINYARD_RUN_DIR"]
    for name in ("ATTEMPT", "OUTPUT", "CHECKPOINT"):
        part = found[f"TRAINYARD_{name}_DIR"].removeprefix(f"{directory}/")
        assert shown[f"TRAINYARD_{name}_DIR"].note.startswith(f"{part} of the run's directory")


def test_the_variables_of_neuron_are_those_of_its_launcher() -> None:
    assert NEURON == {**neuron.NEURON, "NEURON_RT_NUM_CORES": "1"}
    assert NEURON_EFA == neuron.EFA


@pytest.mark.parametrize("recipe", get_args(RecipeName))
def test_every_recipe_has_its_words_and_command_has_no_ranks(recipe: str) -> None:
    job = {"nodes": 2, "processesPerNode": 4, "module": "m", "recipe": recipe}
    shown = planned(RunSpec.model_validate({
        "name": "a", "cluster": {"name": "c"}, "job": job,
    }))  # fmt: skip
    assert ("RANK" in shown) is (recipe != "command")
    if recipe != "command":
        assert shown["WORLD_SIZE"].value == "8"
        assert shown["RANK"].note == "of the process: 0 to 7"
    assert all(one.note for one in shown.values() if one.value is None)


def test_the_variables_of_a_training_job_are_those_of_its_container() -> None:
    shown = planned(run_spec(cluster={"spec": SPEC}), SPEC)
    where = surroundings.Surroundings(
        "run-1", 1, surroundings.Place("b", ""), "0", surroundings.Place("b", ""), "bus", "c",
        "arn", "key", "us-east-1", "job", "algo-1", ("algo-1", "algo-2"), "eth0",
    )  # fmt: skip
    assert set(launching.environment(where, {}, None)) <= set(shown)
    assert "/opt/ml" in shown["TRAINYARD_RUN_DIR"].note


def test_a_secret_is_shown_by_its_name_alone() -> None:
    job = {"nodes": 1, "module": "m", "secrets": {"HF_TOKEN": "team/token:read"}}
    spec = RunSpec.model_validate({"name": "a", "cluster": {"name": "c"}, "job": job})
    shown = planned(spec)
    assert shown["HF_TOKEN"].value is None
    assert "team/token:read" in shown["HF_TOKEN"].note
    assert shown[SECRETS].value == "HF_TOKEN"
