"""Fixtures of the tests of the command line and of the SDK below it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import FakeApi
from tests.support.fake_bucket import FakeBucket

from trainyard_cli import main
from trainyard_cli.screen import live
from trainyard_sdk.upload import packing
from trainyard_sdk.upload import send as send_module


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
    monkeypatch.setenv("TRAINYARD_CONFIG", str(tmp_path / "settings/contexts.json"))
    for name in ("TRAINYARD_API_URL", "TRAINYARD_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    monkeypatch.setattr("trainyard_cli.screen.snapshot.SLOW_SECONDS", 0.0)
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture
def bucket(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBucket]:
    """Where uploads go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(send_module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(packing, "PAUSE_SECONDS", 0.0)
    made = FakeBucket()

    def upload(_: Any) -> tuple[int, dict[str, Any]]:
        return 200, made.upload(json.loads(api.requests[-1]["body"]))

    api.answers |= {"POST /v1/uploads": upload}
    yield made
    made.close()


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
