"""Programs of somebody else on nodes that boot: power cuts, results, secrets and failures.

Their Python is that of these tests, with torch and the frameworks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.machines.conftest import Json
from tests.support import kept_words, lost_nodes
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, files_with

from trainyard_cli import main

pytestmark = pytest.mark.machines

READY_SECONDS = 240.0
CLUSTER = "programs"
CANARY = "canary-of-a-secret-on-machines-41c9"
SECRET = "trainyard-jobs/machines"
#: It reads its own files, and leaves one result beside them and one where results belong.
DIRECTORY = {
    "train.py": (
        "import os, pathlib\n"
        "from package.words import WORD\n"
        "pathlib.Path('made.txt').write_text(WORD + pathlib.Path('data/input.txt').read_text())\n"
        "output = pathlib.Path(os.environ['TRAINYARD_OUTPUT_DIR'])\n"
        "(output / 'model.bin').write_bytes(bytes(range(256)) * 4096)\n"
    ),
    "package/__init__.py": "",
    "package/words.py": "WORD = 'read: '\n",
    "data/input.txt": "data",
}
#: One that saves in place and one whose launcher starts the ranks; the others differ from these in
#: nothing that a power cut could, and lose a node that is processes.
ON_MACHINES = ("tutorial", pytest.param("deepspeed", marks=pytest.mark.long))
#: What no other attempt heals: the end, its problem's code, and words that it must have.
WRONG = {
    "import": ("import missing\n", "lasting-error", "No module named 'missing'"),
    "memory": (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "held = bytearray(2**31)\n",
        "out-of-memory",
        "MemoryError",
    ),
}


@pytest.fixture(scope="module")
def _made(system: System) -> Iterator[str]:
    """Two workers and a spare for all tests, and a secret that only its jobs may read."""
    secrets = system.aws("secretsmanager")
    secrets.create_secret(Name=SECRET, SecretString=json.dumps({"token": CANARY}))
    python = {"kind": "existing", "path": "/opt/trainyard/env"}
    spec = cluster_spec(CLUSTER, workers=2, spares=1, environment=python, jobSecrets=[SECRET])
    system.api.create_cluster(spec)
    system.cluster_ready(CLUSTER, READY_SECONDS)
    yield CLUSTER
    secrets.delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)
    system.api.delete_cluster(CLUSTER)
    system.assert_gone(system.api.cluster(CLUSTER))


@pytest.fixture
def cluster(system: System, _made: str) -> str:
    """Its name, when all nodes serve again after the test before."""
    system.heal(_made)
    system.workers_serve(_made, READY_SECONDS)
    return _made


def job(program: str, **more: object) -> Json:
    return {"nodes": 2, "script": "main.py", "files": {"main.py": program}, **more}


def trainyard(system: System, capsys: pytest.CaptureFixture[str], *arguments: str) -> Json:
    code = main.run(["--state-dir", str(system.state_dir), "--json", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured
    found: Json = json.loads(captured.out)
    return found


@pytest.mark.parametrize("name", ON_MACHINES)
def test_after_a_power_cut_a_program_ends_with_the_weights_of_one_that_nothing_disturbed(
    system: System, cluster: str, tmp_path: Path, name: str
) -> None:
    lost_nodes.resumed_is_undisturbed(system, cluster, name, tmp_path, seconds=READY_SECONDS)


def test_a_directory_goes_up_runs_and_its_results_come_down(
    system: System,
    cluster: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project, results = tmp_path / "project", tmp_path / "results"
    for path, text in DIRECTORY.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    wanted = {"recipe": "command", "nodes": 1, "workdir": ".", "script": "train.py"}
    spec = {"name": "directory", "cluster": {"name": cluster}, "job": wanted}
    (project / "spec.json").write_text(json.dumps(spec))
    run_id = trainyard(system, capsys, "run", "submit", str(project / "spec.json"))["id"]
    run = system.ended(run_id, "Succeeded", READY_SECONDS)
    assert run["export"]["state"] == "verified"
    trainyard(system, capsys, "run", "download", run_id, "--to", str(results))
    assert (results / "output/model.bin").read_bytes() == bytes(range(256)) * 4096
    assert (results / "working/made.txt").read_text() == "read: data"
    assert not list(results.rglob("input.txt")), "what came with it is no result"


@pytest.mark.parametrize("name", WRONG)
def test_what_no_other_attempt_heals_stops_within_two_and_blames_no_node(
    system: System, cluster: str, name: str
) -> None:
    program, code, words = WRONG[name]
    run_id = system.submit(f"wrong-{name}", job(program), cluster)
    run = system.ended(run_id, "Failed", READY_SECONDS)
    assert run["problem"]["code"] == code, system.story(run_id)
    assert words in run["problem"]["detail"]
    assert len(run["attempts"]) <= 2, system.story(run_id)
    assert run["excludedNodes"] == []
    assert [incident["node"] for incident in run["incidents"]] == [None] * len(run["incidents"])


def test_a_secret_reaches_the_program_and_no_disk_of_any_node(system: System, cluster: str) -> None:
    digest = hashlib.sha256(CANARY.encode()).hexdigest()
    program = (
        "import hashlib, os\n"
        "token = os.environ['TOKEN']\n"
        f"assert hashlib.sha256(token.encode()).hexdigest() == {digest!r}\n"
        "raise ValueError('refused: ' + token)\n"
    )
    wanted = job(program, secrets={"TOKEN": f"{SECRET}:token"})
    run_id = system.submit("secret", wanted, cluster, recovery={"sameErrorLimit": 1})
    run = system.ended(run_id, "Failed", READY_SECONDS)
    assert "refused: (secret)" in run["problem"]["detail"]
    assert CANARY not in json.dumps([run, system.api.events(run_id)])
    assert CANARY not in system.api.logs(run_id, lines=1000)["text"]
    kept_words.assert_secret(system, CANARY, run_id)
    nodes_disks = [top for top, _, _ in os.walk(system.state_dir) if top.endswith("disk/upper")]
    assert nodes_disks, "the nodes' own disks are among them"
    assert files_with(CANARY, system.state_dir) == []
