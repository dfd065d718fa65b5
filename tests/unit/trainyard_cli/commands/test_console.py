"""`trainyard console`: what it prints, and what ends it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import FakeApi

from trainyard_cli.console.server import Console

pytestmark = pytest.mark.real
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ctrl-C as soon as it serves; the links that a browser was sent to."""
    opened: list[str] = []

    def serve(_: Console, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Console, "serve_forever", serve)
    monkeypatch.setattr("webbrowser.open", opened.append)
    return opened


def test_the_link_is_printed_and_opened_and_ctrl_c_is_its_end(
    api: FakeApi, trainyard: Cli, interrupted: list[str]
) -> None:
    code, out, _ = trainyard("console")
    assert code == 0
    assert interrupted[0].startswith("http://127.0.0.1:")
    assert out.splitlines()[-1] == interrupted[0]
    assert "?token=" in interrupted[0]


def test_as_json_it_prints_the_link_alone(
    api: FakeApi, trainyard: Cli, interrupted: list[str]
) -> None:
    code, out, _ = trainyard("console", "--no-browser", "--json")
    assert (code, interrupted) == (0, [])
    assert list(json.loads(out)) == ["link"]


def test_a_taken_port_is_named_with_the_way_out(
    api: FakeApi, trainyard: Cli, interrupted: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, error = trainyard("console", "--port", port)
    assert code == 5
    assert port in error
    assert "any that is free" in " ".join(error.split())
