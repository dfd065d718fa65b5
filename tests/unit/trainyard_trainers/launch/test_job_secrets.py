"""A job's secrets reach its processes and no file, whatever its program does with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CANARY = "canary-secret-7f1c"
LAUNCH = """
import sys
from pathlib import Path
from trainyard_trainers.launch import node_part
node_part.AGENT = Path(sys.argv[1])
sys.exit(node_part.main(sys.argv[2:]))
"""


def launched(
    tmp_path: Path, program: str, said: dict[str, object], recipe: str = "command"
) -> tuple[int, dict[str, object], str, Path]:
    """The job on a node whose agent answers `said`: exit code, report, log, attempt directory."""
    attempt_dir = tmp_path / "run" / "attempts" / "1"
    attempt_dir.mkdir(parents=True)
    (tmp_path / "run" / "work").mkdir()
    (tmp_path / "run" / "work" / "main.py").write_text(program)
    job = {
        "runId": "run-x",
        "attempt": 1,
        "program": ["main.py"],
        "recipe": recipe,
        "region": "eu-west-1",
        "secrets": {"TOKEN": "jobs/x:token"},
    }
    (attempt_dir / "job.json").write_text(json.dumps(job))
    agent = tmp_path / "trainyard-agent"
    asked = "import sys, json; asked = json.load(sys.stdin); assert sys.argv[1] == 'read-secrets'"
    agent.write_text(
        f"#!{sys.executable}\n{asked}\n"
        "assert asked == {'region': 'eu-west-1', 'secrets': {'TOKEN': 'jobs/x:token'}}, asked\n"
        f"print(json.dumps({said!r}))\n"
    )
    agent.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(agent), str(attempt_dir)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "TOKEN"},
    )
    report = json.loads((attempt_dir / "launch-localhost.json").read_text())
    return done.returncode, report, done.stdout + done.stderr, attempt_dir


def canaries(directory: Path) -> list[Path]:
    return [
        path
        for path in directory.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes()
    ]


@pytest.mark.real
def test_the_program_finds_the_value_in_its_variable(tmp_path: Path) -> None:
    program = f"import os\nassert os.environ['TOKEN'] == {CANARY[::-1]!r}[::-1]\n"
    code, report, text, directory = launched(tmp_path, program, {"values": {"TOKEN": CANARY}})
    assert (code, report["kind"]) == (0, None), text
    assert canaries(directory) == []
    assert CANARY not in text


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_an_error_that_quotes_the_secret_is_kept_without_it(tmp_path: Path, recipe: str) -> None:
    program = (
        "import os\ndef login(token):\n    raise ValueError('refused: ' + token)\n"
        "login(os.environ['TOKEN'])\n"
    )
    said: dict[str, object] = {"values": {"TOKEN": CANARY}}
    code, report, text, directory = launched(tmp_path, program, said, recipe)
    assert (code, report["error"]) == (1, "ValueError: refused: (secret)")
    assert "ValueError: refused: (secret)" in text
    assert CANARY not in text
    assert canaries(directory) == []


@pytest.mark.real
def test_a_job_without_its_secret_does_not_start_and_says_why(tmp_path: Path) -> None:
    said: dict[str, object] = {"error": "secret-refused", "message": "there is no secret 'jobs/x'"}
    code, report, text, _ = launched(tmp_path, "print('it ran')", said)
    assert (code, report["kind"]) == (1, "python-error")
    assert report["error"] == "job.secrets cannot be read: there is no secret 'jobs/x'"
    assert "it ran" not in text


@pytest.mark.real
def test_in_an_image_its_own_python_runs_the_nodes_agent_to_read_them(tmp_path: Path) -> None:
    (tmp_path / "attempts/1").mkdir(parents=True)
    lib, packages = tmp_path / "opt/lib/trainyard_agent", tmp_path / "opt/packages"
    for made in (lib, packages):
        made.mkdir(parents=True)
    (lib / "__init__.py").write_text("")
    (lib / "cli.py").write_text(AGENT_IN_IMAGE)
    job = {"image": {"name": "a/b"}, "secrets": {"TOKEN": "jobs/x"}, "region": "eu-west-1"}
    (tmp_path / "attempts/1/job.json").write_text(json.dumps(job))
    program = tmp_path / "opt/bin/trainyard-agent"
    done = subprocess.run(
        [sys.executable, "-c", TAKE, str(tmp_path / "attempts/1"), str(program)],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    certificates = packages / "botocore/cacert.pem"
    assert done.stdout.split() == [f"read-secrets,1,{certificates}", "None"], done.stderr


AGENT_IN_IMAGE = """
import json, os, sys
def main(words):
    said = ",".join([*words, str(sys.flags.no_site), os.environ["SSL_CERT_FILE"]])
    print(json.dumps({"values": {"TOKEN": said}}))
"""
TAKE = """
import os, sys
from pathlib import Path
from trainyard_trainers.launch import job_secrets
from trainyard_trainers.launch.allocation import Job
failed = job_secrets.take(Job.read(Path(sys.argv[1])), Path(sys.argv[2]))
print(os.environ.get("TOKEN"), failed)
"""
