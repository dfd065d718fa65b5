"""What a checkpoint costs its step, against `torch.save`: `python -m bench.checkpoint_stall`.

One model (llm, 50 M parameters), 2 ranks on the CPU, both ways in turn. The stall is what the step
with the save takes longer than the median step; the slowdown is what all steps until the next save
take longer together, because the writing process shares the cores with training.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.figures import machine, median, rounded
from bench.llm_jobs import MODEL_50M, arguments, make_tokens, torchrun

ROOT = Path(__file__).resolve().parents[1]
GOAL = 0.05
PROGRAMS = {
    "plain": ["-m", "bench.checkpoint_stall", "--one-rank"],
    "beside": ["-m", "trainyard_trainers.llm.train"],
}


def plain_program(argv: list[str]) -> int:
    """One rank of the reference: the same trainer, which saves as tutorials do.

    The first rank calls torch.save and the others wait.
    """
    import torch
    import torch.distributed as dist

    from trainyard_trainers import loop
    from trainyard_trainers.common import config
    from trainyard_trainers.llm.train import Llm, LlmConfig
    from trainyard_trainers.loop import StepResult, Turn

    every, path = int(os.environ["BENCH_EVERY"]), Path(os.environ["TRAINYARD_RUN_DIR"]) / "plain.pt"

    class Plain(Llm):
        def train_step(self, turn: Turn) -> StepResult:
            if self.step and self.step % every == 0:
                state = dict(self.files())
                if dist.get_rank() == 0:
                    torch.save(state, path)
                dist.barrier()
            return super().train_step(turn)

    settings = config.parse(LlmConfig, argv)
    return loop.main(lambda: Plain(settings), settings)


def measure(lines: list[dict[str, Any]], every: int) -> list[dict[str, float]]:
    """Stall and slowdown in seconds for each save.

    The first steps allocate, and the last save is waited for: they do not count.
    """
    seconds = {after["step"]: after["at"] - before["at"] for before, after in pairwise(lines)}
    saves = range(every, max(seconds) - every, every)
    quiet = median(
        [value for step, value in seconds.items() if step > 4 and (step - 1) % every >= every // 2]
    )
    assert quiet is not None
    return [
        {
            "stepSeconds": quiet,
            "stallSeconds": seconds[save + 1] - quiet,
            "slowdownSeconds": sum(seconds[step] - quiet for step in range(save + 1, save + every)),
        }
        for save in saves
    ]


def one_way(
    how: str, words: list[str], run_dir: Path, every: int
) -> tuple[list[dict[str, float]], int]:
    """The saves of one job, and the bytes of its newest checkpoint."""
    environment = {
        "TRAINYARD_CHECKPOINT_EVERY_STEPS": str(every if how == "beside" else 10**6),
        "TRAINYARD_CHECKPOINT_KEEP": "2",
        "BENCH_EVERY": str(every),
    }
    saves = measure(torchrun([*PROGRAMS[how], *words], run_dir, environment), every)
    newest = max((run_dir / "checkpoints").glob("step-*"))
    saved = sum(path.stat().st_size for path in newest.rglob("*"))
    shutil.rmtree(run_dir)
    return saves, saved


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoint_stall", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--every", type=int, default=14)
    parser.add_argument("--saves", type=int, default=4)
    options = parser.parse_args(argv)
    state = ROOT / "build/bench/checkpoint_stall"
    shutil.rmtree(state, ignore_errors=True)
    data = make_tokens(state / "tokens", 200_000)
    words = arguments(data, options.every * (options.saves + 1) + 2, 64, 4, MODEL_50M)
    found: dict[str, list[dict[str, float]]] = {how: [] for how in PROGRAMS}
    saved = 0
    for number in range(options.rounds):
        for how in PROGRAMS:
            saves, saved = one_way(how, words, state / f"{how}-{number}", options.every)
            found[how] += saves
            line = {"round": number + 1, "how": how, "saves": found[how][-options.saves :]}
            print(json.dumps(line), flush=True)
    medians = {
        how: {key: rounded(median([save[key] for save in saves])) for key in saves[0]}
        for how, saves in found.items()
    }
    share = (medians["beside"]["stallSeconds"] or 0) / (medians["plain"]["stallSeconds"] or 1)
    document = {
        "goal": GOAL,
        "share": rounded(share),
        "checkpointBytes": saved,
        **medians,
        "machine": machine(),
    }
    (ROOT / "build/bench/checkpoint_stall.json").write_text(json.dumps(document, indent=1))
    print(json.dumps(document, indent=1))
    print(
        f"A save stalls its step for {share:.1%} of what torch.save in the loop does; "
        f"the goal of {GOAL:.0%} is {'' if share <= GOAL else 'not '}reached"
    )
    return 0


if __name__ == "__main__":
    sys.exit(plain_program(sys.argv[2:]) if sys.argv[1:2] == ["--one-rank"] else main())
