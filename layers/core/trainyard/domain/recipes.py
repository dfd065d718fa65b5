"""What is submitted to Slurm: a fixed batch script, and a bundle of the user's strings."""

from __future__ import annotations

from trainyard.domain.records import Attempt, Run
from trainyard_contracts import places
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.files import (
    BundleCode,
    BundleGit,
    BundleImage,
    BundleInput,
    BundleStart,
    JobBundle,
    SyncOrder,
)
from trainyard_contracts.inputs import InputSpec, RunOutputs, S3Prefix, is_s3
from trainyard_contracts.watching import ProgressSource

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
"""
_SRUN = "exec srun --kill-on-bad-exit=1 --wait=86400 --cpu-bind=none --mem=0 --export=ALL "
_ON_NODES = f"""\
export PYTHONPATH=@LIBRARY@
{_SRUN}@PYTHON@ -m trainyard_trainers.launch @ATTEMPT_DIR@
"""
# The image's file and the mounts are read from files: bash expands them as data.
# Enroot's hook for NVIDIA devices fails on nodes without them, and gives none to an image that does
# not ask. Devices of EFA and Neuron are there only while /dev is the node's.
_IN_IMAGE = f"""\
@LIBRARY@/../bin/trainyard-agent prepare-image @ATTEMPT_DIR@
if [ -e /dev/nvidiactl ]; then
    export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
else
    export NVIDIA_VISIBLE_DEVICES=void
fi
export ENROOT_RESTRICT_DEV=no
{_SRUN}--container-image="$(<@ATTEMPT_DIR@/{places.IMAGE})" \
--container-mounts="$(<@ATTEMPT_DIR@/{places.IMAGE_MOUNTS})" --container-workdir=@ATTEMPT_DIR@ \
--container-writable --no-container-mount-home --no-container-entrypoint \
python3 @LIBRARY@/trainyard_trainers/launch/in_image.py @ATTEMPT_DIR@
"""

#: How long a job waits for a node that is still being set up: a lifecycle script takes minutes.
SETUP_SECONDS = 1800


def batch_script(run_id: str, attempt: int, nodes: int, in_image: bool = False) -> str:
    """Render the sbatch file; only our own id and two numbers go in."""
    begin = BATCH_SCRIPT.format(
        run_id=run_id, attempt=int(attempt), nodes=int(nodes), setup_seconds=SETUP_SECONDS
    )
    return begin + (_IN_IMAGE if in_image else _ON_NODES)


def _partition(run: Run, cluster: ClusterSpec | None) -> str | None:
    """Always one of the workers' own: a cluster's default partition may hold login nodes too."""
    only = cluster.partitions if cluster is not None and len(cluster.partitions) == 1 else [None]
    return run.spec.job.partition or only[0]


def _code(run: Run) -> BundleCode | None:
    if run.code is None:
        return None
    return BundleCode(tree=run.code.tree, prefix=places.code_prefix(run.prefix))


def _image(run: Run, cluster: ClusterSpec | None) -> BundleImage | None:
    if run.spec.job.image is None:
        return None
    mounts = cluster.mount_paths() if cluster is not None else []
    return BundleImage(name=run.spec.job.image, digest=run.image_digest, mounts=mounts)


def _git(run: Run) -> BundleGit | None:
    """What is to be fetched; nothing once its commit is known."""
    git = run.spec.job.git
    if git is None or run.code is not None:
        return None
    return BundleGit(
        url=git.url,
        ref=git.ref,
        path=git.path,
        secret=git.secret,
        known_hosts=list(git.known_hosts),
        ca_certificate=git.ca_certificate,
        prefix=places.fetched_prefix(run.prefix),
    )


def _input(run: Run, one: InputSpec, cluster: ClusterSpec | None) -> BundleInput:
    if RunOutputs.of(one.source) is not None:
        return BundleInput(path=one.path, source=run.outputs_at[one.source])
    if not is_s3(one.source):
        code = BundleCode(tree=run.data[one.source].tree, prefix=places.code_prefix(run.prefix))
        return BundleInput(path=one.path, code=code)
    source = S3Prefix.of(one.source)
    if one.mode == "mount" and cluster is not None:
        return BundleInput(path=one.path, mounted=cluster.mounted(source) or "")
    return BundleInput(path=one.path, source=str(source))


def _sync(run: Run) -> SyncOrder | None:
    asked = run.spec.export
    if asked.every_seconds is None:
        return None
    return SyncOrder(
        every_seconds=asked.every_seconds,
        checkpoints=asked.checkpoints != "none",
        prefix=run.sync_prefix,
    )


def needs(run: Run) -> str:
    """What an agent must know for this run, as the option of `submit` names it."""
    asked = {
        "watch": run.spec.checkpoint.watch is not None,
        "progress": isinstance(run.spec.progress, ProgressSource),
        "image": run.spec.job.image is not None,
        "start": run.start_from is not None,
        "inputs": bool(run.spec.inputs),
        "sync": run.spec.export.every_seconds is not None,
        "hyperparameters": run.spec.job.hyperparameters is not None,
    }
    return ",".join(name for name, needed in asked.items() if needed)


def job_bundle(run: Run, attempt: Attempt, cluster: ClusterSpec | None = None) -> JobBundle:
    """Everything the agent needs to submit this attempt, and nothing that a shell would read."""
    types = cluster.instance_types(_partition(run, cluster)) if cluster is not None else set()
    job, checkpoint = run.spec.job, run.spec.checkpoint
    program = ["-m", job.module] if job.module is not None else [str(job.script)]
    return JobBundle(
        run_id=run.id,
        attempt=attempt.number,
        cluster_name=run.cluster_name,
        batch_script=batch_script(run.id, attempt.number, job.nodes, job.image is not None),
        nodes=job.nodes,
        processes_per_node=job.processes_per_node,
        partition=_partition(run, cluster),
        program=program,
        recipe=job.recipe,
        instance_type=types.pop() if len(types) == 1 else None,
        python_environment=job.python_environment,
        precompile=job.precompile,
        arguments=list(job.arguments),
        hyperparameters=job.hyperparameters,
        environment=dict(job.environment),
        secrets=dict(job.secrets),
        files=dict(job.files),
        code=_code(run),
        image=_image(run, cluster),
        git=_git(run),
        inputs=[_input(run, one, cluster) for one in run.spec.inputs],
        checkpoint_directory=checkpoint.directory,
        checkpoint_every_seconds=checkpoint.every_seconds,
        checkpoint_every_steps=checkpoint.every_steps,
        seconds_between_failures=checkpoint.seconds_between_failures,
        checkpoint_keep=checkpoint.keep,
        checkpoint_watch=checkpoint.watch,
        start_from=BundleStart(**run.start_from.model_dump()) if run.start_from else None,
        sync=_sync(run),
        progress=run.spec.progress,
        exclude_nodes=list(attempt.exclude),
        down_nodes=list(attempt.down),
    )
