"""Names that two processes must spell alike agree, also where a process cannot import them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse
from tests.support.agent import RUN, config
from tests.support.repository import ROOT

from trainyard_agent.jobs.attempt_files import job_environment, write_attempt
from trainyard_contracts import places
from trainyard_contracts.files import ClusterFile, JobBundle, LaunchReport, Progress
from trainyard_trainers.common import progress
from trainyard_trainers.common.attempt import Attempt
from trainyard_trainers.launch.allocation import Job

LIFECYCLE = sorted((ROOT / "node_agent/lifecycle").glob("*.py"))


def read_of_cluster_file(path: Path) -> set[str]:
    """The keys that a lifecycle script reads of `cluster[...]`, `cluster.get(...)` and REQUIRED."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        owner, key = None, None
        if isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner, key = (
                (node.func.value, node.args[0]) if node.func.attr == "get" else (None, None)
            )
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)
        if name == "cluster" and isinstance(key, ast.Constant):
            found.add(str(key.value))
    return found


def test_lifecycle_scripts_read_what_the_control_plane_writes() -> None:
    written = {field.alias for field in ClusterFile.model_fields.values()}
    read = set().union(*map(read_of_cluster_file, LIFECYCLE))
    assert {"clusterName", "secretName", "slurmSetup", "users"} <= read <= written


def test_the_template_names_secrets_and_roles_as_the_contracts_do() -> None:
    text = (ROOT / "template.yaml").read_text()
    variables = yaml_parse(text)["Globals"]["Function"]["Environment"]["Variables"]
    stack = "${AWS::StackName}"
    assert variables["SECRET_PREFIX"] == {"Fn::Sub": places.secret_prefix(stack)}
    assert f":role{places.roles_path(stack)}*" in text
    assert f":secret:{places.secret_prefix(stack)}/*" in text


def bundle(**changes: Any) -> JobBundle:
    fields = {"run_id": RUN, "attempt": 2, "cluster_name": "c", "batch_script": "", "nodes": 1}
    return JobBundle(**(fields | {"processes_per_node": 1, "program": ["train.py"]} | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"checkpoint_every_seconds": "auto", "seconds_between_failures": 3600.0},
        {"checkpoint_every_steps": 7, "checkpoint_keep": 9, "checkpoint_directory": "a/b"},
        {"checkpoint_every_seconds": 12.5, "environment": {"TRAINYARD_RUN_ID": "another"}},
    ],
)
def test_the_launcher_gives_a_job_the_variables_that_the_agent_gave_slurm(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    asked, directory = bundle(**changes), tmp_path / "runs" / RUN / "attempts" / "2"
    write_attempt(directory, asked, config(tmp_path), {})
    slurms = job_environment(config(tmp_path), asked, directory.parents[1], directory)
    given = Job.read(directory).environment()
    assert {name: given[name] for name in slurms} == slurms
    assert set(given) - set(slurms) <= {name for name, value in given.items() if not value}
    assert Attempt.from_environment(given) == Attempt.from_environment(slurms)


def test_trainers_and_launchers_write_what_the_agent_reads(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "runs" / RUN / "attempts" / "2"
    asked = bundle(
        recipe="command", program=["train.py"], files={"train.py": "raise SystemExit(3)"}
    )
    write_attempt(directory, asked, config(tmp_path), {"here": "127.0.0.1"})
    done = subprocess.run(
        [sys.executable, "-m", "trainyard_trainers.launch", str(directory)],
        env={**os.environ, "SLURMD_NODENAME": "here", "SLURM_STEP_NODELIST": "here"},
        check=False,
    )
    report = LaunchReport.model_validate_json(
        (directory / places.launch_report("here")).read_bytes()
    )
    assert (done.returncode, report.node, report.exit_code, report.kind) == (3, "here", 3, "exit")
    told = progress.Progress(directory, world_size=1, resumed_from=None)
    told.step(1, 0.5, last=True)
    assert Progress.model_validate_json((directory / places.PROGRESS).read_bytes()).step == 1
