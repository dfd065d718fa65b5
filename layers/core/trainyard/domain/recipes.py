"""What is submitted to Slurm: a fixed batch script, and a bundle of the user's strings."""

from __future__ import annotations

from trainyard.domain.records import Attempt, Run
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.files import JobBundle

# One text for all recipes: what differs is data, and `launch` hands it to the recipe's own file
# in trainyard_trainers/launch/launchers.
# The agent replaces @PYTHON@, @LIBRARY@ and @ATTEMPT_DIR@ by absolute paths of its own node, which
# it has validated and quoted. No string of the user's is in this text: program, arguments,
# environment and files travel in bundle.json and job.json.
# --kill-on-bad-exit ends the whole step when a node's part fails, so that a dead peer is noticed in
# seconds. A part that ended well ends no other: the first rank may still write the final model when
# the others are done. --wait (a day) is the last resort for a step whose end srun misses; the agent
# ends such a job within seconds (node_agent/trainyard_agent/jobs/hollow_jobs.py).
# Slurm may choose a node that is still being set up: slurmd may run minutes before our script ends.
# The agent writes a node's line into hosts once the node's own agent is linked, which is the last
# step of setting up a node.
BATCH_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={run_id}-{attempt}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --open-mode=append
set -euo pipefail
unready() {{ scontrol show hostnames "$SLURM_JOB_NODELIST" | \
grep -vxFf <(cut -d' ' -f1 @ATTEMPT_DIR@/hosts) | head -n 8 || true; }}
said=
while left=$(unready) && [ -n "$left" ]; do
    if ((SECONDS >= {setup_seconds})); then
        echo "Nodes were not set up within {setup_seconds} s:" $left
        exit 1
    fi
    [ "$left" = "$said" ] || echo "Waiting for nodes that are still being set up:" $left
    said=$left
    sleep 0.2
done
export PYTHONPATH=@LIBRARY@
exec srun --kill-on-bad-exit=1 --wait=86400 --cpu-bind=none --mem=0 --export=ALL \
@PYTHON@ -m trainyard_trainers.launch @ATTEMPT_DIR@
"""

#: How long a job waits for a node that is still being set up: a lifecycle script takes minutes.
SETUP_SECONDS = 1800


def batch_script(run_id: str, attempt: int, nodes: int) -> str:
    """Render the sbatch file; only our own id and two numbers go in."""
    return BATCH_SCRIPT.format(
        run_id=run_id, attempt=int(attempt), nodes=int(nodes), setup_seconds=SETUP_SECONDS
    )


def _partition(run: Run, cluster: ClusterSpec | None) -> str | None:
    """Always one of the workers' own: a cluster's default partition may hold login nodes too."""
    only = cluster.partitions if cluster is not None and len(cluster.partitions) == 1 else [None]
    return run.spec.job.partition or only[0]


def job_bundle(run: Run, attempt: Attempt, cluster: ClusterSpec | None = None) -> JobBundle:
    """Everything the agent needs to submit this attempt, and nothing that a shell would read."""
    types = cluster.instance_types(_partition(run, cluster)) if cluster is not None else set()
    job, checkpoint = run.spec.job, run.spec.checkpoint
    program = ["-m", job.module] if job.module is not None else [str(job.script)]
    return JobBundle(
        run_id=run.id,
        attempt=attempt.number,
        cluster_name=run.cluster_name,
        batch_script=batch_script(run.id, attempt.number, job.nodes),
        nodes=job.nodes,
        processes_per_node=job.processes_per_node,
        partition=_partition(run, cluster),
        program=program,
        recipe=job.recipe,
        instance_type=types.pop() if len(types) == 1 else None,
        python_environment=job.python_environment,
        precompile=job.precompile,
        arguments=list(job.arguments),
        environment=dict(job.environment),
        files=dict(job.files),
        checkpoint_directory=checkpoint.directory,
        checkpoint_every_seconds=checkpoint.every_seconds,
        checkpoint_every_steps=checkpoint.every_steps,
        seconds_between_failures=checkpoint.seconds_between_failures,
        checkpoint_keep=checkpoint.keep,
        exclude_nodes=list(attempt.exclude),
        down_nodes=list(attempt.down),
    )
