"""How nodes are written for launchers."""

from __future__ import annotations

from trainyard_agent.jobs.hosts import with_addresses


def test_a_host_is_written_by_its_address_only() -> None:
    assert with_addresses({"a": "10.0.0.1", "b": "ip-10-0-0-2", "c": "fe80::1"}) == {
        "a": "10.0.0.1",
        "c": "fe80::1",
    }
