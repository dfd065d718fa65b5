"""Our settings of Slurm, in the configuration: ParallelCluster owns slurm.conf and writes it anew.

They are those that let a job come back at once after a lost node (decision 12). ParallelCluster
refuses `Epilog`; it has one of its own, which does as well.
"""

from __future__ import annotations

from typing import Any

from trainyard_contracts.parallelcluster import ParallelClusterSpec

#: The agent's hooks at a job's begin and end, which our script puts there (node_agent/lifecycle).
JOB_BEGIN, JOB_END = "/opt/trainyard/bin/slurm-job-begin", "/opt/trainyard/bin/slurm-job-end"
#: With more nodes than this Slurm's timeouts are longer, as on HyperPod.
LARGE_CLUSTER_NODES = 16


def custom_settings(spec: ParallelClusterSpec, *, with_hook: bool) -> list[dict[str, Any]]:
    """Entries of CustomSlurmSettings. `with_hook`: our script runs on the head node."""
    large = sum(queue.max for queue in spec.queues) > LARGE_CLUSTER_NODES
    settings: dict[str, Any] = {
        "MessageTimeout": 10 if large else 2,
        "TCPTimeout": 5 if large else 1,
        "UnkillableStepTimeout": 60,
        "CompleteWait": 0,
        # The first is ParallelCluster's own, which ours would replace.
        "SchedulerParameters": "nohold_on_prolog_fail,batch_sched_delay=0",
    }
    if with_hook:
        settings |= {"PrologSlurmctld": JOB_BEGIN, "EpilogSlurmctld": JOB_END}
    return [{name: value} for name, value in settings.items()]
