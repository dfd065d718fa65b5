"""Which dimension of each Llama weight tensor parallelism splits, so that trainers, checkpoints and
conversion agree on it.
"""

_SPLIT_BY_INPUT = ("o_proj", "down_proj")


def tp_dim(name: str) -> int | None:
    """The dimension along which the parameter `name` (Hugging Face's Llama names) is split over the
    tensor-parallel ranks.

    None: every rank holds all of it (norms). 1: split by input features, the output is summed over
    the ranks (row-parallel: the weights of `o_proj` and `down_proj`; their biases are replicated).
    0: split by output features or by vocabulary (column-parallel: q, k, v, gate, up, the embedding
    and the head). Megatron-LM (Shoeybi et al., 2019) describes the scheme.
    """
    parts = name.split(".")
    if any("norm" in part for part in parts):
        return None
    if any(part in _SPLIT_BY_INPUT for part in parts):
        return None if parts[-1] == "bias" else 1
    return 0
