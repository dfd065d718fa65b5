"""Failures of others' programs are understood, and their secrets are kept: on a whole cloud."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import kept_words
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, eventually, files_with

CANARY = "canary-of-a-secret-7f1c2d"
SECRET = "trainyard-jobs/token"


def job(program: str, nodes: int = 2, **more: object) -> Json:
    files = {"main.py": program}
    return {"nodes": nodes, "script": "main.py", "files": files, **more}


@pytest.mark.parametrize(
    ("program", "exception", "most"),
    [
        ("import torch\nprint(steps)\n", "NameError", 1),
        # Nodes wait for each other's words for seconds; one that starts later brings an attempt.
        ("import missing\n", "ModuleNotFoundError", 2),
        ("open('/no/such/data.bin')\n", "FileNotFoundError", 2),
    ],
)
def test_what_no_other_attempt_can_heal_ends_the_run_at_the_first(
    system: System, shared: str, program: str, exception: str, most: int
) -> None:
    run_id = system.submit("wrong", job(program), shared, recovery={"sameErrorLimit": 2})
    run = system.ended(run_id, "Failed")
    assert len(run["attempts"]) <= most, system.story(run_id)
    assert run["problem"]["code"] in ("lasting-error", "same-error")[:most]
    traceback = run["problem"]["detail"].partition("It failed here")[2]
    assert "Traceback (most recent call last):" in traceback
    assert "main.py" in traceback
    assert exception in traceback
    assert "runpy" not in traceback
    assert "trainyard_trainers" not in traceback


def test_a_file_that_another_rank_writes_too_late_is_there_at_the_next_attempt(
    system: System, shared: str
) -> None:
    program = (
        "import os, pathlib, time\n"
        "made = pathlib.Path('made')\n"
        "missed = pathlib.Path(os.environ['TRAINYARD_ATTEMPT_DIR'], 'missing', '1')\n"
        "if os.environ['RANK'] == '1':\n"
        "    made.read_text()\n"
        "while not made.exists() and not missed.exists():\n"
        "    time.sleep(0.05)\n"
        "made.write_text('data')\n"
    )
    run_id = system.submit("late", job(program, 1, processesPerNode=2), shared)
    run = system.ended(run_id, "Succeeded")
    assert len(run["attempts"]) == 2, system.story(run_id)


def test_the_log_of_a_good_run_on_two_nodes_ends_with_the_programs_own_words(
    system: System, shared: str
) -> None:
    program = "import time\ntime.sleep(0.2)\nprint('the last words', flush=True)\n"
    run_id = system.submit("good", job(program), shared)
    system.ended(run_id, "Succeeded")
    log = system.api.logs(run_id, lines=1000)["text"]
    assert "the last words" in log
    assert "exit barrier" not in log
    assert "Traceback" not in log


#: It leaves a result, and is then killed by somebody before it has told any step.
KILLED = (
    "import os, pathlib\n"
    "kept = pathlib.Path(os.environ['TRAINYARD_OUTPUT_DIR'], 'kept.txt')\n"
    "kept.write_text('before the end')\n"
    "os.kill(os.getpid(), 9)\n"
)
HUNGRY = KILLED.replace(
    "os.kill(os.getpid(), 9)\n", "held = [b'x' * 10_000_000 for _ in range(500)]\n"
)
#: The interpreter of it aborts after its last line, as one does whose C++ threads nobody joined.
ABORTS = (
    "import os, pathlib, signal, sys\n"
    "class Library:\n"
    "    def __del__(self, kill=os.kill, getpid=os.getpid, number=signal.SIGABRT):\n"
    "        kill(getpid(), number)\n"
    "sys.kept = [Library()]\n"
    "sys.kept.append(sys.kept)\n"
    "kept = pathlib.Path(os.environ['TRAINYARD_OUTPUT_DIR'], 'kept.txt')\n"
    "kept.write_text('before the end')\n"
)
#: It writes a small result, then one that the small disk below its output cannot hold.
FILLS = (
    "import os, pathlib, time\n"
    "out = pathlib.Path(os.environ['TRAINYARD_OUTPUT_DIR'])\n"
    "while not os.path.ismount(out):\n"
    "    time.sleep(0.05)\n"
    "(out / 'kept.txt').write_text('before the end')\n"
    "(out / 'model.bin').write_bytes(bytes(8_000_000))\n"
)
GROUPS = Path("/sys/fs/cgroup/memory")


def assert_named(system: System, run_id: str, run: Json, words: str) -> None:
    """Its end says so in one sentence, within two attempts; no node is blamed, results are kept."""
    story = system.story(run_id)
    assert words in run["problem"]["detail"].replace("\n", ". ").split(". ")[0], run["problem"]
    assert len(run["attempts"]) <= 2, story
    assert run["excludedNodes"] == [], story
    for name in {name for attempt in run["attempts"] for name in attempt["nodes"]}:
        assert system.node(run["clusterName"], name)["status"] == "Running", story
    assert kept(system, run_id) == b"before the end"


def kept(system: System, run_id: str) -> bytes:
    """What the program wrote before its end, as it was exported."""
    key = f"{system.export_prefix(run_id)}output/kept.txt"
    found = system.aws("s3").get_object(Bucket=system.local["bucket"], Key=key)
    return bytes(found["Body"].read())


@pytest.fixture
def little_memory(system: System, shared: str) -> Iterator[str]:
    """The shared cluster, whose workers' Slurm may use 400 MB each, by the kernel's own limit."""
    moved: list[tuple[Path, int]] = []
    try:
        for node in system.workers_serve(shared):
            [daemon] = [
                found
                for found in system.processes(TRAINYARD_NODE=node["instanceId"])
                if found.command.split()[0].endswith("slurmd")
            ]
            group = GROUPS / f"trainyard-test-{os.getpid()}-{node['instanceId']}"
            try:
                group.mkdir()
                (group / "memory.limit_in_bytes").write_text("400000000")
            except OSError as error:
                pytest.skip(f"no memory cgroup can be made here; run as root: {error}")
            moved.append((group, daemon.pid))
            (group / "cgroup.procs").write_text(str(daemon.pid))
        yield shared
    finally:
        for group, _ in moved:
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (GROUPS / "cgroup.procs").write_text(pid)
            eventually("the cgroup is empty", lambda group=group: _removed(group), 15)


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def test_a_program_that_the_kernel_kills_for_memory_is_named_and_no_node_is_blamed(
    system: System, little_memory: str
) -> None:
    run_id = system.submit("hungry", job(HUNGRY), little_memory, recovery={"sameErrorLimit": 2})
    run = system.ended(run_id, "Failed", 120)
    assert run["problem"]["code"] == "out-of-memory", system.story(run_id)
    assert [incident["node"] for incident in run["incidents"]] == [None] * len(run["incidents"])
    assert_named(system, run_id, run, "out-of-memory killer")


def test_a_signal_before_the_first_step_is_named_and_no_node_is_blamed(
    system: System, shared: str
) -> None:
    run_id = system.submit("killed", job(KILLED), shared, recovery={"sameErrorLimit": 2})
    run = system.ended(run_id, "Failed", 120)
    assert run["problem"]["code"] == "same-error", system.story(run_id)
    assert_named(system, run_id, run, "signal 9")


def test_a_program_that_aborts_after_its_end_has_succeeded_and_the_timeline_says_so(
    system: System, shared: str
) -> None:
    run_id = system.submit("aborts", job(ABORTS), shared)
    run = system.ended(run_id, "Succeeded", 120)
    assert (len(run["attempts"]), run["excludedNodes"]) == (1, [])
    assert "killed by SIGABRT after its program had ended well" in system.story(run_id)
    assert kept(system, run_id) == b"before the end"


def test_a_program_whose_output_meets_a_full_disk_is_named_and_what_fits_is_kept(
    system: System, shared: str
) -> None:
    run_id = system.submit("fills", job(FILLS, 1), shared, recovery={"sameErrorLimit": 2})
    program = {"TRAINYARD_RUN_ID": run_id, "RANK": "0"}
    ranks = eventually("the program runs", lambda: system.processes(**program))
    output = ranks[0].environment["TRAINYARD_OUTPUT_DIR"]
    # All nodes see one tree of mounts, which the daemons keep.
    node = system.daemon(system.controller(shared)["instanceId"])
    there = ["nsenter", "-t", str(node.pid), "-m"]
    small = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=777", "tmpfs", output]
    if subprocess.run([*there, *small], check=False).returncode:
        system.api.cancel_run(run_id)
        system.ended(run_id, "Cancelled")
        pytest.skip("no small disk can be mounted here; run as root")
    try:
        run = system.ended(run_id, "Failed", 120)
        assert_named(system, run_id, run, "No space left on device")
    finally:
        subprocess.run([*there, "umount", "-l", output], check=True)


def test_a_secret_reaches_the_program_and_nothing_that_is_stored(system: System) -> None:
    secrets = system.aws("secretsmanager")
    secrets.create_secret(Name=SECRET, SecretString=json.dumps({"token": CANARY}))
    digest = hashlib.sha256(CANARY.encode()).hexdigest()
    program = (
        "import hashlib, os\n"
        "token = os.environ['TOKEN']\n"
        f"assert hashlib.sha256(token.encode()).hexdigest() == {digest!r}\n"
        "print('it is the token')\n"
        "raise ValueError('refused: ' + token)\n"
    )
    try:
        spec = {**cluster_spec("secrets", workers=2), "jobSecrets": [SECRET]}
        wanted = job(program, secrets={"TOKEN": f"{SECRET}:token"})
        run_id = system.submit("secrets", wanted, spec, recovery={"sameErrorLimit": 1})
        run = system.ended(run_id, "Failed", 180)
    finally:
        secrets.delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)
    assert "refused: (secret)" in run["problem"]["detail"]
    assert CANARY not in json.dumps([run, system.api.events(run_id)])
    assert CANARY not in system.api.logs(run_id, lines=1000)["text"]
    kept_words.assert_secret(system, CANARY, run_id)
    assert files_with(CANARY, system.state_dir) == []


def test_a_run_whose_secret_is_missing_ends_before_a_job_is_submitted(system: System) -> None:
    spec = {**cluster_spec("no-secret", workers=1), "jobSecrets": ["trainyard-jobs/none"]}
    wanted = job("print('it ran')", nodes=1, secrets={"TOKEN": "trainyard-jobs/none"})
    run_id = system.submit("no-secret", wanted, spec)
    run = system.ended(run_id, "Failed", 180)
    assert run["problem"]["code"] == "submit-failed"
    assert "there is no secret 'trainyard-jobs/none'" in run["problem"]["detail"]
    assert run["attempts"][0]["jobId"] is None
