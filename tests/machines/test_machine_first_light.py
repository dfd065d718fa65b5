"""first-light on nodes that boot: its built-in spec, every stage, every look, nothing left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.machines.conftest import PACKAGES, Machines
from tests.support.first_light import FirstLight, assert_nothing_left, stage_of
from tests.support.system import System

from trainyard_sdk.client import Client

pytestmark = pytest.mark.machines

#: Two boots of a node in a row, with a cold torch each, beside whatever else this machine does.
WHOLE_SECONDS = 540.0


def test_a_first_light_goes_through_every_stage_on_nodes_that_boot_and_sees_nothing_broken(
    machines: Machines, tmp_path: Path
) -> None:
    assert PACKAGES.exists(), (
        f"{PACKAGES} is missing: make test-machines builds it, "
        "and so does node_agent/build_packages.py"
    )
    system = System(machines.state_dir, machines.local, Client.from_state_dir(machines.state_dir))
    with FirstLight(system, tmp_path, "--yes") as light:
        code, document = light.ended(WHOLE_SECONDS)
    assert (code, document["verdict"]) == (0, "held"), light.words
    assert document["where"] == "local cloud, nodes are machines"
    seen = document["assumptions"]
    assert {one["verdict"] for one in seen.values()} <= {"held", "not-seen"}
    assert all(one["evidence"] for one in seen.values())
    assert "the look itself failed" not in str(seen)
    assert [one["verdict"] for one in seen.values()].count("held") > len(seen) / 2
    # On a busy machine a try may fail before its first step; the one that resumed is the last.
    attempts = system.api.run(document["run"])["attempts"]
    assert set(attempts[-1]["nodes"]) - set(attempts[0]["nodes"]), (
        "the replacement is another machine with another name"
    )
    assert [one["number"] for one in document["attempts"]] == [one["number"] for one in attempts]
    assert stage_of(document, "nothing-left")["state"] == "passed"
    assert_nothing_left(system, document)
    assert machines.nodes(document["cluster"]) == []
