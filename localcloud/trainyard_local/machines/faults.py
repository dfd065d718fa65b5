"""Faults of machine nodes alone: links that are cut, lose packets or are slow.

A fault may affect one direction only, or the links to some nodes only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from trainyard_local.machines.host import SEARCH_PATH
from trainyard_local.machines.network import Network
from trainyard_local.machines.relay import Relay
from trainyard_local.nodes.faults import NodeFault

SECONDS = 10.0
LOSS_PERCENT = 5
DELAY_MILLISECONDS = 300
#: Per fault, the rules for what comes in and what goes out. {host} is the cloud, {subnet} its
#: network.
RULES: dict[str, tuple[str, str]] = {
    "lose-incoming": ("iifname host0 drop", ""),
    "lose-outgoing": ("", "oifname host0 drop"),
    "lose-packets": (
        "iifname host0 numgen random mod 100 < {percent} drop",
        "oifname host0 numgen random mod 100 < {percent} drop",
    ),
    "cut-peers": (
        "ip saddr {subnet} ip saddr != {host} drop",
        "ip daddr {subnet} ip daddr != {host} drop",
    ),
    "cut-aws": ("ip saddr {host} drop", "ip daddr {host} drop"),
}
KINDS = frozenset({*RULES, "cut-link", "slow-link"})
#: With these nobody hears of the node any more, so HyperPod notices too.
SILENCING = frozenset({"cut-link", "lose-incoming", "lose-outgoing"})


class Linked(Protocol):
    """A machine node, as its faults need it: where its link is, and what is done to it."""

    init: int
    silenced: bool
    relay: Relay | None

    @property
    def link(self) -> str: ...

    @property
    def network(self) -> Network: ...


def faults_of(node: Linked) -> dict[str, NodeFault]:
    """By the name of the fault (docs/testing.md says what each does)."""
    filtered = {name: NodeFault(_begin(node, name), _end(node, name)) for name in RULES}
    cut = NodeFault(
        lambda _request: _link(node, "down"), lambda: _healed(node, lambda: _link(node, "up"))
    )
    slow = NodeFault(lambda request: _slow(node, request), lambda: _quick(node))
    return {**filtered, "cut-link": cut, "slow-link": slow}


def _begin(node: Linked, name: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def begin(request: Mapping[str, Any]) -> Mapping[str, Any]:
        percent = _number(request, "percent", LOSS_PERCENT, 100)
        given = {
            "host": node.network.host,
            "subnet": node.network.subnet,
            "percent": percent,
        }
        into, out = (rule.format(**given) for rule in RULES[name])
        _filter(node, name, into, out)
        node.silenced |= name in SILENCING
        return {"percent": percent} if "{percent}" in RULES[name][0] else {}

    return begin


def _number(request: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise ValueError(f"{name}: '{value}' is no whole number from 1 to {most}")
    return value


def _end(node: Linked, name: str) -> Callable[[], None]:
    return lambda: _healed(
        node, lambda: _nft(node, f"table inet {_table(name)}\ndelete table inet {_table(name)}\n")
    )


def _healed(node: Linked, end: Callable[[], object]) -> None:
    """A node that is off has nothing to heal."""
    if node.init:
        end()
    node.silenced = False


def _table(name: str) -> str:
    return f"fault_{name.replace('-', '_')}"


def _filter(node: Linked, name: str, into: str, out: str) -> None:
    """One table a fault, in the node's own network; the same again changes nothing."""
    table = _table(name)
    script = (
        f"table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n"
        f"chain into {{ type filter hook input priority -200; policy accept; {into}; }}\n"
        f"chain out {{ type filter hook output priority -200; policy accept; {out}; }}\n}}\n"
    )
    _nft(node, script.replace("; ;", ";"))


def _nft(node: Linked, script: str) -> None:
    _enter(node, ["nft", "-f", "-"], script)


def _link(node: Linked, state: str) -> Mapping[str, Any]:
    """The link is down: the kernel refuses and resets nothing, so a caller waits."""
    _enter(node, ["ip", "link", "set", "host0", state])
    node.silenced = state == "down"
    return {}


def _enter(node: Linked, argv: list[str], text: str = "") -> None:
    """Run a program of this machine in the node's network."""
    enter = ["nsenter", "-t", str(node.init), "-n", *argv]
    done = subprocess.run(
        enter,
        input=text,
        env={"PATH": SEARCH_PATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


def _slow(node: Linked, request: Mapping[str, Any]) -> Mapping[str, Any]:
    delay = _number(request, "milliseconds", DELAY_MILLISECONDS, 10_000)
    percent = _number(request, "percent", LOSS_PERCENT, 100)
    _quick(node)
    node.relay = Relay(node.network.bridge, node.link, delay / 1000, percent / 100)
    return {"milliseconds": delay, "percent": percent}


def _quick(node: Linked) -> None:
    if node.relay is not None:
        node.relay.close()
        node.relay = None
