"""GPU memory: uncorrected ECC errors and row remaps that wait for a reset or failed."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 30.0, 1


@dataclass(frozen=True)
class Gpu:
    index: int
    uncorrected: int
    remap_pending: bool
    remap_failed: bool


@dataclass(frozen=True)
class Reading:
    gpus: tuple[Gpu, ...]


def read(node: Node) -> Reading | None:
    if node.accelerators.nvidia is None:
        return None
    return Reading(tuple(Gpu(*values) for values in node.accelerators.nvidia.ecc()))


def judge(reading: Reading) -> Verdict:
    for gpu in reading.gpus:
        if gpu.remap_failed:
            return Verdict(
                "error", f"GPU {gpu.index}: a row remap failed; the GPU must be replaced"
            )
    for gpu in reading.gpus:
        if gpu.uncorrected:
            return Verdict(
                "error",
                f"GPU {gpu.index}: {gpu.uncorrected} uncorrected ECC errors "
                "since the driver started",
            )
    for gpu in reading.gpus:
        if gpu.remap_pending:
            return Verdict("warning", f"GPU {gpu.index}: a row remap waits for a reset")
    return Verdict("healthy", f"{len(reading.gpus)} GPUs without uncorrected errors")
