"""Slurm's commands as argument lists, and the parsing of their answers.

Each command has a timeout and a clean environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Sequence

from trainyard_agent.host.slurm_jobs import Job, parse_job
from trainyard_agent.host.slurm_names import as_argument, number_of
from trainyard_agent.host.slurm_nodes import SlurmNode, parse_nodes, workers
from trainyard_contracts.agent_config import AgentConfig

COMMAND_SECONDS = 10.0
#: Id, state, user, nodes, partition, priority, reason.
QUEUE_FORMAT = "%i|%T|%u|%N|%P|%Q|%r"


class SlurmError(Exception):
    """A Slurm command failed or did not answer in time; the text is Slurm's."""


def clean_environment(config: AgentConfig) -> dict[str, str]:
    """Nothing of the agent's own environment reaches Slurm or a job but these."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "TMPDIR", "TRAINYARD_LOCAL")
        if name in os.environ
    }
    conf = config.slurm_conf or os.environ.get("SLURM_CONF")
    found = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **kept,
        **({"SLURM_CONF": conf} if conf else {}),
    }
    # The batch script calls srun, which on HyperPod lies where only a login shell looks.
    return found | ({"PATH": f"{config.slurm_bin}:{found['PATH']}"} if config.slurm_bin else {})


class Slurm:
    """The controller's Slurm."""

    def __init__(self, config: AgentConfig) -> None:
        self._bin = config.slurm_bin
        self._partitions = frozenset(config.partitions)
        self._environment = clean_environment(config)

    async def job(self, job_id: str) -> Job | None:
        """None if Slurm no longer knows the job. Raises SlurmError."""
        try:
            return parse_job(await self._run("scontrol", "-o", "show", "job", job_id))
        except SlurmError as error:
            if "Invalid job id" in str(error):
                return None
            raise

    async def nodes(self) -> dict[str, SlurmNode]:
        """The workers.

        Login nodes run slurmd, too, and are in HyperPod's partition of all nodes, but no run ever
        uses them.
        """
        return workers(
            parse_nodes(await self._run("scontrol", "-o", "show", "nodes")), self._partitions
        )

    async def jobs_named(self, name: str) -> list[str]:
        """Ids of every job of this name that Slurm took and remembers, oldest first.

        Of a job that it refuses since no nodes fit, it keeps a record, too.
        """
        output = await self._run("squeue", "-h", "--states=all", f"--name={name}", "-o", "%i|%T|%r")
        found = (line.split("|") for line in output.splitlines())
        taken = (one[0] for one in found if one[1:] != ["FAILED", "BadConstraints"])
        return sorted(taken, key=number_of)

    async def queue(self) -> str:
        """Every job that waits or holds nodes, one a line; slurm_queue.parse_queue reads it."""
        states = "--states=PENDING,RUNNING,SUSPENDED,CONFIGURING,COMPLETING"
        return await self._run("squeue", "-h", "-r", states, "-o", QUEUE_FORMAT)

    async def exclude(self, job_id: str, nodes: Sequence[str]) -> bool:
        """Set the nodes that a waiting job must not use, all of them; False if it waits no more."""
        try:
            await self._run(
                "scontrol", "update", f"jobid={job_id}", f"excnodelist={as_argument(nodes)}"
            )
        except SlurmError as error:
            if re.search(
                r"Invalid job id|no longer pending|already completing|is not pending",
                str(error),
                re.IGNORECASE,
            ):
                return False
            raise
        return True

    async def names_in_queue(self) -> str:
        """Lines `state|reason|user|name` of everybody's jobs.

        A name may hold anything, so it is the last.
        """
        return await self._run("squeue", "-h", "-o", "%T|%r|%u|%j")

    async def set_node(self, name: str, state: str, reason: str | None = None) -> None:
        """`name`: of one node, or of several in Slurm's short form (`compress`)."""
        await self._run(
            "scontrol",
            "update",
            f"nodename={name}",
            f"state={state}",
            *([f"reason={reason}"] if reason else []),
        )

    async def has_pyxis(self) -> bool:
        """Whether jobs can run in containers: a plug-in's options are in srun's help."""
        return "--container-image" in await self._run("srun", "--help")

    async def reconfigure(self) -> None:
        """Have every daemon read its configuration again."""
        await self._run("scontrol", "reconfigure")

    async def submit(self, options: Sequence[str], script: str, environment: dict[str, str]) -> str:
        """sbatch; returns the job's id."""
        output = await self._run("sbatch", "--parsable", *options, script, environment=environment)
        return output.strip().split(";")[0]

    async def cancel(self, job_id: str, *options: str) -> None:
        """scancel; a job that has ended already is fine."""
        try:
            await self._run("scancel", *options, job_id)
        except SlurmError as error:
            if not re.search(r"Invalid job id|already completing|Job/step already", str(error)):
                raise

    async def _run(
        self, command: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> str:
        program = os.path.join(self._bin, command) if self._bin else command
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**self._environment, **(environment or {})},
            )
        except OSError as error:
            raise SlurmError(
                f"{program} cannot be started: {error}; is slurmBin in agent.json right?"
            ) from error
        try:
            out, err = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS)
        except (asyncio.TimeoutError, asyncio.CancelledError) as error:
            with contextlib.suppress(ProcessLookupError):  # it ended while this process stood still
                process.kill()
            await process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise SlurmError(
                f"{command} did not answer within {COMMAND_SECONDS:.0f} s; is slurmctld running?"
            ) from error
        if process.returncode != 0:
            raise SlurmError(f"{command}: {(err or out).decode(errors='replace').strip()[-800:]}")
        return out.decode(errors="replace")
