"""The image of nodes that boot comes from the machine's own mirror and leaves no mounts."""

from __future__ import annotations

import shutil
import subprocess
import sys
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


class Cache:
    """A cache of images, whose builds are an empty directory each; no process runs on any."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory, self.proc = directory / "cache", directory / "proc"
        self.directory.mkdir()
        self.proc.mkdir()
        patch.setenv("TRAINYARD_LOCAL_IMAGES", str(self.directory))
        patch.setattr(machine_image, "PROC", self.proc)
        patch.setattr(machine_image, "_bootstrap", lambda root: root.mkdir())
        patch.setattr(machine_image, "_lay_out", lambda base, root: root.mkdir())

    def holds(self, number: int, kind: str = "image", left: str = "") -> Path:
        """One that an older Trainyard built, or that a killed one left."""
        root = self.directory / f"{kind}-{number:012x}{left}"
        (root / "etc").mkdir(parents=True)
        return root

    def seen(self) -> set[Path]:
        return {path for path in self.directory.iterdir() if not path.name.startswith(".")}


def test_old_images_go_once_a_newer_one_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path, monkeypatch)
    for number, (kind, left) in enumerate(
        [("image", ""), ("base", ""), ("image", ".part"), ("base", ".gone")]
    ):
        cache.holds(number, kind, left)
    someones = cache.directory / "image-of-mine"
    someones.mkdir()
    first = machine_image.ready()
    assert {path.name.partition("-")[0] for path in cache.seen()} == {"base", "image"}
    assert cache.seen() >= {first, someones}
    assert len(cache.seen()) == 3
    late = cache.holds(9)
    assert machine_image.ready() == first
    assert late.is_dir(), "nothing was built, so nothing goes"
    monkeypatch.setattr(machine_image, "_recipe", lambda: b"another")
    assert machine_image.ready() != first
    assert (first.is_dir(), late.exists()) == (True, False), "this process uses the first"


@pytest.mark.real
def test_an_image_that_a_local_cloud_or_a_node_uses_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path, monkeypatch)
    clouds, nodes, free = (cache.holds(number) for number in range(3))
    held = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys\nfrom pathlib import Path\n"
            "from trainyard_local.machines import image\n"
            "image._hold(Path(sys.argv[1])); print(flush=True); sys.stdin.read()",
            str(clouds),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert held.stdin is not None
    assert held.stdout is not None
    try:
        held.stdout.readline()
        (cache.proc / "7").mkdir()
        (cache.proc / "7/mountinfo").write_text(
            f"9 1 0:1 / / rw - overlay overlay rw,lowerdir={nodes},upperdir=/u,workdir=/w\n"
        )
        new = machine_image.ready()
        assert {clouds, nodes, new} <= cache.seen()
        assert not free.exists()
    finally:
        held.stdin.close()
        held.wait(60)
    shutil.rmtree(new)
    machine_image.ready()
    assert not clouds.exists(), "its local cloud has ended"
    assert nodes.is_dir()
