"""A machine that cannot have hosts of training jobs is told what it lacks."""

from __future__ import annotations

import pytest

from trainyard_local.training_jobs import namespaces


def test_without_root_the_reason_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    assert "need root" in namespaces.missing()


def test_missing_programs_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces.shutil, "which", lambda name, path=None: None)
    assert namespaces.missing() == "packages are missing: iproute2, util-linux"
    monkeypatch.setattr(namespaces.shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    assert namespaces.missing() == ""
