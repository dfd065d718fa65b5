"""With the callback, Lightning's checkpoints are whole, and have the random states of all ranks.

With the plugin those of a ModelCheckpoint are, where it saves them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from tests.support import job_examples

from trainyard_job.lightning import MANIFESTS, NotWhole, WholeCheckpointIO, latest_in

pytestmark = pytest.mark.real


def test_a_killed_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    job_examples.resumed_is_undisturbed(tmp_path, "lightning_module.py", "--devices", "2")
    newest = tmp_path / "cut" / "checkpoints" / "step-000000000009-attempt-2"
    assert {"random-00000.pt", "random-00001.pt"} <= set(os.listdir(newest))


class Line(LightningModule):
    """The least that a Trainer can train."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def train_dataloader(self) -> torch.utils.data.DataLoader[torch.Tensor]:
        return torch.utils.data.DataLoader(torch.ones(40, 2), batch_size=4)  # type: ignore[arg-type]

    def training_step(self, rows: torch.Tensor, batch_idx: int) -> torch.Tensor:
        loss: torch.Tensor = self.layer(rows).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fitted(saved: Path, steps: int) -> Trainer:
    """A person's own ModelCheckpoint: each second step, the two newest, and the last."""
    own = ModelCheckpoint(
        saved, "{step}", save_last=True, monitor="step", mode="max", save_top_k=2,
        every_n_train_steps=2,
    )  # fmt: skip
    trainer = Trainer(
        max_steps=steps, accelerator="cpu", devices=1, callbacks=[own], logger=False,
        plugins=[WholeCheckpointIO()], enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Line(), ckpt_path=latest_in(saved))
    return trainer


def test_a_model_checkpoint_of_ones_own_is_whole_and_goes_on_from_the_newest_whole_file(
    tmp_path: Path,
) -> None:
    fitted(tmp_path, 6)
    names = {"step=4.ckpt", "step=6.ckpt", "last.ckpt"}
    assert set(os.listdir(tmp_path)) == names | {MANIFESTS}
    assert set(os.listdir(tmp_path / MANIFESTS)) == {f"{name}.json" for name in names}
    for torn in ("step=6.ckpt", "last.ckpt"):
        with open(tmp_path / torn, "r+b") as stream:
            stream.truncate(1000)
        with pytest.raises(NotWhole, match=rf"{torn} is not what was saved"):
            WholeCheckpointIO().load_checkpoint(tmp_path / torn)
    assert latest_in(tmp_path) == str(tmp_path / "step=4.ckpt")
    trainer = fitted(tmp_path, 8)
    assert (trainer.global_step, trainer.fit_loop.total_batch_idx) == (8, 7)
    newest = latest_in(tmp_path)
    assert newest is not None
    assert WholeCheckpointIO().load_checkpoint(newest)["global_step"] == 8


@pytest.mark.parametrize("renames", [0, 1])
def test_a_save_that_is_cut_before_its_commit_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """`renames`: so many are made (the manifest's, then the file's) before the end."""
    plugin, path = WholeCheckpointIO(), tmp_path / "last.ckpt"
    plugin.save_checkpoint({"global_step": 1}, path)
    real = os.replace
    done: list[Any] = []

    def replace(source: Any, target: Any) -> None:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(target)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            plugin.save_checkpoint({"global_step": 2}, path)
    assert latest_in(tmp_path) == str(path)
    assert plugin.load_checkpoint(path) == {"global_step": 1}
    plugin.save_checkpoint({"global_step": 3}, path)
    assert plugin.load_checkpoint(path) == {"global_step": 3}


def test_what_is_of_another_origin_is_loaded_and_never_found_and_what_cannot_be_is_refused(
    tmp_path: Path,
) -> None:
    torch.save({"global_step": 5}, tmp_path / "theirs.ckpt")
    assert latest_in(tmp_path) is None
    plugin = WholeCheckpointIO()
    assert plugin.load_checkpoint(tmp_path / "theirs.ckpt") == {"global_step": 5}
    with pytest.raises(ValueError, match="in a directory only, not at a URL"):
        plugin.save_checkpoint({}, "s3://bucket/model.ckpt")
    with pytest.raises(TypeError, match="storage_options"):
        plugin.save_checkpoint({}, tmp_path / "a.ckpt", {"any": 1})
