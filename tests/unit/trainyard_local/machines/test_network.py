"""The network of nodes that boot disturbs no other network of the machine."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from trainyard_local.machines import network as machine_network


def test_a_network_is_chosen_that_no_route_of_the_machine_touches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routes = (
        '[{"dst": "default"}, {"dst": "10.1.2.0/24"}, {"dst": "10.3.0.0/16"}, {"dst": "local"}]'
    )
    monkeypatch.setattr(
        machine_network, "ip", lambda *arguments: routes.replace(', {"dst": "local"}', "")
    )
    assert machine_network._free_subnet("0102" + "0304" + "0506" + "0000") == ipaddress.IPv4Network(
        "10.5.6.0/24"
    )


def test_the_names_of_a_clouds_interfaces_fit_and_differ_between_clouds() -> None:
    first, second = machine_network.bridge_name(Path("/a")), machine_network.bridge_name(Path("/b"))
    assert first != second
    assert max(len(first), len(second)) <= 15
