"""MLflow's metrics: the newest line of each, and the loss among them."""

from __future__ import annotations

import os
from pathlib import Path

from trainyard_agent.jobs.mlflow_files import MlflowFiles


def write(root: Path, name: str, text: str, at: int) -> None:
    path = root / "work/mlruns/0/0123abc" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


def test_steps_and_losses_are_read(tmp_path: Path) -> None:
    files = MlflowFiles(tmp_path, "mlruns")
    assert not files.look()
    write(tmp_path, "metrics/loss", "1 0.5 10\n2 0.25 20\n3 0.1", 1)
    write(tmp_path, "metrics/val_loss", "2 9.0 20\n", 2)
    write(tmp_path, "metrics/train/accuracy", "2 0.9 30\n", 3)
    write(tmp_path, "params/loss", "cross-entropy", 3)
    write(tmp_path, "artifacts/metrics/loss", "1 8.0 999\n", 3)
    assert files.look()
    assert (files.step, files.loss) == (30, 0.25)
    assert not files.look()


def test_what_is_no_metric_is_passed_over(tmp_path: Path) -> None:
    files = MlflowFiles(tmp_path, "mlruns")
    for number, text in enumerate(["", "\n", "1 2\n", "a b c\n", "1 nan 5\n", "1 2 -5\n"]):
        write(tmp_path, f"metrics/loss{number}", text, number)
    write(tmp_path, "metrics/loss", "1 nan 5\n", 9)
    files.look()
    assert (files.step, files.loss) == (5, None)
