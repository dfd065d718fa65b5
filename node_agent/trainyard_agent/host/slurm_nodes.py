"""Slurm's nodes and their states, read from its answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

DEFAULT_SLURMD_PORT = 6818

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
