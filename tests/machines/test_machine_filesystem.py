"""A shared directory that stands still, as in a failover: nothing is lost, training goes on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.machines.conftest import Machines, system_of
from tests.machines.test_machine_silence import TRIAL_SECONDS, Trials, unnoticed_cloud
from tests.support.system import eventually

pytestmark = pytest.mark.machines

STEPS = 500
IMAGE_BYTES = 512 << 20


def sudo(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


@pytest.fixture
def on_a_file_system_of_its_own(tmp_path: Path) -> Iterator[tuple[Machines, Path]]:
    """A local cloud whose shared directories lie on a file system that we can make stand still."""
    state_dir, image = tmp_path / "state", tmp_path / "fsx.img"
    with open(image, "wb") as file:
        file.truncate(IMAGE_BYTES)
    sudo("mkfs.ext4", "-q", "-F", str(image))
    with unnoticed_cloud(state_dir) as machines:
        shared = state_dir.resolve() / "fsx"
        try:
            sudo("mount", "-o", "loop", str(image), str(shared))
        except subprocess.CalledProcessError as error:
            pytest.skip(
                f"no file system can be mounted from a file here: {error.stderr.decode().strip()}"
            )
        try:
            yield machines, shared
        finally:
            subprocess.run(
                ["fsfreeze", "--unfreeze", str(shared)],
                capture_output=True,
                timeout=120,
                check=False,
            )
            subprocess.run(
                ["umount", "--lazy", str(shared)], capture_output=True, timeout=120, check=False
            )


@pytest.mark.long
def test_a_shared_directory_that_stands_still_for_twenty_seconds_loses_nothing(
    on_a_file_system_of_its_own: tuple[Machines, Path],
) -> None:
    machines, shared = on_a_file_system_of_its_own
    trials = Trials(machines, system_of(machines), "stalls", STEPS)
    with trials.losing_nothing():
        sudo("fsfreeze", "--freeze", str(shared))
        ends = time.monotonic() + TRIAL_SECONDS
        try:
            eventually(
                "half of the time is over",
                lambda: time.monotonic() > ends - TRIAL_SECONDS / 2,
                TRIAL_SECONDS,
            )
            still = trials.step()
            eventually("the time is over", lambda: time.monotonic() > ends, TRIAL_SECONDS)
            assert trials.step() == still, "it did stand still"
        finally:
            sudo("fsfreeze", "--unfreeze", str(shared))
    assert trials.system.timeline(trials.run_id, "AgentSilent") == []
    trials.ends_as_if_nothing_had_happened(attempts=1)
    trials.delete()
