"""What programs save that know nothing of Trainyard, and a bundle that has them watched."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

from tests.support.agent import RUN

from trainyard_contracts.files import JobBundle
from trainyard_contracts.watching import WatchSpec


def archive(step: int, size: int = 3000) -> bytes:
    """Bytes as torch.save writes them: an archive that is not compressed; it says its step."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as into:
        into.writestr(zipfile.ZipInfo("archive/data.pkl"), f"step {step}")
        into.writestr(zipfile.ZipInfo("archive/data/0"), bytes([step % 251]) * size)
    return body.getvalue()


def step_of_archive(path: Path) -> int:
    """Raises zipfile.BadZipFile for one that is torn."""
    with zipfile.ZipFile(path) as found:
        assert found.testzip() is None
        return int(found.read("archive/data.pkl").split()[1])


def safetensors(value: float = 1.0) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<f", value)


def hugging_face(directory: Path, step: int, ranks: int = 2) -> Path:
    """A checkpoint of transformers' Trainer, all files in the order in which it writes them."""
    directory.mkdir(parents=True)
    names = [f"model-{number:05d}-of-00002.safetensors" for number in (1, 2)]
    for name in names:
        (directory / name).write_bytes(safetensors(step))
    index = {"metadata": {}, "weight_map": dict(zip("ab", names, strict=True))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    (directory / "merges.txt").write_text("a b\n")
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt"):
        (directory / name).write_bytes(archive(step))
    for rank in range(ranks):
        (directory / f"rng_state_{rank}.pth").write_bytes(archive(step))
    (directory / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return directory


def bundle(number: int = 1, keep: int = 3, *, ranks: int = 2, **watch: Any) -> JobBundle:
    return JobBundle(
        run_id=RUN,
        attempt=number,
        cluster_name="c",
        batch_script="",
        nodes=1,
        processes_per_node=ranks,
        program=["train.py"],
        checkpoint_keep=keep,
        checkpoint_watch=WatchSpec.model_validate({"pattern": "snapshot.pt", **watch}),
    )
