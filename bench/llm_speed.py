"""Tokens per second of the llm trainer beside transformers' Trainer: the same model, data, batch and optimizer on 2 ranks of this machine.

    python bench/llm_speed.py            writes build/bench/llm_speed.json
    python bench/llm_speed.py --quick    fewer and shorter rounds

The jobs run one after the other in rounds, each with one thread a rank. A job's speed is the median over its steps after the first five; the
figure of a program is the median over the rounds, and so is its ratio to transformers in the same round. Both shuffle windows of the same
shards, and all tokens of a window see those before them: transformers has no mask between documents.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODEL = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4}
VOCABULARY, SEQUENCE, BATCH, LEARNING_RATE, WARM = 8192, 256, 8, 3e-4, 5
PORT = 29871
OURS = {"eager": [], "zero1": ["--parallel.data", "zero1"], "compiled": ["--build.compile", "inductor"]}


def trainyard(data: Path, run_dir: Path, steps: int, more: list[str]) -> list[float]:
    """Seconds between the ends of successive steps."""
    options = {"data": data, "steps": steps, "sequence": SEQUENCE, "batch": BATCH, "packing": "plain", "warmup": 10, "log-every": 1000}
    options |= {f"model.{name}": value for name, value in MODEL.items()}
    options |= {"optimizer.learning-rate": LEARNING_RATE}
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    torchrun(["-m", "trainyard_trainers.llm.train", *words, *more], {"TRAINYARD_RUN_DIR": str(run_dir)})
    lines = [json.loads(line) for line in (run_dir / "attempts" / "1" / "steps.jsonl").read_text().splitlines()]
    return differences([line["at"] for line in lines])


def trainer(data: Path, run_dir: Path, steps: int) -> list[float]:
    output = run_dir / "trainer.json"
    torchrun([__file__, "--as-trainer", str(data), str(output), str(steps)], {"ACCELERATE_USE_CPU": "true"})
    return differences(json.loads(output.read_text()))


def differences(times: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


def torchrun(program: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(PORT), *program]
    path = os.pathsep.join([str(ROOT / "trainers"), os.environ.get("PYTHONPATH", "")])
    always = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path, "TRAINYARD_CHECKPOINT_EVERY_STEPS": "1000000"}
    done = subprocess.run(command, env={**os.environ, **always, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}")


def as_trainer(data: Path, output: Path, steps: int) -> None:
    """One rank of transformers' Trainer."""
    import time

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    from trainyard_trainers import config
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
        times: list[float] = []

        def on_step_end(self, *_args: Any, **_more: Any) -> None:
            self.times.append(time.time())

    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**to_hf(config.build(ModelConfig, {**MODEL, "vocab_size": VOCABULARY}))))
    settings = TrainingArguments(
        output_dir=str(output.parent / "trainer"),
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
    Trainer(model=model, args=settings, train_dataset=Windows(), callbacks=[Clock]).train()
    if os.environ["RANK"] == "0":
        output.write_text(json.dumps(Clock.times))


def make_data(directory: Path, tokens: int) -> Path:
    """Random documents of 200 tokens."""
    import torch

    from trainyard_trainers.llm.tokens import write_shard

    directory.mkdir()
    numbers = torch.randint(VOCABULARY, (tokens // 200, 200), generator=torch.Generator().manual_seed(0)).tolist()
    write_shard(directory / "random.tokens", numbers, VOCABULARY)
    return directory


def measure(rounds: int, steps: int, programs: list[str]) -> dict[str, Any]:
    per_step = BATCH * SEQUENCE
    speeds: dict[str, list[float]] = {name: [] for name in ["transformers", *programs]}
    with tempfile.TemporaryDirectory() as place:
        data = make_data(Path(place) / "tokens", 2 * per_step * steps)
        for _ in range(rounds):
            for name, found in speeds.items():
                run_dir = Path(place) / "run"
                run_dir.mkdir()
                seconds = trainer(data, run_dir, steps) if name == "transformers" else trainyard(data, run_dir, steps, OURS[name])
                found.append(per_step / statistics.median(seconds[WARM:]))
                print(f"{name}: {found[-1]:.0f} tokens/s", flush=True)
                shutil.rmtree(run_dir)

    def times(name: str) -> float:
        """Within a round, so that a machine that becomes slower in between slows both."""
        return statistics.median(one / other for one, other in zip(speeds[name], speeds["transformers"], strict=True))

    middle = {name: statistics.median(found) for name, found in speeds.items()}
    return {
        "ranks": 2,
        "tokensAStep": per_step,
        "tokensPerSecond": {name: round(value, 1) for name, value in middle.items()},
        "rounds": {name: [round(value, 1) for value in found] for name, found in speeds.items()},
        "timesTransformers": {name: round(times(name), 3) for name in programs},
    }


def main() -> int:
    if sys.argv[1:2] == ["--as-trainer"]:
        as_trainer(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        return 0
    sys.path.insert(0, str(ROOT / "trainers"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--programs", default="eager,compiled", help=", ".join(OURS))
    given = parser.parse_args()
    found = measure(1 if given.quick else 5, 12 if given.quick else 20, given.programs.split(","))
    output = ROOT / "build" / "bench" / "llm_speed.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
