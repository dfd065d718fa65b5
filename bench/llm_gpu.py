"""Model FLOPs utilisation of the llm trainer on one GPU.

The model has 1.2 billion parameters; a sequence has 4,096 tokens; bfloat16, compiled.

    python bench/llm_gpu.py              writes build/bench/llm_gpu.json; needs a CUDA device
    python bench/llm_gpu.py --tiny       a small model on the CPU: that the program works, no figure

Method, as in PaLM (Chowdhery et al. 2022, appendix B): a trained token costs 6 floating-point
operations for each weight that multiplies it (the embedding's do not) and 12 * layers * heads *
head size * sequence for attention, causal or not. What is computed again for activation
checkpointing does not count. Utilisation is that, times tokens per second, over the GPU's dense
bfloat16 peak without sparsity. The time is the median of the steps after warm-up, each with
forward, backward, clipping and update, and with the device synchronised.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "trainers"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from trainyard_trainers.llm.config import ModelConfig  # noqa: E402
from trainyard_trainers.llm.model import parameter_shapes  # noqa: E402
from trainyard_trainers.llm.tokens import write_shard  # noqa: E402
from trainyard_trainers.llm.train import Llm, LlmConfig  # noqa: E402
from trainyard_trainers.loop import Turn  # noqa: E402
from trainyard_trainers.parallel.backend import BuildConfig, ParallelConfig  # noqa: E402
from trainyard_trainers.parallel.torch_backend import process_group_backend  # noqa: E402

#: Dense bfloat16 operations a second, from NVIDIA's data sheets.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
BIG = ModelConfig(
    vocab_size=32768,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=18,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=4096,
    rope_theta=500000.0,
)
TINY = replace(
    BIG,
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)


def operations_a_token(model: ModelConfig, sequence: int) -> float:
    """Floating-point operations of one trained token."""
    sizes = {name: torch.Size(shape).numel() for name, shape in parameter_shapes(model).items()}
    weights = sum(sizes.values()) - (
        0 if model.tie_word_embeddings else sizes["model.embed_tokens.weight"]
    )
    return (
        6.0 * weights
        + 12.0 * model.num_hidden_layers * model.num_attention_heads * model.head_size * sequence
    )


def step_seconds(settings: LlmConfig, steps: int, warm: int) -> tuple[list[float], list[float]]:
    """Times and losses of the steps after `warm`."""
    task = Llm(settings)
    seconds, losses = [], []
    for _ in range(steps):
        began = time.perf_counter()
        losses.append(float(task.train_step(Turn([0.0] * 5, lambda: None)).loss))
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds[warm:], losses


def alone(settings: LlmConfig, steps: int, warm: int) -> tuple[list[float], list[float]]:
    """The steps of a group of one rank."""
    dist.init_process_group(
        process_group_backend(settings.parallel),
        store=torch._C._distributed_c10d.HashStore(),
        rank=0,
        world_size=1,
    )
    found = step_seconds(settings, steps, warm)
    dist.destroy_process_group()
    return found


def measure(tiny: bool, batch: int, micro_batch: int, checkpointing: bool) -> dict[str, Any]:
    model, sequence, steps, warm = (TINY, 64, 4, 1) if tiny else (BIG, 4096, 25, 10)
    with tempfile.TemporaryDirectory() as place:
        tokens = torch.randint(
            model.vocab_size, (4 * batch, sequence), generator=torch.Generator().manual_seed(0)
        ).tolist()
        write_shard(Path(place) / "random.tokens", tokens, model.vocab_size)
        settings = LlmConfig(
            steps=steps,
            data=place,
            sequence=sequence,
            batch=batch,
            micro_batch=micro_batch,
            packing="plain",
            warmup=5,
            model=model,
            build=BuildConfig("bf16", "none" if tiny else "inductor", checkpointing),
            # Fully sharded over one rank: weights are cast to bfloat16 once a block, not at every
            # use.
            parallel=ParallelConfig(device="cpu" if tiny else "cuda", data="fsdp"),
        )
        seconds, losses = alone(settings, steps, warm)
    a_second = batch * sequence / statistics.median(seconds)
    found = {
        "parameters": sum(torch.Size(shape).numel() for shape in parameter_shapes(model).values()),
        "sequence": sequence,
        "batch": batch,
        "microBatch": micro_batch,
        "tokensPerSecond": round(a_second, 1),
        "operationsAToken": operations_a_token(model, sequence),
        "firstAndLastLoss": [losses[0], losses[-1]],
    }
    if not tiny:
        device = torch.cuda.get_device_name()
        peak = next((peak for name, peak in PEAKS.items() if name in device), None)
        found |= {"device": device, "peak": peak, "memoryBytes": torch.cuda.max_memory_allocated()}
        if peak:
            found["utilisation"] = round(a_second * operations_a_token(model, sequence) / peak, 4)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--activation-checkpointing", action="store_true")
    given = parser.parse_args()
    if not given.tiny and not torch.cuda.is_available():
        print(
            "llm_gpu: no CUDA device: not measured (--tiny only shows that the program works)",
            file=sys.stderr,
        )
        return 3
    found = measure(given.tiny, given.batch, given.micro_batch, given.activation_checkpointing)
    print(json.dumps(found, indent=1))
    if not given.tiny:
        output = ROOT / "build" / "bench" / "llm_gpu.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
