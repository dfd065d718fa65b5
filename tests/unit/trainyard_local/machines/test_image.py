"""The image of nodes that boot comes from the machine's own mirror and leaves no mounts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trainyard_local.machines import image as machine_image


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "debian.sources",
            "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n",
        ),
        (
            "old.list",
            "# a comment\ndeb [signed-by=/x] http://mirror.example/debian bookworm main\n",
        ),
    ],
)
def test_the_image_is_built_from_the_machines_own_package_mirror(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "security.sources").write_text(
        "Types: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\n"
    )
    monkeypatch.setattr(machine_image, "SOURCES", [*sorted(tmp_path.iterdir())])
    assert machine_image.mirror() == "http://mirror.example/debian"


def test_what_the_build_mounts_is_gone_with_it_also_when_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """debootstrap mounts /proc and /sys below its root. If it is killed, they stay mounted."""
    started: list[list[str]] = []
    monkeypatch.setattr(machine_image, "mirror", lambda: "http://mirror.example/debian")
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(
        machine_image.subprocess, "run", lambda argv, **_options: started.append(argv) or done
    )
    machine_image._bootstrap(tmp_path)
    assert started[0][:5] == ["unshare", "--mount", "--propagation", "private", "--"]
    assert started[0][5] == "debootstrap"


def test_without_a_source_for_the_suite_it_is_said_what_to_add(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_image, "SOURCES", [])
    with pytest.raises(
        machine_image.Impossible, match="no package source of this machine has Debian's bookworm"
    ):
        machine_image.mirror()
