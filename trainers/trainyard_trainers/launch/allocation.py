"""What one node must know to start its part of an attempt: the job as submitted, the nodes it has,
and where their processes meet.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard_job.common import places

from . import hyperparameters

#: Rendezvous ports: below Linux's ephemeral range (from 32768), clear of Slurm's 6817 and 6818.
FIRST_PORT, PORTS = 10000, 10000


#: Where no Slurm starts the parts: the names of all nodes in their order, with commas, and this
#: node's own.
HOSTS, HOST = "TRAINYARD_HOSTS", "TRAINYARD_HOST"


@dataclass(frozen=True)
class Job:
    """What `job.json` says, with its directories."""

    attempt_dir: Path
    document: Mapping[str, Any]

    @classmethod
    def read(cls, attempt_dir: Path) -> Job:
        return cls(attempt_dir, json.loads((attempt_dir / places.JOB).read_text(encoding="utf-8")))

    @property
    def run_dir(self) -> Path:
        return self.attempt_dir.parents[1]

    @property
    def work_dir(self) -> Path:
        """Where the program runs: the same at each attempt, with the files that the user gave."""
        return self.run_dir / places.WORK

    def error_file(self, node: str) -> Path:
        """Where the program of a node leaves its exception."""
        return self.attempt_dir / f"error-{node}.json"

    @property
    def recipe(self) -> str:
        return str(self.document.get("recipe") or "torchrun")

    @property
    def checkpoint_dir(self) -> Path:
        return self.run_dir / (self.document.get("checkpointDirectory") or places.CHECKPOINTS)

    @property
    def output_dir(self) -> Path:
        """The program's own results: the same at each attempt, and always exported."""
        return self.run_dir / places.OUTPUT

    def command(self) -> list[str]:
        """The program, its arguments and its hyperparameters; a script becomes the path of a file
        of the working directory.
        """
        program = [str(part) for part in self.document["program"]]
        if program[0] != "-m":
            program[0] = str(self.work_dir / program[0])
        given = map(str, self.document.get("arguments") or [])
        return [*program, *given, *hyperparameters.arguments(self.hyperparameters or {})]

    @property
    def hyperparameters(self) -> Mapping[str, Any] | None:
        """None where the program is not started as a script of SageMaker's."""
        found: Mapping[str, Any] | None = self.document.get("hyperparameters")
        return found

    def environment(self) -> dict[str, str]:
        """The user's variables and, stronger, our own."""
        job = self.document
        number = {
            key: job.get(key)
            for key in ("checkpointEverySeconds", "checkpointEverySteps", "secondsBetweenFailures")
        }
        ours = {
            "TRAINYARD_RUN_ID": job["runId"],
            "TRAINYARD_ATTEMPT": job["attempt"],
            "TRAINYARD_RUN_DIR": self.run_dir,
            "TRAINYARD_ATTEMPT_DIR": self.attempt_dir,
            "TRAINYARD_OUTPUT_DIR": self.output_dir,
            "TRAINYARD_CHECKPOINT_DIR": self.checkpoint_dir,
            "TRAINYARD_CHECKPOINT_EVERY_SECONDS": number["checkpointEverySeconds"] or "",
            "TRAINYARD_CHECKPOINT_EVERY_STEPS": number["checkpointEverySteps"] or "",
            "TRAINYARD_CHECKPOINT_KEEP": job.get("checkpointKeep") or 3,
            "TRAINYARD_SECONDS_BETWEEN_FAILURES": number["secondsBetweenFailures"] or "",
        }
        return {
            **{str(k): str(v) for k, v in (job.get("environment") or {}).items()},
            **{k: str(v) for k, v in ours.items()},
        }


@dataclass(frozen=True)
class Node:
    """This node's place in the allocation, from Slurm's variables, or from HOSTS and HOST; without
    either a single node on loopback.
    """

    name: str
    rank: int
    names: tuple[str, ...]
    job_id: str

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Node:
        if names := tuple(filter(None, env.get(HOSTS, "").split(","))):
            name = env.get(HOST) or names[0]
            return cls(name, names.index(name), names, "0")
        node_list = (
            env.get("SLURM_STEP_NODELIST")
            or env.get("SLURM_JOB_NODELIST")
            or env.get("SLURM_NODELIST")
            or "localhost"
        )
        names = expand(node_list)
        return cls(
            name=env.get("SLURMD_NODENAME") or names[0],
            rank=int(env.get("SLURM_PROCID") or 0),
            names=names,
            job_id=env.get("SLURM_JOB_ID") or "0",
        )


def expand(node_list: str) -> tuple[str, ...]:
    """The hosts of a Slurm node list in its order: `ip-10-0-0-[3-5,9]` -> ip-10-0-0-3, -4, -5, -9.

    srun starts process k on host k. The agent has the same in `slurm.expand`, and cannot spare us
    ours: job.json is written before Slurm chooses the nodes (docs/adr/0028). One test compares the
    two.
    """
    names = [
        name
        for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", node_list)
        for name in _expand_one(part)
    ]
    if not names or not all(names):
        raise ValueError(f"Slurm's node list '{node_list}' names no host")
    return tuple(names)


def _expand_one(part: str) -> Iterator[str]:
    match = re.match(r"^([^\[]*)\[([^\]]*)\](.*)$", part)
    if match is None:
        yield part
        return
    prefix, ranges, rest = match.groups()
    for piece in ranges.split(","):
        low, _, high = piece.partition("-")
        for number in range(int(low), int(high or low) + 1):
            yield from (f"{prefix}{number:0{len(low)}d}{tail}" for tail in _expand_one(rest))


def read_hosts(attempt_dir: Path) -> dict[str, str]:
    """Addresses by node name; empty without the file (a node's name must then resolve by
    itself).
    """
    try:
        lines = (attempt_dir / places.HOSTS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {words[0]: words[1] for line in lines if len(words := line.split()) >= 2}


def rendezvous_port(run_id: str, attempt: int, job_id: str) -> int:
    """A port of the attempt's own: whatever a dead attempt still holds is never in the way."""
    digest = hashlib.sha256(f"{run_id}/{attempt}/{job_id}".encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS


@dataclass(frozen=True)
class Allocation:
    """One node's view of the attempt: the job, the node, and the addresses of all nodes."""

    job: Job
    node: Node
    hosts: Mapping[str, str]

    @classmethod
    def of(cls, job: Job, node: Node) -> Allocation:
        return cls(job, node, read_hosts(job.attempt_dir))

    def address_of(self, name: str) -> str:
        return self.hosts.get(name, "127.0.0.1" if name == "localhost" else name)

    @property
    def address(self) -> str:
        """This node's own."""
        return self.address_of(self.node.name)

    @property
    def addresses(self) -> list[str]:
        """Of all nodes, in the order of their ranks."""
        return [self.address_of(name) for name in self.node.names]

    @property
    def master_address(self) -> str:
        """Where rank 0 runs."""
        return self.addresses[0]

    @property
    def master_port(self) -> int:
        return rendezvous_port(
            str(self.job.document["runId"]), int(self.job.document["attempt"]), self.node.job_id
        )

    @property
    def processes(self) -> int:
        """On each node."""
        return int(self.job.document.get("processesPerNode") or 1)

    @property
    def world_size(self) -> int:
        return len(self.node.names) * self.processes

    @property
    def on_loopback(self) -> bool:
        """All nodes are on one machine: the local cloud."""
        return self.address.startswith("127.")
