"""What is told of an attempt's end, and what is done before it is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.support.agent_parts import NODES, Controller, OneJob, play, write_launch

from trainyard_agent.jobs import ending
from trainyard_agent.jobs.ending import EVIDENCE_NODES, doubtful_first, with_restart
from trainyard_contracts import places
from trainyard_contracts.diagnosis_verdict import Diagnosis
from trainyard_contracts.node_evidence import NodeEvidence


def test_a_restart_explains_the_end_of_a_job_that_did_not_succeed() -> None:
    failed, well = Diagnosis("failed", 1, error="an error"), Diagnosis("succeeded", 0)
    assert with_restart(failed, "ip-1").error == "ip-1 was restarted"
    assert with_restart(failed, "") == failed
    assert with_restart(well, "ip-1") == well


def test_of_too_many_nodes_those_in_doubt_are_told() -> None:
    well = [
        NodeEvidence(node=f"ip-{n}", agent="linked", scheduler="up") for n in range(EVIDENCE_NODES)
    ]
    doubted = NodeEvidence(node="doubted", agent="linked", scheduler="down")
    assert doubtful_first([*well, doubted]) == [doubted, *well[:-1]]


def test_the_end_of_an_attempt_on_thousands_of_nodes_fits_into_an_event(tmp_path: Path) -> None:
    names = tuple(f"ip-10-{number // 250}-{number % 250}-7" for number in range(6758))
    controller = Controller(tmp_path, None, names[-1])
    attempt = controller.add(1, "running", nodes=names)
    event = controller.ending._event(attempt, Diagnosis("failed"), "x" * 8192)
    assert len(event.nodes) == EVIDENCE_NODES
    assert event.nodes[0].node == names[-1], "those in doubt come first"
    assert len(event.model_dump_json(by_alias=True)) < 128 * 1024


def test_a_job_that_a_person_ended_and_that_does_not_stop_in_time_is_killed_before_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "EVIDENCE_SECONDS", 0.05)
    monkeypatch.setattr(ending, "STOP_SECONDS", 0.3)
    # No look comes between the two times: the controller is busy.
    monkeypatch.setattr(ending, "LOOK_SECONDS", 0.4)

    async def story() -> None:
        slurm = OneJob()
        slurm.state = "COMPLETING"
        controller = Controller(tmp_path, slurm)
        attempt = controller.add(1, "running", nodes=NODES)
        write_launch(attempt.directory, NODES[0], ended=2.0, exitCode=143, kind="stopped")
        write_launch(attempt.directory, NODES[1])
        assert await controller.follower.poll(attempt)
        assert controller.killed == [(1, ["101"])]

    play(story())


def test_a_job_whose_script_never_began_is_told_as_that(tmp_path: Path) -> None:
    """Slurm gives a job nodes that are still to be powered up, and takes them back if none come."""
    controller = Controller(tmp_path, None, NODES[0])
    attempt = controller.add(1, "running", nodes=NODES)
    attempt.directory.mkdir(parents=True, exist_ok=True)
    failed = Diagnosis("failed", signal=9, error_kind="signal")
    assert controller.ending._event(attempt, failed, "").never_ran
    (attempt.directory / places.JOB_LOG).write_text("")
    assert not controller.ending._event(attempt, failed, "").never_ran
    (attempt.directory / places.JOB_LOG).unlink()
    write_launch(attempt.directory, NODES[0])
    assert not controller.ending._event(attempt, failed, "").never_ran


def test_of_a_job_whose_directory_cannot_be_read_nobody_knows_whether_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller(tmp_path, None)
    attempt = controller.add(1, "running", nodes=NODES)
    failed = Diagnosis("failed", signal=9, error_kind="signal")
    assert not attempt.directory.exists()
    assert not controller.ending._event(attempt, failed, "").never_ran

    def stale(path: Path) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr(os, "listdir", stale)
    assert not controller.ending._event(attempt, failed, "").never_ran
