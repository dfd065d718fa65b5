"""A killed job's unpacked image goes from its node's disk, and no other job's."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard_agent.nodes.containers import remove_left

pytestmark = pytest.mark.real
LIST = "pyxis_7.0 pyxis_7_7.1 pyxis_8.0 pyxis_77.0 pyxis_mine pyxis_7_mine ubuntu"


def enroot(directory: Path, text: str) -> Path:
    program = directory / "enroot"
    program.write_text(f'#!/bin/sh\necho "$@" >> {directory}/asked\n{text}\n')
    program.chmod(0o755)
    return directory / "asked"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TRAINYARD_ROOT", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_containers_of_the_killed_jobs_are_removed_and_no_others(node: Path) -> None:
    asked = enroot(node, f'[ "$1" = list ] && echo {LIST} | tr " " "\\n"')
    assert remove_left(["7"]) == 2
    assert asked.read_text().splitlines() == [
        "list", "remove --force pyxis_7.0", "remove --force pyxis_7_7.1",
    ]  # fmt: skip


def test_who_killed_no_job_asks_nothing(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = enroot(node, "")
    assert remove_left([]) == 0
    monkeypatch.setenv("TRAINYARD_ROOT", str(node))
    assert remove_left(["7"]) == 0
    assert not asked.exists()


def test_a_node_without_enroot_or_with_one_that_fails_goes_on(node: Path) -> None:
    assert remove_left(["7"]) == 0
    enroot(node, "echo pyxis_7.0\nexit 1")
    assert remove_left(["7"]) == 1
