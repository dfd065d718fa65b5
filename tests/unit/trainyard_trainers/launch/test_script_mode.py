"""What a script of SageMaker's finds on a cluster with Slurm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trainyard_trainers.launch.test_node_part import run_launch, write_job

from trainyard_trainers.launch import script_mode
from trainyard_trainers.launch.allocation import Allocation, Job, Node

SCRIPT = """
import argparse, json, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("mode")
parser.add_argument("--epochs", type=int)
parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
parser.add_argument("--train", default=os.environ["SM_CHANNEL_TRAIN"])
given = vars(parser.parse_args())
model = pathlib.Path(given["model_dir"], "model.json")
model.write_text(json.dumps({"given": given, "sees": dict(os.environ)}))
"""


@pytest.fixture
def attempt_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "run" / "attempts" / "2"
    directory.mkdir(parents=True)
    (directory.parents[1] / "work").mkdir()
    return directory


def allocation(job: Job, names: tuple[str, ...] = ("a", "b"), rank: int = 1) -> Allocation:
    hosts = {name: f"10.0.0.{number}" for number, name in enumerate(names, 1)}
    return Allocation(job, Node(names[rank], rank, names, "7"), hosts)


def test_hyperparameters_follow_the_arguments_by_name(attempt_dir: Path) -> None:
    given = {"lr": 0.1, "b": True, "none": None, "d": {"y": [1, "x"], "x": 2}, "l": [1, "x"]}
    job = write_job(attempt_dir, arguments=["fit", "--seed", "7"], hyperparameters=given)
    assert job.command()[1:] == [
        "fit", "--seed", "7",
        "-b", "True", "-d", "x=2,y=[1, 'x']", "-l", "[1, 'x']", "--lr", "0.1", "--none", "",
    ]  # fmt: skip


def test_a_job_without_the_field_has_nothing_of_it(attempt_dir: Path) -> None:
    job = write_job(attempt_dir, arguments=["fit"])
    assert job.command()[1:] == ["fit"]
    assert script_mode.of_node(allocation(job)) == {}
    assert script_mode.meeting_point(allocation(job)) == {}
    assert not (job.run_dir / "output").exists()


def test_every_node_knows_its_hosts_its_data_and_where_results_go(
    attempt_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(script_mode, "_DEV", tmp_path)
    inputs = [{"path": "data/train"}, {"path": "/fsx/val/"}, {"path": "other/train"}]
    job = write_job(
        attempt_dir, hyperparameters={"lr": 0.1}, inputs=inputs, instanceType="ml.p5.48xlarge"
    )
    found = script_mode.of_node(allocation(job))
    assert json.loads(found.pop("SM_HPS")) == {"lr": 0.1}
    assert json.loads(found.pop("SM_USER_ARGS")) == ["--lr", "0.1"]
    assert found.pop("SM_NUM_CPUS").isdigit()
    run = job.run_dir
    assert found == {
        "SM_HP_LR": "0.1",
        "SM_USER_ENTRY_POINT": "main.py",
        "SM_MODULE_NAME": "main",
        "SM_MODULE_DIR": str(run / "work"),
        "SM_NUM_GPUS": "2",
        "SM_HOSTS": '["a","b"]',
        "SM_CURRENT_HOST": "b",
        "SM_CURRENT_INSTANCE_TYPE": "ml.p5.48xlarge",
        "SM_NETWORK_INTERFACE_NAME": "",
        "SM_MODEL_DIR": str(run / "output/script-mode/model"),
        "SM_OUTPUT_DATA_DIR": str(run / "output/script-mode/data"),
        "SM_CHANNELS": '["train","val"]',
        "SM_CHANNEL_TRAIN": str(run / "work/data/train"),
        "SM_CHANNEL_VAL": "/fsx/val",
        "SM_LOG_LEVEL": "20",
    }
    assert Path(found["SM_MODEL_DIR"]).is_dir()
    assert Path(found["SM_OUTPUT_DATA_DIR"]).is_dir()


@pytest.mark.parametrize(("recipe", "told"), [("command", True), ("torchrun", False)])
def test_only_a_script_that_starts_once_on_each_node_is_told_where_to_meet(
    attempt_dir: Path, recipe: str, told: bool
) -> None:
    job = write_job(attempt_dir, hyperparameters={}, recipe=recipe)
    found = script_mode.meeting_point(allocation(job))
    assert (found.get("MASTER_ADDR") == "10.0.0.1") is told
    assert found.get("MASTER_PORT", "").isdigit() is told


@pytest.mark.real
def test_a_script_of_sagemakers_runs_unchanged(attempt_dir: Path) -> None:
    fields: dict[str, Any] = {
        "arguments": ["fit"],
        "hyperparameters": {"epochs": 3},
        "inputs": [{"path": "train"}],
        "environment": {"SM_CHANNEL_TRAIN": "/data/mine"},
    }
    job = write_job(attempt_dir, **fields)
    (job.work_dir / "main.py").write_text(SCRIPT)
    code, _, said = run_launch(attempt_dir)
    assert code == 0, said
    model = json.loads((job.run_dir / "output/script-mode/model/model.json").read_text())
    assert model["given"]["epochs"] == 3
    assert model["given"]["mode"] == "fit"
    assert model["given"]["train"] == "/data/mine", "the user's own variable wins"
    assert model["sees"]["SM_HOSTS"] == '["localhost"]'
    assert model["sees"]["MASTER_ADDR"] == "127.0.0.1"


@pytest.mark.real
def test_as_many_and_as_long_hyperparameters_as_are_taken_start_a_program(
    attempt_dir: Path,
) -> None:
    given = {f"h{number}": "a" * 2498 for number in range(100)}
    job = write_job(attempt_dir, hyperparameters=given)
    told = (
        "import os, sys; print(len(sys.argv), 'SM_HPS' in os.environ, len(os.environ['SM_HP_H7']))"
    )
    (job.work_dir / "main.py").write_text(told)
    code, _, said = run_launch(attempt_dir)
    assert (code, said.split()[-3:]) == (0, ["201", "False", "2498"]), said[-500:]


@pytest.mark.real
def test_in_a_container_variables_and_directories_are_left_as_they_are(
    attempt_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_HOSTS", "localhost")
    monkeypatch.setenv("SM_MODEL_DIR", "/opt/ml/model")
    job = write_job(attempt_dir, hyperparameters={})
    (job.work_dir / "main.py").write_text(
        "import os; print(os.environ['SM_MODEL_DIR'], 'SM_HOSTS' in os.environ)"
    )
    code, _, said = run_launch(attempt_dir)
    assert (code, said.split()[-2:]) == (0, ["/opt/ml/model", "False"]), said
    assert list(job.output_dir.iterdir()) == []
