"""What a script of SageMaker's finds in a container is what AWS's own toolkit gives it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.s3_client import S3Client
from tests.unit.trainyard_container.test_run_files import lay_out
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard.backends.training_job.hyperparameters import encoded
from trainyard_container import script_mode
from trainyard_container.results import Results
from trainyard_container.store import Store
from trainyard_container.surroundings import Surroundings
from trainyard_local.training_jobs.settings import JobSettings
from trainyard_trainers.launch.allocation import Job

OURS = {
    "sagemaker_program": "train.py",
    "sagemaker_submit_directory": "s3://b/source.tar.gz",
    "sagemaker_container_log_level": 20,
    "sagemaker_job_name": "job-1",
    "sagemaker_region": "eu-west-1",
    "sagemaker_torch_distributed_enabled": True,
    "sagemaker_instance_type": "ml.c5.xlarge",
}
GIVEN = {
    "lr": 0.1, "epochs": 3, "name": "a b", "flag": True, "none": None, "list": [1, "x"],
    "map": {"b": 2, "a": {"x": 1}}, "n": 7, "empty": "", "text": "7", "k-v.w": "é",
}  # fmt: skip
GROUP = {
    "instance_group_name": "homogeneousCluster",
    "instance_type": "ml.c5.xlarge",
    "hosts": ["algo-1", "algo-2"],
}
RESOURCES = {
    "current_host": "algo-1",
    "current_instance_type": "ml.c5.xlarge",
    "current_group_name": "homogeneousCluster",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [GROUP],
    "network_interface_name": "eth1",
}
CHANNELS = {"train": {"TrainingInputMode": "File"}, "val-set": {"TrainingInputMode": "File"}}
#: Ours lies in the working directory, and theirs where the archive came from.
_ELSEWHERE = {"SM_MODULE_DIR"}
#: In SM_TRAINING_ENV: what no script needs, and what the toolkit finds out about itself.
_NOT_OURS = {
    "distribution_hosts", "job_name", "is_modelparallel_enabled", "is_smddpmprun_installed",
    "is_smddprun_installed", "topology",
}  # fmt: skip
_TOOLKIT = """
import json
from sagemaker_training.environment import Environment
found = Environment()
print(json.dumps([found.to_env_vars(), found.to_cmd_args()]))
"""


def configure(ml: Path, **hyperparameters: Any) -> None:
    """As SageMaker writes it before a container starts."""
    config = ml / "input/config"
    config.mkdir(parents=True, exist_ok=True)
    told = {
        "hyperparameters": encoded({**hyperparameters, **OURS}),
        "resourceconfig": RESOURCES,
        "inputdataconfig": CHANNELS,
    }
    for name, content in told.items():
        (config / f"{name}.json").write_text(json.dumps(content))


def container(ml: Path, client: S3Client | None = None, **job: Any) -> tuple[Surroundings, Job]:
    """A host's files as the launcher finds them."""
    where = lay_out(ml, client or S3Client(), **job)
    where = replace(where, host="algo-1")
    configure(ml, **(job.get("hyperparameters") or {}))
    return where, Job.read(where.attempt_dir)


def toolkits(ml: Path) -> tuple[dict[str, str], list[str]]:
    python = JobSettings.from_env().python
    if not python.exists():
        pytest.skip(f"{python} is missing; make setup-trainers")
    own = {"SAGEMAKER_BASE_DIR": str(ml), "AWS_DEFAULT_REGION": "eu-west-1"}
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [python, "-c", _TOOLKIT], env={**path, **own}, capture_output=True, check=True, timeout=120
    )
    variables, arguments = json.loads(done.stdout.splitlines()[-1])
    return variables, arguments


@pytest.mark.real
def test_variables_and_arguments_are_those_of_awss_toolkit(tmp_path: Path) -> None:
    configure(tmp_path, **GIVEN)
    theirs, arguments = toolkits(tmp_path)
    where, job = container(tmp_path, hyperparameters=GIVEN)
    ours = script_mode.variables(where, job)
    assert job.command()[1:] == arguments
    environments = [json.loads(found.pop("SM_TRAINING_ENV")) for found in (ours, theirs)]
    assert {name for name in theirs if ours.get(name) != theirs[name]} == _ELSEWHERE
    assert set(ours) == set(theirs)
    mine, its = environments
    assert set(its) - set(mine) == _NOT_OURS
    different = {name for name in mine if mine[name] != its.get(name)}
    assert different == {"module_dir"}


def test_what_awss_sdk_adds_for_a_framework_is_the_programs_too(tmp_path: Path) -> None:
    configure(tmp_path, epochs=3, model_dir="s3://b/model")
    where = lay_out(tmp_path, S3Client(), hyperparameters={"epochs": 3})
    assert Job.read(where.attempt_dir).command()[1:] == [
        "--epochs", "3", "--model_dir", "s3://b/model",
    ]  # fmt: skip


def test_without_sagemakers_file_the_bundles_hyperparameters_count(tmp_path: Path) -> None:
    where = lay_out(tmp_path, S3Client(), hyperparameters={"epochs": 3})
    assert Job.read(where.attempt_dir).command()[1:] == ["--epochs", "3"]
    assert script_mode.variables(where, Job.read(where.attempt_dir))["SM_HP_EPOCHS"] == "3"


def test_inputs_are_channels_beside_the_jobs_own(tmp_path: Path) -> None:
    inputs = [
        {"path": "data/test", "source": "s3://b/t/"},
        {"path": "x/train", "source": "s3://b/"},
    ]
    where, job = container(tmp_path, inputs=inputs)
    found = script_mode.variables(where, job)
    assert json.loads(found["SM_CHANNELS"]) == ["test", "train", "val-set"]
    assert found["SM_CHANNEL_TEST"] == str(where.run_dir / "work/data/test")
    assert found["SM_CHANNEL_TRAIN"] == str(tmp_path / "input/data/train"), "the channel counts"


def results(where: Surroundings, client: S3Client) -> Results:
    store = Store(client, "b", patience_seconds=0)
    return Results(store, "runs/1/", where.run_dir, script_mode.exported(where))


def test_the_model_goes_to_s3_and_stays_where_sagemaker_takes_it(tmp_path: Path) -> None:
    client = S3Client()
    where, _ = container(tmp_path)
    model = tmp_path / "model/deep/model.pt"
    model.parent.mkdir()
    model.write_text("weights")
    (tmp_path / "output/data/plot.png").write_text("plot")
    made = results(where, client)
    assert made.send(made.changed()) == ""
    assert {name: body for name, body in client.objects.items() if "output" in name} == {
        "runs/1/output/script-mode/model/deep/model.pt": b"weights",
        "runs/1/output/script-mode/data/plot.png": b"plot",
    }
    assert model.read_text() == "weights"
    assert made.changed() == []


def test_the_next_attempt_finds_model_and_checkpoints_where_it_left_them(tmp_path: Path) -> None:
    client = S3Client()
    first, _ = container(tmp_path / "1", hyperparameters={})
    (tmp_path / "1/model/best.pt").write_text("best")
    (tmp_path / "1/checkpoints/3.pt").write_text("state")
    made = results(first, client)
    assert made.send(made.changed()) == ""
    second, _ = container(tmp_path / "2", hyperparameters={})
    restored = results(second, client)
    assert restored.restore() == 2
    assert (tmp_path / "2/model/best.pt").read_text() == "best"
    assert (tmp_path / "2/checkpoints/3.pt").read_text() == "state"
    assert not (second.run_dir / "output/script-mode/model").exists(), "it lies on the disk once"
    assert restored.changed() == []


def test_a_directory_of_sagemakers_that_is_in_use_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/theirs.pt").write_text("x")
    script_mode.lay_out(surroundings(tmp_path), asked=True)
    assert (tmp_path / "checkpoints/theirs.pt").read_text() == "x"
    assert "checkpoints is not kept" in capsys.readouterr().err


def test_a_link_of_an_earlier_job_in_a_warm_pool_is_replaced(tmp_path: Path) -> None:
    where = surroundings(tmp_path)
    (tmp_path / "checkpoints").symlink_to(where.run_dir.with_name("run-0") / "gone")
    script_mode.lay_out(where, asked=True)
    assert (tmp_path / "checkpoints").resolve() == where.run_dir / "output/script-mode/checkpoints"


def test_a_program_that_is_no_such_script_finds_its_output_directory_empty(tmp_path: Path) -> None:
    where, _ = container(tmp_path)
    assert list((where.run_dir / "output").iterdir()) == []
    assert not (tmp_path / "checkpoints").exists()
    assert (tmp_path / "model").is_dir()
