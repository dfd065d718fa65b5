"""A node that was restarted says so with its first beat."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.agent_parts import Controller, node_parts, play

from trainyard_agent.host.boot import boot_id


def test_a_node_says_with_its_first_beat_which_boot_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_ROOT", str(tmp_path))
    first = boot_id()
    assert boot_id() == first
    shutil.rmtree(tmp_path / "var/run")  # what a reboot does
    second = boot_id()
    assert second != first

    async def story() -> None:
        controller, restarted = Controller(tmp_path), []
        registry = node_parts(
            controller.config,
            controller.reporter,
            on_restarted=lambda node, off_at: restarted.append(node),
        ).registry
        for boot in (first, first, second):
            registry.linked("ip-127-0-0-2", "i-2", "127.0.0.2")
            registry.beat("ip-127-0-0-2", {"is": "beat", "boot": boot})
            registry.beat("ip-127-0-0-2", {"is": "beat"})
        assert restarted == ["ip-127-0-0-2"]

    play(story())
