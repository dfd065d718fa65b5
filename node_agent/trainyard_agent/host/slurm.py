"""Slurm's commands as argument lists, and the parsing of their answers.

Each command has a timeout and a clean environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainyard_contracts.agent_config import AgentConfig

COMMAND_SECONDS = 10.0
DEFAULT_SLURMD_PORT = 6818
#: More nodes than this are named in Slurm's short form.
MOST_WHOLE_NAMES = 100
#: Id, state, user, nodes, partition, priority, reason.
QUEUE_FORMAT = "%i|%T|%u|%N|%P|%Q|%r"
_ENDED = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY", "PREEMPTED", "COMPLETING",
})  # fmt: skip

#: What Slurm puts behind a node's state (sinfo(1), NODE STATE CODES).
_MARKS = "*~#!%$@^-"
_SERVING = frozenset({"idle", "allocated", "mixed", "completing"})
#: Flags of a node whose machine is off, or on its way there.
_AWAY = frozenset({"power_down", "powered_down", "powering_down"})
#: Flags of a node whose machine is on its way.
_COMING = frozenset({"power_up", "powering_up"})
#: Flags behind a base state, by the names of Slurm's node_state_flags: with any of them Slurm
#: starts no job on the node.
_UNFIT = frozenset({
    "drain", "draining", "drained", "fail", "failing", "down", "not_responding", "no_respond",
    "invalid_reg", "maint", "maintenance", "power_down", "power_up", "powered_down",
    "powering_down", "powering_up", "reboot", "reboot_issued", "reboot_requested",
    "reboot_canceled", "future",
})  # fmt: skip


class SlurmError(Exception):
    """A Slurm command failed or did not answer in time; the text is Slurm's."""


@dataclass(frozen=True)
class Job:
    """What `scontrol show job` says."""

    job_id: str
    state: str
    exit_code: int
    signal: int
    nodes: tuple[str, ...]
    reason: str = ""
    name: str = ""
    excluded: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Its processes are gone or being ended; a COMPLETING job never runs again."""
        return self.state in _ENDED


@dataclass(frozen=True)
class SlurmNode:
    """What `scontrol show node` says.

    `state` lower case with Slurm's flags: 'idle+cloud', 'down*', 'idle+cloud+drain'.
    """

    name: str
    state: str
    address: str
    port: int
    reason: str = ""
    partitions: tuple[str, ...] = ()
    gres: str = ""
    architecture: str = ""
    host_name: str = ""
    registered: bool = True
    """Its slurmd told this slurmctld that it is there, and answers."""
    slurmd_started: float | None = None
    """Seconds since the epoch, by the node's clock; None if Slurm does not know."""

    @property
    def base(self) -> str:
        """The state without its flags and without the mark that Slurm puts behind it.

        '*': it does not answer.
        """
        return self.state.partition("+")[0].rstrip(_MARKS)

    @property
    def flags(self) -> frozenset[str]:
        return frozenset(flag.rstrip(_MARKS) for flag in self.state.split("+")[1:])

    @property
    def serves(self) -> bool:
        """Slurm would run or is running jobs here.

        Every HyperPod node has the flag 'cloud', which says nothing.
        """
        return self.base in _SERVING and not self.flags & _UNFIT and "*" not in self.state

    @property
    def away(self) -> bool:
        """Its machine was ended because nobody needs it, or is being ended."""
        return bool(self.flags & _AWAY)

    @property
    def coming(self) -> bool:
        """Its machine boots for a job."""
        return bool(self.flags & _COMING)

    @property
    def off(self) -> bool:
        """A job that gets it waits until a machine has booted."""
        return self.away or self.coming

    @property
    def under_repair(self) -> bool:
        """Whether HyperPod repairs the node, which it does by this very reason.

        We must then change neither the node's reason nor its state.
        """
        return self.reason.startswith("Action:")


def fields(line: str) -> dict[str, str]:
    """`Key=value Key=value ...` of scontrol's one-line output.

    Values with spaces (Reason, OS) keep up to the next key.
    """
    found = re.findall(r"(?:^| )([A-Za-z/:_&]+)=(.*?)(?=\s+[A-Za-z/:_&]+=|\s*$)", line)
    return dict(reversed(found))


def expand(hosts: str) -> tuple[str, ...]:
    """Node names of Slurm's compressed list: `ip-10-0-0-[1-3,7],other`."""
    if hosts in ("", "(null)", "None"):
        return ()
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", hosts):
        names.extend(_expand_one(part.strip(",")))
    return tuple(names)


def as_argument(names: Collection[str]) -> str:
    """Node names as Slurm's commands take them.

    An argument may have 128 KB: thousands fit in Slurm's own short form only.
    """
    return ",".join(names) if len(names) <= MOST_WHOLE_NAMES else compress(names)


def compress(names: Collection[str]) -> str:
    """The list that `expand` makes these names of, sorted.

    Node names of one subnet shrink to their last numbers.
    """
    groups: dict[str, list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(0|[1-9][0-9]*)", name)
        if match is None or "[" in name:
            plain.append(name)
        else:
            groups.setdefault(match[1], []).append(int(match[2]))
    return ",".join(
        [*plain, *(f"{prefix}{_ranges(sorted(numbers))}" for prefix, numbers in groups.items())]
    )


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return "[" + ",".join("-".join(map(str, run)) for run in runs) + "]"


def _expand_one(part: str) -> list[str]:
    match = re.match(r"^([^\[]*)\[([^\]]*)\](.*)$", part)
    if match is None:
        return [part] if part else []
    prefix, ranges, rest = match.groups()
    numbers = []
    for piece in ranges.split(","):
        low, _, high = piece.partition("-")
        numbers.extend([str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)])
    return [prefix + number + tail for number in numbers for tail in (_expand_one(rest) or [""])]


def _number(job: str) -> int:
    """12 of 12_3; an id without a number comes first."""
    digits = re.match(r"\d+", job)
    return int(digits.group()) if digits else 0


def parse_job(text: str) -> Job | None:
    """None if there is no such job."""
    found = fields(text.strip().splitlines()[0]) if text.strip() else {}
    if "JobId" not in found:
        return None
    code, _, signal = found.get("ExitCode", "0:0").partition(":")
    reason = found.get("Reason", "")
    nodes, name = expand(found.get("NodeList", "")), found.get("JobName", "")
    excluded = expand(found.get("ExcNodeList", ""))
    return Job(
        found["JobId"],
        found.get("JobState", ""),
        int(code or 0),
        int(signal or 0),
        nodes,
        reason,
        name,
        excluded,
    )


def parse_nodes(text: str) -> dict[str, SlurmNode]:
    """Every node of `scontrol -o show nodes`."""
    nodes = {}
    for line in text.splitlines():
        found = fields(line)
        if "NodeName" in found:
            port = found.get("Port", "")
            nodes[found["NodeName"]] = SlurmNode(
                found["NodeName"],
                found.get("State", "unknown").lower(),
                found.get("NodeAddr", found["NodeName"]),
                int(port) if port.isdigit() else DEFAULT_SLURMD_PORT,
                found.get("Reason", ""),
                tuple(name for name in found.get("Partitions", "").split(",") if name),
                found.get("Gres", ""),
                found.get("Arch", ""),
                found.get("NodeHostName", ""),
                found.get("SlurmdStartTime", "None") != "None"
                and "*" not in found.get("State", ""),
                _seconds(found.get("SlurmdStartTime", "")),
            )
    return nodes


def _seconds(shown: str) -> float | None:
    """Of a time as scontrol shows it: in this machine's zone, without saying so."""
    try:
        return datetime.fromisoformat(shown).timestamp()
    except ValueError:
        return None


def workers(nodes: Mapping[str, SlurmNode], partitions: Collection[str]) -> dict[str, SlurmNode]:
    """Those in a partition of worker groups; all where it is not known which these are."""
    return {
        name: node
        for name, node in nodes.items()
        if not partitions or set(partitions) & set(node.partitions)
    }


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
        return sorted(taken, key=_number)

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
