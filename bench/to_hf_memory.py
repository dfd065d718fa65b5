"""Measures the memory of `trainyard-trainers to-hf`.

The goal is the size of one output file plus 200 MB.

    python -m bench.to_hf_memory [--megabytes 2000] [--shard 500] [--tp 2] [--xser]

The check of the logits is left out, because it needs the model in memory twice by its nature.
Writes build/bench/to_hf_memory.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from bench.figures import machine

from trainyard_trainers.llm.config import ModelConfig, to_hf
from trainyard_trainers.llm.model import parameter_shapes
from trainyard_trainers.parallel import nxd_layout
from trainyard_trainers.parallel.partition import tp_dim

OUT = Path("build/bench/to_hf_memory.json")
_CONVERT = """
import json, sys
from pathlib import Path
from trainyard_trainers.llm import convert

def status(name):
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

before = status("VmRSS")
convert.to_hf(Path(sys.argv[1]), Path(sys.argv[2]), shard_bytes=int(sys.argv[3]), check="never")
print(json.dumps({"beforeBytes": before, "peakBytes": status("VmHWM")}))
"""


def model_of(megabytes: int) -> ModelConfig:
    """A float32 model of at least this size: as many layers as it takes."""
    layer = sum(
        torch.Size(shape).numel()
        for name, shape in parameter_shapes(ModelConfig(256, 1024, 4096, 1, 8)).items()
        if "layers" in name
    )
    return ModelConfig(256, 1024, 4096, max(1, -(-megabytes * 10**6 // (4 * layer))), 8)


def parts(model: ModelConfig, tp: int, xser: bool) -> Iterator[tuple[str, object]]:
    """The files of all ranks; a rank's weights are made when its turn comes."""
    for rank in range(tp):
        weights = {}
        for name, shape in parameter_shapes(model).items():
            dim = tp_dim(name)
            weights[name] = torch.full(
                [length // tp if place == dim else length for place, length in enumerate(shape)],
                0.5,
            )
        place = nxd_layout.Ranks(0, 1, rank, tp)
        yield from nxd_layout.iter_files(
            "step_1", place, model=weights, user_content={"config": to_hf(model)}, xser=xser
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--shard", type=int, default=500, help="megabytes of an output file")
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--xser", action="store_true")
    words = parser.parse_args()
    model = model_of(words.megabytes)
    with tempfile.TemporaryDirectory() as directory:
        source = nxd_layout.write(Path(directory), "step_1", parts(model, words.tp, words.xser))
        command = [
            sys.executable,
            "-c",
            _CONVERT,
            str(source),
            str(Path(directory) / "hf"),
            str(words.shard * 10**6),
        ]
        began = time.perf_counter()
        measured = json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        )
        seconds = time.perf_counter() - began
    size = 4 * sum(torch.Size(shape).numel() for shape in parameter_shapes(model).values())
    growth = measured["peakBytes"] - measured["beforeBytes"]
    found = {
        "modelBytes": size,
        "shardBytes": words.shard * 10**6,
        "tensorParallelRanks": words.tp,
        "xser": words.xser,
        **measured,
        "growthBytes": growth,
        "goalBytes": words.shard * 10**6 + 200 * 10**6,
        "reached": growth <= words.shard * 10**6 + 200 * 10**6,
        "seconds": round(seconds, 1),
        "machine": machine(),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
