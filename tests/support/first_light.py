"""`trainyard first-light` as its users have it: a process of its own, and a file that it writes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, eventually, light_job

Json = dict[str, Any]
#: A whole run on process nodes takes a quarter of it on a quiet machine.
WHOLE_SECONDS = 300.0


class FirstLight:
    """One process. `arguments` come after those that every test needs."""

    def __init__(
        self,
        system: System,
        directory: Path,
        *arguments: str,
        spec: Json | None = None,
        name: str = "first-light",
    ) -> None:
        self.output, self.errors = directory / f"{name}.json", directory / f"{name}.err"
        given = []
        if spec is not None:
            (directory / f"{name}.yaml").write_text(yaml.safe_dump(spec))
            given = [str(directory / f"{name}.yaml")]
        self._system = system
        self._command = [
            sys.executable,
            "-m",
            "trainyard_cli.main",
            "first-light",
            "--state-dir",
            str(system.state_dir),
        ]
        self._process = self._start([*given, "--output", str(self.output), *arguments])

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        environment = {
            name: value for name, value in os.environ.items() if name != "TRAINYARD_API_URL"
        }
        with self.errors.open("ab") as errors:
            return subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=environment,
            )

    def __enter__(self) -> FirstLight:
        return self

    def __exit__(self, *_: object) -> None:
        """A test that failed leaves nothing behind either."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self.output.exists() and not self.document()["nothingLeft"]:
            self.clean()

    @property
    def words(self) -> str:
        """What it printed."""
        return self.errors.read_text()

    def document(self) -> Json:
        return dict(json.loads(self.output.read_text()))

    def ended(self, seconds: float = WHOLE_SECONDS) -> tuple[int, Json]:
        """Exit status and file."""
        return self._process.wait(seconds), self.document() if self.output.exists() else {}

    def in_stage(self, name: str, seconds: float = WHOLE_SECONDS) -> None:
        """Until it is in that stage."""
        eventually(f"stage {name}\n{self.words}", lambda: self._is_in(name), seconds, poll=0.02)

    def _is_in(self, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            stages = self.document()["stages"]
            assert self._process.poll() is None, f"it ended before stage {name}:\n{self.words}"
            return bool(stages) and stages[-1]["name"] == name and stages[-1]["state"] == "running"
        return False

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def clean(self) -> int:
        """A second one finishes the teardown."""
        return self._start(["--clean", str(self.output)]).wait(WHOLE_SECONDS)


def light_spec(workers: int = 1, steps: int = 40, **options: Any) -> Json:
    """A first light without torch: so many workers, all of them in the job."""
    return {
        "name": "light",
        "cluster": {"spec": cluster_spec("light", workers=workers)},
        "job": light_job(nodes=workers, steps=steps, **options),
    }


def stage_of(document: Json, name: str) -> Json:
    return next(dict(stage) for stage in document["stages"] if stage["name"] == name)


def assert_nothing_left(system: System, document: Json) -> None:
    """By what the local cloud and AWS's own calls say, not by what first-light says."""
    name = document["cluster"]
    assert name not in system.backend_clusters()
    known = [cluster for cluster in system.api.clusters() if cluster["name"] == name]
    for cluster in known:
        system.assert_gone(cluster)
    active = [
        run["id"]
        for run in system.api.runs()
        if run["clusterName"] == name and not run["finishedAt"]
    ]
    assert active == []
