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

from trainyard.domain.recipes import BATCH_SCRIPT
from trainyard_agent.jobs.attempt_files import job_marks, write_attempt
from trainyard_container import events as container_events
from trainyard_contracts import places
from trainyard_contracts.events import SOURCE
from trainyard_contracts.files import ClusterFile, JobBundle, LaunchReport, Progress
from trainyard_job.checkpoints.checkpoint import checkpoint_name
from trainyard_job.common import places as job_places
from trainyard_job.common import progress
from trainyard_job.common.attempt import Attempt
from trainyard_trainers.launch.allocation import Job

LIFECYCLE = sorted((ROOT / "node_agent/lifecycle").glob("*.py"))
PRODUCT = ("layers", "functions", "node_agent", "job_library", "trainers", "cli", "localcloud")
#: Shared names, and in the job library the same once more.
SPELT = (
    "layers/contracts/trainyard_contracts/places.py",
    "job_library/trainyard_job/common/places.py",
)
#: Who may not import them (`pyproject.toml`), or where a word stands for something else.
ELSEWHERE = {
    "layers/contracts/trainyard_contracts/event_bases.py: trainyard.agent": "of all events",
    "job_library/trainyard_container/events.py: trainyard.agent": "where there is no pydantic",
    "job_library/trainyard_container/host_part.py: output": "SageMaker's own directory",
    "node_agent/lifecycle/node.py: cluster.json": "a lifecycle script",
    "localcloud/trainyard_local/faults.py: manifest.json": "the local cloud",
    "localcloud/trainyard_local/faults.py: runs": "the local cloud",
    "localcloud/trainyard_local/machines/node.py: work": "overlayfs's own directory of a machine",
    "trainers/trainyard_trainers/launch/in_image.py: job.json": "for a Python too old to import it",
    "node_agent/trainyard_agent/host/configuration.py: runs": "on disk; the constant is a key's",
}


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


def constants(module: Any) -> dict[str, str]:
    return {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }


def test_the_job_library_spells_shared_names_as_the_contracts_do() -> None:
    ours, theirs = constants(places), constants(job_places)
    assert {"FENCE", "FENCE_LOCK", "FINAL", "HOSTS", "JOB", "PROGRESS"} <= theirs.keys()
    assert theirs == {name: ours.get(name) for name in theirs}
    assert job_places.launch_report("ip-1") == places.launch_report("ip-1")
    assert job_places.rank_logs("ip-1") == places.rank_logs("ip-1")
    for rank, groups in ((None, (None,)), (0, ("0",)), (127, ("127",))):
        name = places.rank_log(rank)
        assert job_places.rank_log(rank) == name
        named = places.RANK_LOG_NAME.match(name)
        assert named is not None
        assert named.groups() == groups
    parsed = places.CHECKPOINT_NAME.match(checkpoint_name(7, 12))
    assert parsed is not None
    assert tuple(map(int, parsed.groups())) == (7, 12)


def test_the_batch_script_looks_for_nodes_in_the_file_that_the_agent_writes() -> None:
    assert f"@ATTEMPT_DIR@/{places.HOSTS})" in BATCH_SCRIPT


def test_the_template_names_the_agents_events_as_the_contracts_do() -> None:
    text = (ROOT / "template.yaml").read_text()
    assert container_events.SOURCE == SOURCE
    assert text.count(f"source: [{SOURCE}]") == text.count(f'"events:source": {SOURCE}}}') == 1


def spelt_again(text: str) -> set[str]:
    """Shared names in strings: as a path's part, or such that they mean nothing else."""
    names = {*constants(places).values(), *constants(job_places).values()}
    own = {name for name in names if "." in name} | {SOURCE, "clusters/"}
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right
            if isinstance(right, ast.Constant) and right.value in names:
                found.add(str(right.value))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            last = node.value.rpartition("*/")[2]
            found |= {name for name in own if last.startswith(name) and " " not in last}
    return found


def test_a_shared_name_is_spelt_in_one_place() -> None:
    files = [path for member in PRODUCT for path in sorted((ROOT / member).rglob("*.py"))]
    assert len(files) > 400
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        if str(path.relative_to(ROOT)) not in SPELT
        for name in spelt_again(path.read_text())
    }
    assert found == ELSEWHERE.keys()


@pytest.mark.parametrize(
    "line",
    ['run / "fence"', 'read("job.log")', 'glob("run-*/*/bundle.json")', 'f"clusters/{name}/"'],
)
def test_a_name_that_is_spelt_again_is_found(line: str) -> None:
    assert spelt_again(line)


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
def test_the_launcher_makes_the_variables_of_a_job_from_what_the_agent_wrote(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    asked, directory = bundle(**changes), tmp_path / "runs" / RUN / "attempts" / "2"
    write_attempt(directory, asked, config(tmp_path), {})
    given = Job.read(directory).environment()
    assert job_marks(asked).items() <= given.items()
    auto, seconds = asked.checkpoint_every_seconds == "auto", asked.checkpoint_every_seconds
    by_default = 60.0 if seconds is None and asked.checkpoint_every_steps is None else seconds
    assert Attempt.from_environment(given) == Attempt(
        run_id=RUN,
        number=2,
        run_dir=directory.parents[1],
        attempt_dir=directory,
        checkpoint_dir=directory.parents[1] / asked.checkpoint_directory,
        every_seconds=None if auto else by_default,
        every_steps=asked.checkpoint_every_steps,
        keep=asked.checkpoint_keep,
        every_auto=auto,
        seconds_between_failures=asked.seconds_between_failures or 86400.0,
    )
    assert given["TRAINYARD_OUTPUT_DIR"] == str(directory.parents[1] / places.OUTPUT)


@pytest.mark.parametrize("wild", ["1e400", "1" + "0" * 400, "-1e300", '"x"', "[]", "true", "null"])
def test_a_moment_that_is_none_leaves_the_rest_of_a_launchers_report(wild: str) -> None:
    report = LaunchReport.model_validate_json(
        f'{{"node": "here", "started": {wild}, "ended": {wild}, "exitCode": 3}}'
    )
    assert (report.started, report.ended, report.exit_code) == (None, None, 3)
    told = LaunchReport.model_validate_json('{"node": "here", "started": 7, "ended": 8.5}')
    assert (told.started, told.ended) == (7.0, 8.5)


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
