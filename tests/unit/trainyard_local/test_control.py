"""What starts a local cloud refuses nodes that boot where they cannot, before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard_local import control
from trainyard_local.machines import host as machine_host


def test_machines_are_refused_to_who_is_not_root_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_host.shutil, "which", lambda program, path: f"/usr/bin/{program}")
    monkeypatch.setattr(machine_host.os, "geteuid", lambda: 1000)
    with pytest.raises(control.Unusable) as refused:
        control.up(tmp_path / "state", nodes="machines")
    assert "root" in refused.value.message
    assert "--nodes processes" in refused.value.remedy
    assert not (tmp_path / "state").exists()


BUILDS = """
import pathlib, sys
target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
(target / "pip.whl").write_text("wheel")
with open(pathlib.Path(__file__).with_name("built"), "a") as built:
    built.write("x")
"""

FAILS = (
    "import sys; "
    "print('ERROR: No matching distribution found for six==1.17.0', file=sys.stderr); "
    "sys.exit('Traceback')"
)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A template beside the node layer's sources; the host can boot nodes, no server is started."""
    monkeypatch.setattr(machine_host, "missing", lambda: None)
    layer = tmp_path / "clone/node_agent"
    layer.mkdir(parents=True)
    (layer / "build_packages.py").write_text(BUILDS)
    (layer / "packages.txt").write_text("six==1.17.0\n")
    (layer.parent / "template.yaml").write_text("Resources: {}\n")

    def start(state_dir: Path, port: int, template: Path, **_: object) -> dict[str, bool]:
        return {"packages": (template.parent / "node_agent/packages/pip.whl").is_file()}

    monkeypatch.setattr(control, "_start", start)
    return layer.parent


@pytest.mark.real
def test_a_fresh_clone_gets_the_packages_of_its_agents_before_nodes_that_boot_need_them(
    clone: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    template = clone / "template.yaml"
    assert control.up(
        tmp_path / "state", template=template, on_progress=told.append, nodes="machines"
    ) == {"packages": True}
    assert any("packages" in words for words in told), "it takes minutes, and somebody waits"
    control.up(tmp_path / "state", template=template, nodes="machines")
    assert (clone / "node_agent/built").read_text() == "x", "once"
    later = (clone / "node_agent/packages/pip.whl").stat().st_mtime + 1
    os.utime(clone / "node_agent/packages.txt", (later, later))
    control.up(tmp_path / "state", template=template, nodes="machines")
    assert (clone / "node_agent/built").read_text() == "xx", "other packages are asked for"


def test_nodes_that_are_processes_need_no_packages(clone: Path, tmp_path: Path) -> None:
    assert control.up(tmp_path / "state", template=clone / "template.yaml") == {"packages": False}


@pytest.mark.real
def test_packages_that_cannot_be_had_refuse_machines_with_the_index_words(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "node_agent/build_packages.py").write_text(FAILS)
    with pytest.raises(control.Unusable) as refused:
        control.up(tmp_path / "state", template=clone / "template.yaml", nodes="machines")
    assert "No matching distribution found for six==1.17.0" in refused.value.message
    assert "package index" in refused.value.remedy
