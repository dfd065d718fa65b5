"""Nodes that boot are not begun with where the machine has no room for them."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainyard_local.machines import cloud as machine_cloud
from trainyard_local.machines import host as machine_host
from trainyard_local.machines import image as machine_image


def test_an_image_is_not_begun_on_a_disk_that_cannot_hold_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_host, "missing", lambda: None)
    monkeypatch.setenv("TRAINYARD_LOCAL_IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(machine_image, "ready", lambda: pytest.fail("it was begun"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=60 * 2**20))
    with pytest.raises(machine_host.Impossible) as refused:
        machine_cloud.image(lambda words: None)
    assert "60 MiB are free" in refused.value.message
    assert "TRAINYARD_LOCAL_IMAGES" in refused.value.remedy
