"""Each minute: arrays whose members lost their ends or were never made go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.app.runs.advance_array import advance_array
from trainyard.app.sweep.swept import Swept
from trainyard.domain.array_records import RunArray
from trainyard.domain.arrays import summary
from trainyard.ports import Ports


def active_arrays(ports: Ports) -> Sequence[RunArray]:
    return ports.arrays.active()


def array_step(ports: Ports, array: RunArray) -> Iterator[Swept]:
    after = advance_array(ports, array.id)
    if after.version != array.version:
        yield Swept("array", array.id, summary(after))
