"""What is new or changed among a run's checkpoints is looked at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.agent import RUN, commit

from trainyard_agent.checkpoints.scanning import scan


def test_a_whole_checkpoint_is_found_once(tmp_path: Path) -> None:
    commit(tmp_path, 10)
    (finding,), present = scan(tmp_path, "checkpoints", RUN, {})
    assert (finding.path, finding.step, finding.status, finding.bytes, finding.files) == (
        "checkpoints/step-000000000010-attempt-1", 10, "whole", 7, 1,
    )  # fmt: skip
    again, _ = scan(
        tmp_path, "checkpoints", RUN, {finding.path: (finding.status, finding.signature)}
    )
    assert again == []
    assert present == {finding.path}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda d: (d / "manifest.json").unlink(), "no manifest.json"),
        (lambda d: (d / "manifest.json").write_text("{"), "malformed"),
        (lambda d: (d / "rank-0/model.pt").write_bytes(b"wei"), "3 bytes, the manifest says 7"),
        (lambda d: (d / "rank-0/model.pt").write_bytes(b"WEIGHTS"), "hash"),
        (lambda d: (d / "rank-0/model.pt").unlink(), "cannot be read"),
        (
            lambda d: (d / "manifest.json").write_text(
                (d / "manifest.json").read_text().replace("rank-0/model.pt", "../../../etc/passwd")
            ),
            "malformed",
        ),
        (
            lambda d: (d / "manifest.json").write_text(
                (d / "manifest.json").read_text().replace(RUN, RUN[:-1] + "z")
            ),
            "belongs to run",
        ),
        (
            lambda d: (d / "manifest.json").write_text(
                (d / "manifest.json").read_text().replace('"step": 10', '"step": 11')
            ),
            "of step 11",
        ),
    ],
)
def test_a_damaged_checkpoint_is_rejected_with_the_reason(
    tmp_path: Path, damage, reason: str
) -> None:  # type: ignore[no-untyped-def]
    damage(commit(tmp_path, 10))
    (finding,), _ = scan(tmp_path, "checkpoints", RUN, {})
    assert finding.status == "rejected"
    assert reason in finding.reason


def test_a_whole_checkpoint_that_is_damaged_later_is_looked_at_again(tmp_path: Path) -> None:
    directory = commit(tmp_path, 10)
    (before,), _ = scan(tmp_path, "checkpoints", RUN, {})
    (directory / "rank-0/model.pt").write_bytes(b"WEIGHTS")
    (after,), _ = scan(
        tmp_path, "checkpoints", RUN, {before.path: (before.status, before.signature)}
    )
    assert after.status == "rejected"


def test_temporary_directories_are_no_checkpoints(tmp_path: Path) -> None:
    commit(tmp_path, 10).rename(tmp_path / "checkpoints/.tmp-step-000000000010-attempt-1")
    assert scan(tmp_path, "checkpoints", RUN, {}) == ([], set())
    assert scan(tmp_path, "elsewhere", RUN, {}) == ([], set())
