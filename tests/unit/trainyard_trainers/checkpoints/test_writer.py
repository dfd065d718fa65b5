"""What of a tensor is written."""

from __future__ import annotations

import io

import torch

from trainyard_trainers.checkpoints.writer import content_writer


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
