"""A device's peak is known where its data sheet is known, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from trainyard_trainers.llm import utilisation
from trainyard_trainers.llm.config import ModelConfig


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989.5e12),
        ("NVIDIA H100 PCIe", 756.5e12),
        ("NVIDIA H100 NVL", 835.5e12),
        ("NVIDIA H200", 989.5e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA GB200", 2500e12),
        ("NVIDIA L40S", 0.0),
        ("NVIDIA RTX A1000", 0.0),
    ],
)
def test_a_gpu_is_known_by_its_name(name: str, peak: float) -> None:
    assert utilisation.of_gpu(name) == peak


@pytest.mark.parametrize(
    ("instance_type", "logical", "peak"),
    [
        ("trn1.32xlarge\n", "", 95e12),
        ("trn2.48xlarge", "2", 2 * 667e12 / 8),
        ("trn2.48xlarge", "1", 667e12 / 8),
        ("trn2.48xlarge", "", 0.0),
        ("p5.48xlarge", "", 0.0),
        ("", "", 0.0),
    ],
)
def test_a_neuron_core_is_known_by_its_instance_and_how_many_make_one(
    instance_type: str, logical: str, peak: float
) -> None:
    assert utilisation.of_neuron_core(instance_type, logical) == pytest.approx(peak)


def test_nothing_is_said_of_a_processor_or_of_float32() -> None:
    assert utilisation.peak(torch.device("cpu"), "bf16") == 0.0
    assert utilisation.peak(torch.device("cuda"), "fp32") == 0.0


def test_operations_are_six_for_each_weight_of_a_matrix_and_those_of_the_attention() -> None:
    shape = ModelConfig(
        vocab_size=100,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    block = 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16
    expected = 6 * (2 * block + 100 * 8) + 12 * 2 * 8 * 32
    assert utilisation.operations_per_token(shape, 32) == expected
