"""Lays out an attempt's directory from its bundle: everything that the job will read.

No string of the user's is in the script.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.slurm_names import as_argument
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs import gres, images, work
from trainyard_agent.jobs.powered_down import not_needed
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.base import relative_path
from trainyard_contracts.job_bundle import JobBundle

NODE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9.-]{0,254}$")
_PARTITION = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")


class BadBundle(ValueError):
    """The bundle is not the one that was asked for, or a path in it leaves its directory."""


def parse_bundle(body: bytes, run_id: str, attempt: int, cluster_name: str) -> JobBundle:
    """Raises BadBundle (also for pydantic's errors, in one line)."""
    try:
        bundle = JobBundle.model_validate_json(body)
    except ValueError as error:
        raise BadBundle(f"the bundle is malformed: {str(error)[:500]}") from error
    if (bundle.run_id, bundle.attempt) != (run_id, attempt):
        raise BadBundle(
            f"the bundle is of {bundle.run_id} attempt {bundle.attempt}, "
            f"not of {run_id} attempt {attempt}"
        )
    if bundle.cluster_name != cluster_name:
        raise BadBundle(
            f"the bundle is for cluster {bundle.cluster_name!r}, this is {cluster_name!r}"
        )
    for node in [*bundle.exclude_nodes, *bundle.down_nodes]:
        if not NODE_NAME.fullmatch(node):
            raise BadBundle(f"{node!r} is not a node's name")
    if bundle.partition is not None and not _PARTITION.fullmatch(bundle.partition):
        raise BadBundle(f"{bundle.partition!r} is not a partition's name")
    try:
        relative_path(bundle.checkpoint_directory)
        for path in [*bundle.files, *(i.path for i in bundle.inputs if i.path[:1] != "/")]:
            relative_path(path)
    except ValueError as error:
        raise BadBundle(f"the bundle names a path that leaves its root: {error}") from error
    return bundle


def write_attempt(
    directory: Path, bundle: JobBundle, config: AgentConfig, hosts: Mapping[str, str]
) -> Path:
    """Write everything, again and again with the same result; returns the batch script's path.

    What a program changed in the working directory stays as it is. Raises OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    work.lay_out(directory.parents[1], bundle)
    document = bundle.model_dump_json(by_alias=True, indent=1).encode()
    replace_file(directory / places.BUNDLE, document)
    launch = {
        name: value
        for name, value in json.loads(document).items()
        if name not in ("batchScript", "files")
    }
    launch["region"] = config.region
    replace_file(directory / places.JOB, json.dumps(launch, indent=1).encode())
    images.write_places(directory, bundle, config)
    write_hosts(directory, hosts)
    script = directory / "job.sbatch"
    replace_file(script, render(bundle.batch_script, config, directory).encode())
    return script


def write_hosts(directory: Path, hosts: Mapping[str, str]) -> None:
    """The addresses of the nodes that are set up, by Slurm name.

    The job starts once all of its own are here. Raises OSError.
    """
    replace_file(
        directory / places.HOSTS,
        "".join(f"{name} {address}\n" for name, address in sorted(hosts.items())).encode(),
    )


def render(script: str, config: AgentConfig, directory: Path) -> str:
    """Put this node's own paths, quoted, into the fixed text."""
    values = {
        "@PYTHON@": config.python,
        "@LIBRARY@": config.library_dir,
        "@ATTEMPT_DIR@": str(directory),
    }
    for mark, value in values.items():
        script = script.replace(mark, shlex.quote(value))
    return script


def job_marks(bundle: JobBundle) -> dict[str, str]:
    """Variables by which what is left of a job is found on its nodes.

    The launcher makes all others from job.json, past every shell.
    """
    return {"TRAINYARD_RUN_ID": bundle.run_id, "TRAINYARD_ATTEMPT": str(bundle.attempt)}


def sbatch_options(
    bundle: JobBundle,
    directory: Path,
    known: Mapping[str, SlurmNode],
    unready: Collection[str] = (),
    freed: Collection[str] = (),
) -> list[str]:
    """The options of sbatch; they override the script's own directives.

    `known`: Slurm's nodes by name, {} before Slurm has listed them. `unready`: nodes that are still
    being set up; they are left out where others are enough, as are nodes that are powered down.
    `freed`: nodes that the run's older job had.
    """
    options = [
        f"--job-name={job_name(bundle.run_id, bundle.attempt)}",
        f"--nodes={bundle.nodes}",
        "--no-requeue",
        "--open-mode=append",
        # Slurm would hand the agent's own limits on; a job has those of its node: EFA locks memory
        # without limit.
        "--propagate=NONE",
        # An exclusive job has all cores and devices of its nodes, but only as much memory as it
        # asks for: all.
        "--mem=0",
        f"--output={directory / places.JOB_LOG}",
        f"--chdir={directory}",
        "--export=ALL",
    ]
    if bundle.partition:
        options.append(f"--partition={bundle.partition}")
    bad, usable = choose_nodes(bundle, known, unready, freed)
    if devices := gres.every([node.gres for node in usable]):
        # An exclusive job has its nodes' devices, but its step none that the job did not ask for
        # (srun(1), --gres).
        options.append(f"--gres={devices}")
    if bad:
        options.append(f"--exclude={as_argument(sorted(bad))}")
    return options


def choose_nodes(
    bundle: JobBundle,
    known: Mapping[str, SlurmNode],
    unready: Collection[str],
    freed: Collection[str] = (),
) -> tuple[set[str], list[SlurmNode]]:
    """The nodes that the job must not use, and those that it may."""
    unwanted = {*bundle.exclude_nodes, *bundle.down_nodes}
    bad = {node for node in unwanted if not known or node in known}  # Slurm refuses any other
    usable = [
        node
        for name, node in known.items()
        if name not in bad and (not bundle.partition or bundle.partition in node.partitions)
    ]
    ready = [node for node in usable if node.name not in unready]
    if len(ready) >= bundle.nodes:
        bad, usable = bad | {*unready}, ready
    off = not_needed(bundle, usable, freed)
    return bad | off, [node for node in usable if node.name not in off]


def job_name(run_id: str, attempt: int) -> str:
    """By this name a job is found again after a crash between sbatch and the note of its id."""
    return f"{run_id}-{attempt}"
