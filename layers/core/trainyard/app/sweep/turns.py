"""Each minute: turns on shared clusters whose giving was lost."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.app.runs.give_turns import give_turns
from trainyard.app.sweep.swept import Swept
from trainyard.domain.records import Cluster
from trainyard.ports import Ports


def turns_step(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """Where nobody has or wants a turn, only the record is read."""
    if cluster.status != "Ready":
        return
    before = ports.turns.get(cluster.name)
    if not before.given and not before.held:
        return
    after = give_turns(ports, cluster.name)
    new = sorted((after.given.keys() if after else set()) - before.given.keys())
    if new:
        yield Swept("turn", cluster.name, f"given to {', '.join(new)}")
