"""Recipe `torchrun`: torchrun's agent on every node, with a rendezvous of the attempt's own."""

from __future__ import annotations

from ...common.failure import Failure
from ..allocation import Allocation


def run(allocation: Allocation) -> Failure:
    """Run this node's workers to their end."""
    from .. import elastic  # here, so that a plain program never pays for it

    return elastic.run(elastic.Placement.of(allocation), allocation.job.command())
