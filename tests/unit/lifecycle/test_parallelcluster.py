"""A node of ParallelCluster learns who it is from ParallelCluster's own files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lifecycle import CLUSTER, LIFECYCLE

ARN = "arn:aws:cloudformation:eu-west-1:123456789012:stack/c/1a2b"
OWN = {**CLUSTER, "sharedFilesystem": None, "sharedPath": "/fsx", "slurmSetup": "BackendsOwn"}
ENVIRON = {
    "TRAINYARD_ADDRESS": "10.1.0.6",
    "TRAINYARD_NODE": "i-2",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://metadata",
}


@pytest.fixture(autouse=True)
def metadata(scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the instance's metadata say."""
    said = {"instance-life-cycle": "on-demand"}
    monkeypatch.setattr(scripts.step_network, "metadata", lambda endpoint, name: said[name])
    return said


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a worker."""
    found = tmp_path / "root"
    put(
        found / "etc/parallelcluster/cfnconfig",
        "stack_name=c\ncfn_node_type=ComputeFleet\ncfn_head_node_private_ip=10.1.0.5\n"
        'cfn_scheduler_queue_name="gpu"\n',
    )
    put(found / "etc/parallelcluster/slurm_plugin/slurm_nodename", "gpu-dy-nodes-1\n")
    facts = {"stack_arn": ARN, "head_node_private_ip": "10.1.0.5"}
    put(found / "etc/chef/dna.json", json.dumps({"cluster": facts}))
    return found


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def identify(scripts: SimpleNamespace, root: Path, role: str) -> Any:
    return scripts.parallelcluster.identify(OWN, str(root), role, ENVIRON)


def test_a_worker_has_slurms_name_and_its_queue_and_knows_the_head_node(
    scripts: SimpleNamespace, root: Path
) -> None:
    me = identify(scripts, root, "worker")
    assert (me.node_name, me.group, me.role) == ("gpu-dy-nodes-1", "gpu", "worker")
    assert (me.instance_id, me.address, me.controller_address) == ("i-2", "10.1.0.6", "10.1.0.5")
    assert me.cluster_arn == ARN
    assert not me.spot


def test_a_spot_node_is_told_to_look_for_its_end(
    scripts: SimpleNamespace, root: Path, bundle: Path, metadata: dict[str, str]
) -> None:
    metadata["instance-life-cycle"] = "spot"
    me = identify(scripts, root, "worker")
    environ = {**ENVIRON, "TRAINYARD_SHARED": "/shared", "TRAINYARD_PYTHON": "/python"}
    config = scripts.step_install.agent_config(
        scripts.node.Node(str(root), bundle, OWN, me, environ)
    )
    assert (config["spot"], config["metadataEndpoint"]) == (True, "http://metadata")


def test_a_head_node_is_its_own_controller(scripts: SimpleNamespace, root: Path) -> None:
    me = identify(scripts, root, "controller")
    assert (me.node_name, me.controller_address) == ("ip-10-1-0-6", "10.1.0.6")
    assert me.group == CLUSTER["controllerGroup"]


def test_a_login_node_finds_the_head_node_where_its_set_up_left_it(
    scripts: SimpleNamespace, root: Path
) -> None:
    put(root / "etc/parallelcluster/cfnconfig", "stack_name=c\ncfn_node_type=LoginNode\n")
    me = identify(scripts, root, "login")
    assert (me.controller_address, me.node_name) == ("10.1.0.5", "ip-10-1-0-6")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("etc/parallelcluster/cfnconfig", "cfnconfig is missing"),
        ("etc/parallelcluster/slurm_plugin/slurm_nodename", "slurm_nodename is missing"),
        ("etc/chef/dna.json", "dna.json is missing"),
    ],
)
def test_a_file_that_is_not_there_is_named(
    scripts: SimpleNamespace, root: Path, missing: str, words: str
) -> None:
    (root / missing).unlink()
    with pytest.raises(scripts.node.StepFailed, match=words):
        identify(scripts, root, "worker")


def test_the_agent_is_told_that_nodes_come_and_go_and_that_slurm_is_not_ours(
    scripts: SimpleNamespace, root: Path, bundle: Path
) -> None:
    environ = {**ENVIRON, "TRAINYARD_SHARED": "/shared", "TRAINYARD_PYTHON": "/python"}
    me = identify(scripts, root, "controller")
    node = scripts.node.Node(str(root), bundle, OWN, me, environ)
    config = scripts.step_install.agent_config(node)
    assert (config["nodesComeAndGo"], config["jobEndHook"]) == (True, None)
    assert config["sharedPath"] == "/fsx"


def test_after_an_update_only_the_agents_configuration_is_written_anew(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(load: object, steps: list[tuple[str, object]], first: str) -> int:
        ran.append([name for name, _ in steps])
        return 0

    monkeypatch.setattr(scripts.lifecycle, "run", run)
    scripts.parallelcluster.main(["controller", "updated"])
    scripts.parallelcluster.main(["controller"])
    assert ran[0] == ["agent configuration"]
    assert set(ran[0]) < set(ran[1])


def test_nothing_is_mounted_by_us_and_what_is_missing_is_said(
    scripts: SimpleNamespace, root: Path, bundle: Path
) -> None:
    me = identify(scripts, root, "worker")
    there = scripts.node.Node("", bundle, {**OWN, "sharedPath": "/"}, me, {})
    scripts.step_mounts.mounted_already(there)
    nowhere = scripts.node.Node("", bundle, {**OWN, "sharedPath": str(root)}, me, {})
    with pytest.raises(scripts.node.StepFailed, match="nothing is mounted"):
        scripts.step_mounts.mounted_already(nowhere)


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["clusters/c/1", "worker"], "FAILED in step 'arguments': 'clusters/c/1' must be s3://"),
        (["s3://b/c/1", "boss"], "'boss' must be controller, worker or login"),
        (["s3://b/c/1", "worker"], "FAILED in step 'bundle': s3://b/c/1 cannot be copied"),
    ],
)
def test_the_script_says_in_one_line_why_it_failed(
    tmp_path: Path, words: list[str], why: str
) -> None:
    put(tmp_path / "bin/aws", "#!/bin/sh\necho 'fatal error: Access Denied' >&2\nexit 1\n")
    (tmp_path / "bin/aws").chmod(0o755)
    environ = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "TRAINYARD_ROOT": str(tmp_path / "root"),
        "TRAINYARD_PYTHON": "/usr/bin/python3",
    }
    argv = ["bash", str(LIFECYCLE / "parallelcluster_node.sh"), *words]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert why in done.stdout.splitlines()[-1]


#: Slurm's answers, one a line, in the order in which it is asked.
SCONTROL = """\
#!/bin/sh
echo "$SLURM_CONF $*" >> "$0.calls"
read -r answer < "$0.answers" && sed -i 1d "$0.answers"
echo "$answer"
case $answer in *Invalid*) exit 1 ;; esac
"""
COMING, UP = "State=ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "State=ALLOCATED+CLOUD"
CONFIGURING = "JobId=7 JobName=run-01-2 JobState=CONFIGURING"


def began(tmp_path: Path, *answers: str, **job: str) -> list[str]:
    """What PrologSlurmctld asks of Slurm before it lets the job begin."""
    program = tmp_path / "trainyard/bin/slurm-job-begin"
    scontrol = tmp_path / "slurm/bin/scontrol"
    for directory in (program.parent, scontrol.parent):
        directory.mkdir(parents=True)
    program.write_bytes((LIFECYCLE / "slurm-job-begin").read_bytes())
    scontrol.write_text(SCONTROL)
    Path(f"{scontrol}.answers").write_text("".join(f"{one}\n" for one in answers))
    for each in (program, scontrol):
        each.chmod(0o755)
    known = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "run-01-2"}
    environment = known | {"SLURM_JOB_NODELIST": "q-dy-nodes-1"} | job
    subprocess.run([str(program)], env=environment, check=True, timeout=120)
    calls = Path(f"{scontrol}.calls")
    return calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.real
def test_a_job_begins_as_soon_as_the_machines_that_boot_for_it_are_up(tmp_path: Path) -> None:
    off = "State=ALLOCATED+CLOUD+POWERED_DOWN"
    calls = began(tmp_path, off, CONFIGURING, COMING, CONFIGURING, UP)
    conf = tmp_path / "trainyard/bin/../../slurm/etc/slurm.conf"
    node, job = f"{conf} -o show node q-dy-nodes-1", f"{conf} -o show job 7"
    assert calls == [node, job, node, job, node]


@pytest.mark.real
def test_a_job_whose_machine_is_given_up_is_not_held_up(tmp_path: Path) -> None:
    assert len(began(tmp_path, "State=DOWN+CLOUD+POWERING_DOWN")) == 1


@pytest.mark.real
@pytest.mark.parametrize(
    "said",
    [
        "JobId=7 JobName=run-01-2 JobState=CANCELLED",
        "JobId=7 JobName=run-01-2 JobState=NODE_FAIL",
        "slurm_load_jobs error: Invalid job id specified",
    ],
)
def test_nothing_waits_for_a_job_that_is_over_although_its_nodes_boot(
    tmp_path: Path, said: str
) -> None:
    assert len(began(tmp_path, COMING, said)) == 2


@pytest.mark.real
def test_a_slurm_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    silent = "slurm_load_jobs error: Unable to contact slurm controller"
    assert len(began(tmp_path, COMING, silent, UP)) == 3


@pytest.mark.real
@pytest.mark.parametrize(
    "job", [{"SLURM_JOB_NAME": "theirs"}, {"SLURM_JOB_NODELIST": "q-st-nodes-[1-2]"}]
)
def test_jobs_of_people_and_jobs_on_static_nodes_begin_without_a_question(
    tmp_path: Path, job: dict[str, str]
) -> None:
    assert began(tmp_path, "IDLE", **job) == []
