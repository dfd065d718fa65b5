"""What a booting node makes for people: accounts, keys, environments, mounts, or says why not."""

from __future__ import annotations

import base64
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.machines.conftest import FILESYSTEM, Json, Machines
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, eventually

pytestmark = pytest.mark.machines

READY_SECONDS = 240.0
CLUSTER = "people"
SAY = "import tiny_tool\nprint('SAID', tiny_tool.WORD, tiny_tool.__file__)\n"
LIMITS = """
import resource
kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)
print("LIMITS", *(resource.getrlimit(kind)[0] for kind in kinds))
print("GROUPS", open("/proc/self/cgroup").read().split())
"""


def wheel(directory: Path) -> None:
    """A package of one module, as an index has it."""
    about = "tiny_tool-1.0.dist-info"
    with zipfile.ZipFile(directory / "tiny_tool-1.0-py3-none-any.whl", "w") as made:
        made.writestr("tiny_tool.py", "WORD = 'from the index'\n")
        made.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-tool\nVersion: 1.0\n")
        made.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        made.writestr(
            f"{about}/RECORD",
            f"tiny_tool.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
        )


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", str(path)],
        check=True,
        timeout=120,
    )
    return path


@pytest.fixture(scope="module")
def impossible(system: System) -> dict[str, str]:
    """Runs whose clusters ask for what the image lacks; they fail beside the other tests."""
    by_scripts = {"slurmSetup": "ProvisioningParameters", "provisioning": "AllAtOnce"}
    wanted = {
        "bucket": {"s3Mounts": [{"bucket": "sagemaker-corpus", "mountPath": "/data"}]},
        "conda": {"environment": {"kind": "conda", "path": "/opt/trainyard/own"}},
    }
    job = {"recipe": "command", "nodes": 1, "script": "say.py", "files": {"say.py": SAY}}
    return {
        name: system.submit(name, job, cluster_spec(name, workers=1, **by_scripts, **more))
        for name, more in wanted.items()
    }


@pytest.fixture(scope="module")
def people(machines: Machines, system: System, key: Path, impossible: dict[str, str]) -> str:
    """A cluster with a person, an environment from the index, a file system at its own path."""
    wheel(machines.state_dir / "packages")
    spec = cluster_spec(
        CLUSTER, workers=1,
        users=[{"name": "ada", "uid": 2001,
                "sshKeys": [key.with_suffix(".pub").read_text().strip()]}],
        environment={"kind": "venv", "path": "/opt/trainyard/own",
                     "requirements": ["tiny_tool==1.0"]},
        sharedFilesystem={"dnsName": FILESYSTEM["DnsName"], "mountName": "people",
                          "mountPath": "/shared"},
    )  # fmt: skip
    spec["instanceGroups"].append(
        {"name": "door", "role": "login", "instanceType": "ml.c5.large", "count": 1}
    )
    system.api.create_cluster(spec)
    system.cluster_ready(CLUSTER, READY_SECONDS)
    return CLUSTER


def test_an_environment_comes_from_an_index_that_fails_the_first_time(
    machines: Machines, system: System, people: str
) -> None:
    log = "\n".join(machines.log(people, machines.node(people, "workers")))
    assert "job environment, try 1 of 5" in log
    job = {"recipe": "command", "nodes": 1, "script": "say.py", "files": {"say.py": SAY}}
    run = system.ended(
        system.submit("say", job, people, export={"enabled": False}), "Succeeded", READY_SECONDS
    )
    said = eventually("the log is kept", lambda: system.api.logs(run["id"])["text"], 30)
    assert "SAID from the index /opt/trainyard/own/" in said


def test_a_job_has_slurmds_limits_and_not_the_agents_and_lies_outside_its_slice(
    machines: Machines, system: System, people: str
) -> None:
    """sbatch would hand on the limits of the agent that calls it, were it not told otherwise."""
    controller, worker = machines.node(people, "controller"), machines.node(people, "workers")
    assert (
        machines.on(worker, "systemctl", "show", "trainyard-agent", "-p", "Slice", "--value")
        == "trainyard.slice"
    )
    machines.on(
        controller,
        "prlimit",
        "--pid",
        main_pid(machines, controller, "trainyard-agent"),
        "--nofile=512:",
        "--memlock=65536:",
    )
    job = {"recipe": "command", "nodes": 1, "script": "limits.py", "files": {"limits.py": LIMITS}}
    run = system.ended(
        system.submit("limits", job, people, export={"enabled": False}), "Succeeded", READY_SECONDS
    )
    said = eventually("the log is kept", lambda: system.api.logs(run["id"])["text"], 30)
    asked = ("--nofile", "--memlock", "-o", "SOFT", "--noheadings", "--raw")
    limits = (
        machines.on(worker, "prlimit", "--pid", main_pid(machines, worker, "slurmd"), *asked)
        .replace("unlimited", "-1")
        .split()
    )
    assert limits != ["512", "65536"]
    assert f"LIMITS {' '.join(limits)}" in said
    assert "trainyard.slice" not in said


def main_pid(machines: Machines, node: Json, unit: str) -> str:
    return machines.on(node, "systemctl", "show", unit, "-p", "MainPID", "--value")


def test_a_user_logs_in_with_the_key_of_the_spec_and_with_no_other(
    machines: Machines, people: str, key: Path
) -> None:
    door, worker = machines.node(people, "controller"), machines.node(people, "workers")
    secret = base64.b64encode(key.read_bytes()).decode()
    machines.on(
        door,
        "sh",
        "-c",
        f"umask 077; echo {secret} | base64 -d > /root/key; rm -f /root/other; "
        "ssh-keygen -q -t ed25519 -N '' -f /root/other",
    )

    def login(identity: str) -> str:
        options = [
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "IdentitiesOnly=yes",
            "-i",
            identity,
        ]
        return machines.on(door, "ssh", *options, f"ada@{worker['address']}", "id -un; id -u; pwd")

    assert login("/root/key").split() == ["ada", "2001", "/home/ada"]
    assert login("/root/other") == ""
    assert machines.on(
        worker, "stat", "-c", "%a %U", "/home/ada/.ssh", "/home/ada/.ssh/authorized_keys"
    ).split() == [
        "700",
        "ada",
        "600",
        "ada",
    ]


def test_a_login_node_speaks_to_slurm_for_its_users_and_is_in_no_partition_of_workers(
    machines: Machines, people: str
) -> None:
    door, worker = machines.node(people, "door"), machines.node(people, "workers")

    def members(partition: str) -> set[str]:
        return set(
            machines.on(
                door, "/opt/slurm/bin/sinfo", "-h", "-N", "-p", partition, "-o", "%N"
            ).split()
        )

    eventually(
        "the login node is known to Slurm",
        lambda: members("dev") == {door["name"], worker["name"]},
        60,
    )
    assert members("main") == {worker["name"]}
    assert machines.on(door, "ls", "/opt/slurm/etc/slurm.conf") == "", (
        "it takes its configuration from the controller"
    )
    asked = "cd /shared && srun --immediate=30 -p main -N1 sh -c 'hostname; id -u'"
    assert machines.on(door, "su", "-", "ada", "-c", asked).split() == [worker["name"], "2001"]


def test_the_shared_filesystem_is_there_again_after_a_reboot_by_its_own_line_in_fstab(
    machines: Machines, people: str
) -> None:
    worker = machines.node(people, "workers")
    source = f"{FILESYSTEM['DnsName']}@tcp:/people"
    assert (
        f"{source} /shared lustre defaults,noatime,flock,_netdev,nofail 0 0"
        in machines.on(worker, "cat", "/etc/fstab").splitlines()
    )
    machines.on(worker, "touch", "/shared/kept")
    before = machines.init(worker)
    machines.sagemaker.batch_reboot_cluster_nodes(
        ClusterName=people, NodeIds=[worker["instanceId"]]
    )
    eventually("it boots again", lambda: machines.init(worker) not in (None, before), 90)
    eventually(
        "the file system is mounted",
        lambda: machines.on(worker, "ls", "/shared/kept") == "/shared/kept",
        90,
    )
    eventually(
        "the agent runs",
        lambda: machines.on(worker, "systemctl", "is-active", "trainyard-agent") == "active",
        60,
    )
    assert "shared.mount" in shown(machines, worker, "trainyard-agent", "Requires").split()
    mounted = shown(machines, worker, "shared.mount", "ActiveEnterTimestampMonotonic")
    began = shown(machines, worker, "trainyard-agent", "ExecMainStartTimestampMonotonic")
    assert 0 < int(mounted) < int(began), "the agent starts after the mount"


def shown(machines: Machines, node: Json, unit: str, name: str) -> str:
    """A property of a unit, as systemd says it."""
    return machines.on(node, "systemctl", "show", unit, f"--property={name}", "--value").strip()


def test_what_a_node_cannot_make_ends_the_run_with_the_field_and_what_to_do(
    system: System, impossible: dict[str, str]
) -> None:
    """Debian has neither Mountpoint for S3 nor conda, and HyperPod's image may lack them, too."""
    words = {
        "bucket": "s3Mounts: s3://sagemaker-corpus cannot be mounted at /data: "
        "this node's image has no /usr/bin/mount-s3",
        "conda": "kind is 'conda', but no conda is installed on this node; use 'venv'",
    }
    for name, run_id in impossible.items():
        run = system.ended(run_id, "Failed", READY_SECONDS)
        assert words[name] in run["problem"]["detail"], system.story(run_id)
