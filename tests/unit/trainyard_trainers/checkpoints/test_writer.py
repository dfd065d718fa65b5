"""What of a tensor is written, and what becomes of a checkpoint whose directory goes away."""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainyard_job.checkpoints import checkpoint
from trainyard_job.common.attempt import Attempt
from trainyard_trainers.checkpoints import writer
from trainyard_trainers.checkpoints.writer import Answer, Part, content_writer


def test_of_a_view_only_its_own_numbers_are_written_and_tied_ones_once() -> None:
    whole = torch.arange(100_000.0)
    content = {
        "part": whole[10:20],
        "column": whole.view(1000, 100)[:, 3],
        "tied": whole[10:20],
        "empty": whole[:0],
    }
    alone = {
        "part": whole[10:20].clone(),
        "column": whole.view(1000, 100)[:, 3].clone(),
        "empty": torch.empty(0),
    }
    written, expected = io.BytesIO(), io.BytesIO()
    content_writer(content)(written)
    content_writer(
        {
            "part": alone["part"],
            "column": alone["column"],
            "tied": alone["part"],
            "empty": alone["empty"],
        }
    )(expected)
    assert written.getvalue() == expected.getvalue()
    assert len(written.getvalue()) < 10_000
    written.seek(0)
    found = torch.load(written, weights_only=True)
    assert all(torch.equal(found[name], tensor) for name, tensor in content.items())
    assert found["tied"].data_ptr() == found["part"].data_ptr()


@pytest.mark.parametrize("file_in_its_place", [True, False])
def test_a_save_whose_directory_is_moved_away_while_other_ranks_write_fails_at_once(
    tmp_path: Path, file_in_its_place: bool
) -> None:
    attempt = Attempt.from_environment({"TRAINYARD_RUN_DIR": str(tmp_path / "run")})
    (attempt.run_dir / "fence").parent.mkdir(parents=True)
    part = Part(attempt.checkpoint_dir / checkpoint.checkpoint_name(3, 1), 3, 1, 0, 2, {"a": b"1"})
    assert writer.write(attempt, part).word == "written"
    said: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: said.append(writer.commit(attempt, part, lambda: False)), daemon=True
    )
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive(), "it waits for the other rank's part"
    attempt.checkpoint_dir.rename(tmp_path / "away")
    if file_in_its_place:
        attempt.checkpoint_dir.write_text("no directory")
    waiting.join(60)
    [answer] = said
    assert (answer.word, "was moved or removed" in answer.reason) == ("failed", True)


@pytest.mark.parametrize("read_first", [True, False])
def test_a_directory_that_another_rank_makes_anew_has_not_the_first_ranks_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_first: bool
) -> None:
    """It is removed after rank 0 wrote, or after rank 0's report was read; rank 1 is slower."""
    attempt = Attempt.from_environment({"TRAINYARD_RUN_DIR": str(tmp_path / "run")})
    (attempt.run_dir / "fence").parent.mkdir(parents=True)
    target = attempt.checkpoint_dir / checkpoint.checkpoint_name(3, 1)
    parts = [Part(target, 3, 1, rank, 2, {f"{rank}.pt": b"1"}) for rank in range(2)]
    temporary = checkpoint.temporary_directory(target, attempt)

    def anew() -> None:
        shutil.rmtree(temporary)
        assert writer.write(attempt, parts[1]).word == "written"

    assert writer.write(attempt, parts[0]).word == "written"
    real = writer._await_report

    def await_report(where: Path, part: Part, rank: int, given_up: Callable[[], bool]) -> Any:
        if rank == 1 and read_first:
            anew()
        return real(where, part, rank, given_up)

    monkeypatch.setattr(writer, "_await_report", await_report)
    if not read_first:
        anew()
    answer = writer.commit(attempt, parts[0], lambda: False)
    assert answer.word == "failed"
    assert not target.exists()
    assert not temporary.exists()
