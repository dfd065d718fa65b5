"""Turns a new instance into a Trainyard node; says which step failed, why, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import node_facts
import step_accounts
import step_environment
import step_install
import step_mounts
import step_network
import step_slurm
from node import Node, StepFailed, say

STEPS: list[tuple[str, Callable[[Node], None]]] = [
    ("network", step_network.names),
    ("shared filesystem", step_mounts.shared_filesystem),
    ("users", step_accounts.users),
    ("bucket mounts", step_mounts.buckets),
    ("job environment", step_environment.job_environment),
    ("agent", step_install.agent),
    ("cluster key", step_install.cluster_key),
    ("agent configuration", step_install.configuration),
    ("slurm hooks", step_slurm.hooks),
]


def run(
    load: Callable[[], Node],
    steps: Sequence[tuple[str, Callable[[Node], None]]] = STEPS,
    name: str = "resource config",
) -> int:
    """Run every step in order; 0, or 1 after saying which step failed.

    `name`: of what `load` reads.
    """
    try:
        node = load()
        me = node.identity
        say(
            f"node {me.node_name} ({me.instance_id}, group {me.group}): "
            f"{me.role} of cluster {node.cluster['clusterName']}"
        )
        for number, (name, step) in enumerate(steps, start=1):
            say(f"step {number}/{len(steps)} {name}")
            step(node)
    except StepFailed as failed:
        say(f"FAILED in step '{name}': {failed}")
        return 1
    except (OSError, KeyError, TypeError, ValueError) as error:
        say(f"FAILED in step '{name}': {type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    node_facts.tell_found()
    sys.exit(run(Node.load))
