"""A job's batch script in an image: what its program finds there, and how its end is understood."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import pyxis
from tests.support.agent import RUN, config
from tests.support.repository import ROOT
from tests.support.waiting import eventually

from trainyard.domain.recipes import batch_script
from trainyard_agent.jobs.attempt_files import job_marks, write_attempt
from trainyard_contracts.files import BundleImage, JobBundle

IN_IMAGE = ROOT / "trainers/trainyard_trainers/launch/in_image.py"
DIGEST = f"sha256:{'7' * 64}"
NODE = "ip-10-0-0-1"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the stand-in for Pyxis needs root")
LIBRARIES = (
    "layers/contracts/trainyard_contracts", "node_agent/trainyard_agent",
    "job_library/trainyard_job", "trainers/trainyard_trainers",
)  # fmt: skip


class Machine:
    """One node: our packages, a shared filesystem, Enroot and srun with Pyxis (stand-ins)."""

    def __init__(self, directory: Path, program: str, *more: str, **image: str) -> None:
        self.top, self.bin = directory, directory / "bin"
        ours = directory / "opt/trainyard"
        for name in LIBRARIES:
            source, hidden = ROOT / name, shutil.ignore_patterns("__pycache__", "tests", "schemas")
            shutil.copytree(source, ours / "lib" / source.name, ignore=hidden)
        for made in (self.bin, ours / "bin", directory / "etc/trainyard", directory / "fsx"):
            made.mkdir(parents=True)
        shutil.copy(ROOT / "node_agent/lifecycle/trainyard-agent", ours / "bin")
        (directory / "etc/trainyard/environment").write_text("")
        (directory / "etc/trainyard/agent-python").write_text(sys.executable + "\n")
        pyxis.install(self.bin)
        made_of = pyxis.image(image, *more)
        self.program("enroot", f"#!/bin/sh\ncat > \"$3\" <<'END'\n{made_of}\nEND\n")
        self.program("scontrol", f"#!/bin/sh\necho {NODE}\n")
        self.attempt_dir = directory / "fsx/trainyard/runs" / RUN / "attempts/1"
        self.bundle = JobBundle(
            run_id=RUN, attempt=1, cluster_name="c", nodes=1, processes_per_node=1,
            batch_script=batch_script(RUN, 1, 1, in_image=True), recipe="command",
            program=["main.py"], files={"main.py": program}, environment={"MINE": "$(reboot)"},
            image=BundleImage(name="registry.example/team/train:1", digest=DIGEST),
        )  # fmt: skip

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self) -> subprocess.Popen[str]:
        settings = config(
            self.top,
            shared_root=str(self.top / "fsx"),
            library_dir=str(self.top / "opt/trainyard/lib"),
        )
        script = write_attempt(self.attempt_dir, self.bundle, settings, {NODE: "127.0.0.1"})
        environment = {
            "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/root",
            "SLURM_JOB_NODELIST": NODE, "SLURMD_NODENAME": NODE, "SLURM_JOB_ID": "7",
            "SLURM_PROCID": "0", "TMPDIR": str(self.bin), **job_marks(self.bundle),
        }  # fmt: skip
        return subprocess.Popen(
            ["bash", str(script)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> str:
        """Its log."""
        return self.start().communicate(timeout=240)[0]

    @property
    def report(self) -> dict[str, Any]:
        found = json.loads((self.attempt_dir / f"launch-{NODE}.json").read_text())
        assert isinstance(found, dict)
        return found


LOOK = """
import json, os, sys
from pathlib import Path
found = {
    "python": sys.executable, "path": sys.path, "mine": os.environ["MINE"],
    "image": os.environ["OF_IMAGE"], "top": sorted(os.listdir("/")), "cwd": os.getcwd(),
    "tmp": os.environ.get("TMPDIR"), "attempt": os.environ["TRAINYARD_ATTEMPT"],
    "of the image": os.environ["PYTHONPATH"].split(":"),
}
import trainyard_job
Path(os.environ["TRAINYARD_OUTPUT_DIR"], "found.json").write_text(json.dumps(found))
Path("/root/cache").write_text("an image is writable")
Path(trainyard_job.__file__).write_text("") if len(sys.argv) > 1 else None
"""


@needs_root
@pytest.mark.real
def test_a_program_finds_its_image_its_run_and_its_variables(tmp_path: Path) -> None:
    machine = Machine(tmp_path, LOOK, OF_IMAGE="yes", PYTHONPATH="/opt/of-the-image")
    log = machine.run()
    assert machine.report.get("exitCode") == 0, log
    found = json.loads((machine.attempt_dir.parents[1] / "output/found.json").read_text())
    assert found["python"].startswith("/usr/bin/python3"), "the image's, and none of the node's"
    assert (found["mine"], found["image"], found["attempt"]) == ("$(reboot)", "yes", "1")
    assert found["cwd"] == str(machine.attempt_dir.parents[1] / "work")
    assert ROOT.parts[1] not in found["top"], "what is not mounted is not there"
    assert found["tmp"] is None, "the node's is not there"
    assert "/opt/of-the-image" in found["of the image"], "an image's own packages stay"
    assert "importing job.image registry.example/team/train:1" in log


TRAIN = """
import os
import torch, torch.distributed as dist, trainyard_job
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
with trainyard_job.checkpoint(3) as directory:
    (directory / f"rank-{dist.get_rank()}").write_text(str(total.item()))
"""


@needs_root
@pytest.mark.real
def test_ranks_of_an_image_with_its_own_torch_meet_and_commit_a_checkpoint(tmp_path: Path) -> None:
    own = Path(sys.prefix)
    machine = Machine(tmp_path, TRAIN, str(own), sys.base_prefix, PATH=f"{own}/bin:/usr/bin:/bin")
    machine.bundle = machine.bundle.model_copy(
        update={"recipe": "torchrun", "processes_per_node": 2}
    )
    log = machine.run()
    assert machine.report.get("exitCode") == 0, log
    saved = machine.attempt_dir.parents[1] / "checkpoints/step-000000000003-attempt-1"
    assert (saved / "manifest.json").exists()
    assert [(saved / f"rank-{rank}").read_text() for rank in (0, 1)] == ["2.0", "2.0"]


@needs_root
@pytest.mark.real
def test_what_a_node_has_of_ours_cannot_be_changed_from_an_image(tmp_path: Path) -> None:
    machine = Machine(tmp_path, LOOK, OF_IMAGE="")
    machine.bundle = machine.bundle.model_copy(update={"arguments": ["write"]})
    machine.run()
    assert machine.report["kind"] == "python-error"
    assert "Read-only file system" in machine.report["error"]


@needs_root
@pytest.mark.real
def test_a_job_in_an_image_is_asked_to_stop_as_any_other(tmp_path: Path) -> None:
    waits = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "open('ready', 'w').close()\nwhile True:\n    time.sleep(0.05)\n"
    )
    machine = Machine(tmp_path, waits)
    process = machine.start()
    ready = machine.attempt_dir.parents[1] / "work/ready"
    eventually("the program runs", ready.exists, 120)
    process.send_signal(signal.SIGTERM)  # bash, srun and the launcher are one process here
    process.communicate(timeout=240)
    assert machine.report["kind"] == "stopped"


@needs_root
@pytest.mark.real
def test_a_killed_process_of_an_image_is_told_by_its_signal(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    machine.run()
    assert (machine.report["kind"], machine.report["signal"]) == ("signal", int(signal.SIGKILL))


@needs_root
@pytest.mark.real
def test_an_image_that_cannot_be_imported_ends_the_job_with_its_name(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "")
    machine.bundle = machine.bundle.model_copy(
        update={"image": BundleImage(name=str(tmp_path / "fsx/gone.sqsh"))}
    )
    log = machine.run()
    assert "gone.sqsh' cannot be used: the file is not there any more" in log
    assert machine.report["error"].startswith("job.image '")


def test_an_image_with_an_old_python_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("in_image", IN_IMAGE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "job.json").write_text(json.dumps({"attempt": 1, "image": {"name": "a/b:1"}}))
    monkeypatch.setenv("SLURMD_NODENAME", NODE)
    monkeypatch.setattr(sys, "argv", ["in_image.py", str(tmp_path)])
    monkeypatch.setattr(module, "OLDEST", (99, 0))
    assert module.main() == 1
    report = json.loads((tmp_path / f"launch-{NODE}.json").read_text())
    assert report["error"].startswith("job.image 'a/b:1' has Python 3.")
    assert report["lasting"] == "program"
    assert report["error"] in capsys.readouterr().err
