"""The agent's command tells how it is used where nobody answers it, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard_agent import cli
from trainyard_contracts.commands import COMMANDS


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["daemon", "--help"], ["logs", "-h"]])
def test_whoever_asks_for_help_gets_the_usage_without_an_agent(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRAINYARD_ROOT", str(tmp_path))
    assert cli.main(words) == 0
    told = capsys.readouterr().out
    assert "agent-not-running" not in told
    for name in [*COMMANDS, "daemon", "notify-job-end"]:
        assert f"\n  trainyard-agent {name}" in told
    assert "trainyard-agent logs --run=RUN --attempt=ATTEMPT [--lines=LINES]" in told


def test_a_daemon_without_its_configuration_is_told_how_it_is_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["daemon"]) == 1
    assert "trainyard-agent daemon --config FILE" in capsys.readouterr().out
