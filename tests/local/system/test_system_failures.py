"""Failures of others' programs are understood, and their secrets are kept: on a whole cloud."""

from __future__ import annotations

import hashlib
import json

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, files_with

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
    rows = system.table.scan(TableName=system.local["resources"]["Table"])["Items"]
    assert CANARY not in str(rows)
    assert files_with(CANARY, system.state_dir) == []


def test_a_run_whose_secret_is_missing_ends_before_a_job_is_submitted(system: System) -> None:
    spec = {**cluster_spec("no-secret", workers=1), "jobSecrets": ["trainyard-jobs/none"]}
    wanted = job("print('it ran')", nodes=1, secrets={"TOKEN": "trainyard-jobs/none"})
    run_id = system.submit("no-secret", wanted, spec)
    run = system.ended(run_id, "Failed", 180)
    assert run["problem"]["code"] == "submit-failed"
    assert "there is no secret 'trainyard-jobs/none'" in run["problem"]["detail"]
    assert run["attempts"][0]["jobId"] is None
