"""The operations of a trained token, by the usual count: six a weight, and those of attention."""

from __future__ import annotations

from dataclasses import replace

import torch
from bench.llm_gpu import TINY, operations_a_token

from trainyard_trainers.llm.model import parameter_shapes


def test_weights_that_are_only_looked_up_do_not_count_and_attention_grows_with_the_sequence() -> (
    None
):
    sizes = {name: torch.Size(shape).numel() for name, shape in parameter_shapes(TINY).items()}
    looked_up = sizes["model.embed_tokens.weight"]
    assert operations_a_token(TINY, 0) == 6 * (sum(sizes.values()) - looked_up)
    attention = operations_a_token(TINY, 64) - operations_a_token(TINY, 0)
    assert attention == 12 * TINY.num_hidden_layers * TINY.hidden_size * 64
    tied = replace(TINY, tie_word_embeddings=True)
    assert operations_a_token(tied, 0) == operations_a_token(TINY, 0), "its embedding is its head"
