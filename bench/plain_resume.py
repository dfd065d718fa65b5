"""The reference for a resume: one process imports torch, loads by torch.load, and steps once.

python -m bench.plain_resume save|resume FILE
"""

from __future__ import annotations

import sys

import torch
from bench.llm_jobs import model_50m

from trainyard_trainers.llm.model import Llama
from trainyard_trainers.parallel.layers import PlainLayers


def main(how: str, path: str) -> None:
    torch.set_num_threads(1)
    model = Llama(model_50m(), PlainLayers())
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    if how == "resume":
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    tokens = torch.zeros(1, 16, dtype=torch.int64)
    model(tokens, tokens).backward()
    optimizer.step()
    if how == "save":
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
