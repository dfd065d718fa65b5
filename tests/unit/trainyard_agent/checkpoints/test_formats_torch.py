"""What torch and safetensors really write proves itself, and its torn copies do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from trainyard_agent.checkpoints.formats import glance, prove
from trainyard_agent.checkpoints.torn import Torn

STATE = {"weight": torch.arange(5000.0), "step": torch.tensor(7)}


def test_torchs_file_is_proven_and_each_cut_of_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pt"
    torch.save({"model": STATE, "epoch": 3}, path)
    assert glance(tmp_path, [path.name]) == "provable"
    assert prove(tmp_path, [path.name], ranks=None)
    whole = path.read_bytes()
    for end in range(4, len(whole), 997):
        path.write_bytes(whole[:end])
        assert glance(tmp_path, [path.name]) == "early"
        with pytest.raises(Torn):
            prove(tmp_path, [path.name], ranks=None)
    path.write_bytes(whole[:8000] + bytes(4000) + whole[12000:])
    with pytest.raises(Torn):
        prove(tmp_path, [path.name], ranks=None)


def test_torchs_file_without_crcs_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(STATE, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert not prove(tmp_path, [path.name], ranks=None)


def test_an_old_pickle_of_torchs_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pt"
    torch.save(STATE, path, _use_new_zipfile_serialization=False)
    assert not prove(tmp_path, [path.name], ranks=None)
    assert glance(tmp_path, [path.name]) == "silent"


def test_safetensors_file_is_proven_and_each_cut_of_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(STATE, path)
    assert prove(tmp_path, [path.name], ranks=None)
    whole = path.read_bytes()
    for end in range(1, len(whole), 997):
        path.write_bytes(whole[:end])
        with pytest.raises(Torn):
            prove(tmp_path, [path.name], ranks=None)
