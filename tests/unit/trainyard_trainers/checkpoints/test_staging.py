"""A staged copy of the state: whole, unchanging, and refused where there is no room."""

from __future__ import annotations

import pytest
import torch

from trainyard_trainers.checkpoints.staging import SharedMemory, Staged, replaced


def test_a_staged_copy_stays_what_it_was_and_tied_tensors_are_copied_once() -> None:
    weight = torch.arange(12.0).view(3, 4)
    content = {
        "tied": [weight, weight],
        "turned": weight.t(),
        "half": torch.ones(5, dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "number": torch.tensor(7),
        "plain": (1, "two", None),
    }
    memory = SharedMemory()
    staged, sent = Staged(memory, content), []
    staged.start(lambda: sent.append(True))
    staged.wait()
    weight.zero_()
    found = replaced(
        staged.skeleton, lambda leaf: memory.tensor(leaf) if hasattr(leaf, "offset") else leaf
    )
    assert sent == [True]
    assert found["tied"][0].tolist() == torch.arange(12.0).view(3, 4).tolist()
    assert found["tied"][0].data_ptr() == found["tied"][1].data_ptr()
    assert found["turned"].tolist() == torch.arange(12.0).view(3, 4).t().tolist()
    assert found["half"].dtype == torch.bfloat16
    assert found["empty"].shape == (0, 3)
    assert (int(found["number"]), found["plain"]) == (7, (1, "two", None))


def test_a_checkpoint_that_does_not_fit_into_memory_is_an_error_and_not_a_crash() -> None:
    huge = torch.empty(1, dtype=torch.uint8).expand(1 << 46)
    with pytest.raises(OSError, match="bytes are needed to stage the checkpoint"):
        Staged(SharedMemory(), {"huge": huge})
