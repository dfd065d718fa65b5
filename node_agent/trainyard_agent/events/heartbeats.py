"""Splits the samples of all nodes into heartbeats that are small enough for EventBridge.

A cluster may have any number of nodes and devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainyard_contracts.heartbeats import MOST_EVENT_BYTES, NodeSample, RunSample

#: Ids, times and names of the event itself.
_ENVELOPE_BYTES = 4096


def portions(samples: Sequence[NodeSample], runs: Sequence[RunSample]) -> list[list[NodeSample]]:
    """The samples in order, in as many lists as it takes; always one at least.

    Every heartbeat carries all of `runs`.
    """
    room = MOST_EVENT_BYTES - _ENVELOPE_BYTES - sum(map(_encoded_bytes, runs))
    found: list[list[NodeSample]] = [[]]
    filled = 0
    for sample in samples:
        size = _encoded_bytes(sample)
        if found[-1] and filled + size > room:
            found.append([])
            filled = 0
        found[-1].append(sample)
        filled += size
    return found


def _encoded_bytes(sample: NodeSample | RunSample) -> int:
    """With the comma after it; names are ASCII, but what a driver reports need not be."""
    return len(sample.model_dump_json(by_alias=True).encode()) + 1
