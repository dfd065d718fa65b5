"""Tokens per second of the llm trainer beside transformers' Trainer.

Both train the same model with the same data, batch and optimizer on 2 ranks of this machine.

    python -m bench.llm_speed            writes build/bench/llm_speed.json
    python -m bench.llm_speed --quick    fewer rounds

All jobs are started, with one thread a rank, and take turns of some steps while the others are
paused, so that a host that slows down for minutes slows all of them. A round is one turn of each. A
program's figure is the median over all its steps; its ratio to transformers is the median over the
rounds of the ratio of their medians. Both shuffle windows of the same shards, and all tokens of a
window see those before them: transformers has no mask between documents.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.turns import Job

ROOT = Path(__file__).resolve().parents[1]
#: About 25 million parameters each. With a small vocabulary most are in the layers, with Llama 2's
#: half are in the (tied) embedding.
MODELS: dict[str, dict[str, Any]] = {
    "8k": {
        "vocab_size": 8192,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    "32k": {
        "vocab_size": 32000,
        "hidden_size": 384,
        "intermediate_size": 1024,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "num_key_value_heads": 6,
        "tie_word_embeddings": True,
    },
}
SEQUENCE, BATCH, LEARNING_RATE, WARM, TURN = 256, 8, 3e-4, 5, 3
PORT = 29871
REFERENCE = "transformers"
OURS = {
    "eager": [],
    "zero1": ["--parallel.data", "zero1"],
    "compiled": ["--build.compile", "inductor"],
}


def job(name: str, model: dict[str, Any], data: Path, place: Path, steps: int, port: int) -> Job:
    """Start a program: transformers' Trainer, or ours with one of the ways of `OURS`."""
    place.mkdir()
    path = os.pathsep.join([str(ROOT), str(ROOT / "trainers"), os.environ.get("PYTHONPATH", "")])
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path}
    if name == REFERENCE:
        ends = place / "ends"
        argv = [
            "-m",
            "bench.llm_speed",
            "--as-trainer",
            str(data),
            str(ends),
            str(steps),
            json.dumps(model),
        ]
        return _started(
            name, argv, {**environment, "ACCELERATE_USE_CPU": "true"}, ends, place / "log", port
        )
    words = _words(model, data, steps)
    environment |= {"TRAINYARD_RUN_DIR": str(place), "TRAINYARD_CHECKPOINT_EVERY_STEPS": "1000000"}
    ends = place / "attempts" / "1" / "steps.jsonl"
    return _started(
        name,
        ["-m", "trainyard_trainers.llm.train", *words, *OURS[name]],
        environment,
        ends,
        place / "log",
        port,
    )


def _words(model: dict[str, Any], data: Path, steps: int) -> list[str]:
    """Options of our trainer."""
    options = {
        "data": data,
        "steps": steps,
        "sequence": SEQUENCE,
        "batch": BATCH,
        "packing": "plain",
        "warmup": 10,
        "log-every": 1000,
        **{f"model.{key}": value for key, value in model.items()},
        "optimizer.learning-rate": LEARNING_RATE,
    }
    return [
        word
        for key, value in options.items()
        for word in (f"--{key.replace('_', '-')}", str(value))
    ]


def _started(
    name: str, argv: list[str], environment: dict[str, str], ends: Path, log: Path, port: int
) -> Job:
    def times() -> list[float]:
        """Of whole lines: {"at": seconds} or seconds."""
        lines = ends.read_text().split("\n")[:-1] if ends.exists() else []
        found = [json.loads(line) for line in lines]
        return [one["at"] if isinstance(one, dict) else one for one in found]

    return Job(name, [sys.executable, *argv], environment, times, log=log, port=port)


def as_trainer(data: Path, ends: Path, steps: int, shape: dict[str, Any]) -> None:
    """One rank of transformers' Trainer."""
    import time

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback

    from trainyard_trainers.common import config
    from trainyard_trainers.llm.config import ModelConfig, to_hf
    from trainyard_trainers.llm.packing import PackedData

    windows = PackedData(data, SEQUENCE, "plain")

    class Windows(torch.utils.data.Dataset[dict[str, Any]]):
        def __len__(self) -> int:
            return len(windows)

        def __getitem__(self, number: int) -> dict[str, Any]:
            tokens = windows.batch(torch.tensor([number])).tokens[0]
            return {"input_ids": tokens, "labels": tokens}

    class Clock(TrainerCallback):  # type: ignore[misc]  # Any where transformers has no types
        def on_step_end(self, *_args: Any, **_more: Any) -> None:
            if os.environ["RANK"] == "0":
                with ends.open("a") as lines:
                    lines.write(f"{time.time()}\n")

    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**to_hf(config.build(ModelConfig, shape))))
    settings = _trainer_settings(ends.parent / "trainer", steps)
    Trainer(model=model, args=settings, train_dataset=Windows(), callbacks=[Clock]).train()


def _trainer_settings(place: Path, steps: int) -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=str(place),
        max_steps=steps,
        per_device_train_batch_size=BATCH // int(os.environ["WORLD_SIZE"]),
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        weight_decay=0.1,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        use_cpu=True,
        ddp_backend="gloo",
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )


def make_data(directory: Path, tokens: int, vocabulary: int) -> Path:
    """Random documents of 200 tokens."""
    import torch

    from trainyard_trainers.llm.tokens import write_shard

    directory.mkdir()
    numbers = torch.randint(
        vocabulary, (tokens // 200, 200), generator=torch.Generator().manual_seed(0)
    ).tolist()
    write_shard(directory / "random.tokens", numbers, vocabulary)
    return directory


def measure(model: dict[str, Any], rounds: int, programs: list[str]) -> dict[str, Any]:
    per_step = BATCH * SEQUENCE
    steps = 2 * (WARM + (rounds + 1) * (TURN + 2))  # more than will be taken: no job ends by itself
    seconds: dict[str, list[list[float]]] = {name: [] for name in [REFERENCE, *programs]}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        data = make_data(Path(place) / "tokens", 2 * per_step * steps, model["vocab_size"])
        jobs = {}
        for number, name in enumerate(
            seconds
        ):  # one after the other, so that none is compiled while another counts
            jobs[name] = stack.enter_context(
                job(name, model, data, Path(place) / name, steps, PORT + number)
            )
            jobs[name].turn(WARM)
        for _ in range(rounds):
            for name, found in seconds.items():
                found.append(jobs[name].turn(TURN))
                print(f"{name}: {per_step / statistics.median(found[-1]):.0f} tokens/s", flush=True)

    def middle(name: str) -> list[float]:
        return [per_step / statistics.median(turn) for turn in seconds[name]]

    def times(name: str) -> list[float]:
        return [one / other for one, other in zip(middle(name), middle(REFERENCE), strict=True)]

    return {
        "ranks": 2,
        "tokensAStep": per_step,
        "tokensPerSecond": {
            name: round(per_step / statistics.median(itertools.chain(*found)), 1)
            for name, found in seconds.items()
        },
        "rounds": {name: [round(value, 1) for value in middle(name)] for name in seconds},
        "ratios": {name: [round(value, 3) for value in times(name)] for name in programs},
        "timesTransformers": {name: round(statistics.median(times(name)), 3) for name in programs},
    }


def main() -> int:
    if sys.argv[1:2] == ["--as-trainer"]:
        as_trainer(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))
        return 0
    sys.path.insert(0, str(ROOT / "trainers"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--programs", default="eager,compiled", help=", ".join(OURS))
    parser.add_argument("--models", default="8k,32k", help=", ".join(MODELS))
    given = parser.parse_args()
    found = {}
    for name in given.models.split(","):
        print(f"vocabulary of {name}:", flush=True)
        found[name] = measure(MODELS[name], 3 if given.quick else 12, given.programs.split(","))
    output = ROOT / "build" / "bench" / "llm_speed.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
