"""How much of what its device could compute at most a training step uses: model FLOPs utilisation
(PaLM, Chowdhery et al. 2022, appendix B).

Operations are those that the model needs, not those that are computed again for want of memory.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from .config import ModelConfig
from .model import parameter_shapes

#: By the name that CUDA reports: operations a second of bfloat16 matrix products, without sparsity
#: (a data sheet that says "with sparsity" gives twice as much).
#: A100 312: nvidia.com, A100 data sheet. H100 SXM 1,979 / 2, PCIe 1,513 / 2, NVL 1,671 / 2: H100
#: data sheet; H200 the same. B200 4,500 / 2 (HGX), GB200 5,000 / 2: Blackwell data sheets.
_GPUS: tuple[tuple[str, float], ...] = (
    (r"\bA100\b", 312e12),
    (r"\bH[12]00 NVL\b", 835.5e12),
    (r"\bH100 PCIe\b", 756.5e12),
    (r"\bH[12]00\b", 989.5e12),
    (r"\bGB200\b", 2500e12),
    (r"\bB200\b", 2250e12),
)
#: By EC2's instance type: operations a second of a chip in bfloat16, and its NeuronCores.
#: AWS Neuron documentation, "Trainium Architecture" (190 TFLOPS, two NeuronCore-v2) and "Trainium2
#: Architecture" (667 TFLOPS, eight NeuronCore-v3).
_CHIPS = {"trn1": (190e12, 2), "trn1n": (190e12, 2), "trn2": (667e12, 8), "trn2u": (667e12, 8)}
_INSTANCE_TYPE = Path("/sys/devices/virtual/dmi/id/product_name")


def peak(device: torch.device, precision: str) -> float:
    """Operations a second of one rank's device at most; 0 where that is not known.

    In float32 matrix products take one of several units, so there is no one peak.
    """
    if precision != "bf16":
        return 0.0
    if device.type == "cuda":
        return of_gpu(torch.cuda.get_device_name(device))
    if device.type in ("neuron", "xla"):
        return of_neuron_core(_instance_type(), os.environ.get("NEURON_LOGICAL_NC_CONFIG", ""))
    return 0.0


def of_gpu(name: str) -> float:
    """By the name of a GPU; 0 for one that is not in the table."""
    return next((peak for pattern, peak in _GPUS if re.search(pattern, name)), 0.0)


def of_neuron_core(instance_type: str, logical: str) -> float:
    """Of the core of a rank. On Trn2 `logical` says how many physical ones it is made of: without
    that nothing is known.
    """
    family = instance_type.strip().split(".")[0]
    if family not in _CHIPS or (family.startswith("trn2") and not logical.isdigit()):
        return 0.0
    chip, cores = _CHIPS[family]
    return chip / cores * (int(logical) if logical.isdigit() else 1)


def _instance_type() -> str:
    try:
        return _INSTANCE_TYPE.read_text()
    except OSError:
        return ""


def operations_per_token(config: ModelConfig, sequence: int) -> float:
    """Of the forward and the backward pass: six for each weight in a matrix product, and those of
    the attention, which looks at all pairs of a sequence.
    """
    weights = 0
    for name, shape in parameter_shapes(config).items():
        looked_up = name == "model.embed_tokens.weight" and not config.tie_word_embeddings
        if len(shape) == 2 and not looked_up:
            weights += shape[0] * shape[1]
    width = config.num_attention_heads * config.head_size
    return 6.0 * weights + 12.0 * config.num_hidden_layers * width * sequence
