"""Fixtures of the command line's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.fake_api import (
    FakeApi,
)

from trainyard_cli import main
from trainyard_cli.screen import live


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    fake = FakeApi()
    local = {
        "endpoint": fake.endpoint,
        "apiUrl": f"{fake.endpoint}/stage",
        "region": "us-east-1",
        "accessKeyId": "AKIDLOCAL",
        "secretAccessKey": "secret",
    }
    (tmp_path / "local.json").write_text(json.dumps(local))
    monkeypatch.setenv("TRAINYARD_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("TRAINYARD_API_URL", raising=False)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    monkeypatch.setattr("trainyard_cli.screen.snapshot.SLOW_SECONDS", 0.0)
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture
def trainyard(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main.run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "spec.yaml").write_text("name: mine\ncluster: {name: shared}\n")
    return str(tmp_path / "spec.yaml")
