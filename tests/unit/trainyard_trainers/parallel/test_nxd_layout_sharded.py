"""Weights that every data-parallel rank wrote a chunk of are read as whole ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.support import nxd_samples as samples

from trainyard_trainers.llm import convert
from trainyard_trainers.llm.config import to_hf
from trainyard_trainers.parallel import nxd_layout
from trainyard_trainers.parallel.chunks import chunk

#: Its rows are not divisible by 3, and the norms of a head have fewer rows than there are ranks.
MODEL = replace(samples.TINY, model_type="qwen3", head_dim=2, num_key_value_heads=2)


@pytest.mark.parametrize(("tp", "dp"), [(1, 2), (1, 3), (2, 3)])
@pytest.mark.parametrize("xser", [False, True])
def test_chunks_of_any_number_of_ranks_make_the_weights_and_the_optimizer(
    tmp_path: Path, tp: int, dp: int, xser: bool
) -> None:
    full = samples.weights(MODEL)
    found = samples.write(tmp_path, full, tp, dp, zero1=True, sharded=True, xser=xser)
    found.validate()
    assert found.sharded
    assert len(list((found.path / "model").glob("dp_rank_*[0-9].pt"))) == tp * dp
    state = samples.adam(full)
    for name, weight in full.items():
        assert found.shape(name) == tuple(weight.shape)
        assert torch.equal(found.full(name), weight)
        assert torch.equal(found.full_optimizer(name, "exp_avg"), state[name]["exp_avg"])
        local = samples.local(name, weight, 0, tp)
        assert torch.equal(found.model(0)[name], local)
        assert torch.equal(found.piece(name, dp - 1, 0), chunk(local, dp - 1, dp))


def test_blocks_of_rows_go_over_the_borders_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = samples.weights(MODEL)
    found = samples.write(tmp_path, full, 1, 3, sharded=True)
    monkeypatch.setattr(nxd_layout, "BLOCK_BYTES", 7 * 4 * MODEL.hidden_size)
    name = "model.embed_tokens.weight"
    blocks = list(found.blocks(name))
    assert len(blocks) > 3
    assert torch.equal(torch.cat(blocks), full[name])


def test_a_checkpoint_without_one_ranks_chunks_is_refused_by_its_file(tmp_path: Path) -> None:
    found = samples.write(tmp_path, samples.weights(MODEL), 1, 3, sharded=True)
    (found.path / "model" / nxd_layout.rank_name(2, 0)).unlink()
    with pytest.raises(ValueError, match=r"model/dp_rank_02_tp_rank_00_pp_rank_00\.pt is missing"):
        nxd_layout.Checkpoint(found.path).validate()


def test_a_hugging_face_directory_is_made_of_chunks(tmp_path: Path) -> None:
    found = samples.write(
        tmp_path, samples.weights(MODEL), 1, 3, sharded=True, config=to_hf(MODEL), optimizer=False
    )
    assert convert.to_hf(found.path, tmp_path / "hf", check="always").difference is not None
