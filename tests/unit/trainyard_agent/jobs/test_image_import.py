"""An image is imported once, whole or not at all, and its login is nowhere afterwards."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from trainyard_agent.host.registry import ImageRefused, Login
from trainyard_agent.jobs import image_import
from trainyard_agent.jobs.image_import import Import, ImportFailed, NeedsPyxis, main

pytestmark = pytest.mark.real
NAME = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train:1"
DIGEST = f"sha256:{'5' * 64}"
CANARY = "canary-password-93b1"
#: As Enroot: the password is what `echo` makes of the netrc line's last word, and while it
#: downloads, the token lies below its cache.
ENROOT = f"""#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path
config, cache = Path(os.environ["ENROOT_CONFIG_PATH"]), Path(os.environ["ENROOT_CACHE_PATH"])
line = (config / ".credentials").read_text() if (config / ".credentials").exists() else ""
word = line.split()[-1] if line else ""
password = subprocess.check_output(["sh", "-c", "echo " + word], text=True).strip()
token = cache / f".tokens.{{os.geteuid()}}" / "registry.1"
token.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
token.write_text(password)
said = {{"argv": sys.argv[1:], "line": line, "password": password,
        "token": str(token.resolve())}}
with open({{log!r}}, "a") as stream:
    stream.write(json.dumps(said) + "\\n")
print("[INFO] Authenticating with password " + password, file=sys.stderr)
out = Path(sys.argv[sys.argv.index("--output") + 1])
{{act}}
"""
WORKS = 'out.write_bytes(b"hsqs whole")'
FAILS = 'out.write_bytes(b"hsqs h"); sys.exit("[ERROR] URL x returned error code: 404 Not Found")'


class Node:
    """A node with a stand-in for Enroot, and Slurm's srun with or without Pyxis."""

    def __init__(self, directory: Path) -> None:
        self.bin, self.memory = directory / "bin", directory / "shm"
        self.target = directory / "shared" / "images" / "sha256-5.sqsh"
        self.log = directory / "enroot.log"
        for made in (self.bin, self.memory):
            made.mkdir()
        self.enroot(WORKS)
        self.program("srun", "#!/bin/sh\necho '      --container-image=[USER@][REGISTRY#]IMAGE'\n")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def enroot(self, act: str) -> None:
        text = ENROOT.replace("{{", "{").replace("}}", "}")
        self.program("enroot", text.replace("{log!r}", repr(str(self.log))).replace("{act}", act))

    def take(self, who: Login | None = None) -> None:
        Import(NAME, DIGEST, self.target, self.memory, lambda registry: who).run()

    @property
    def calls(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    found = Node(tmp_path)
    monkeypatch.setenv("PATH", f"{found.bin}:{os.environ['PATH']}")
    monkeypatch.setattr(image_import, "PAUSES_SECONDS", (0.0,))
    return found


def test_the_very_image_of_the_digest_is_imported_and_only_once(node: Node) -> None:
    node.take()
    node.take()
    assert node.target.read_bytes() == b"hsqs whole"
    (call,) = node.calls
    assert call["argv"][:2] == ["import", "--output"]
    registry = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    assert call["argv"][3] == f"docker://AWS@{registry}#team/train:{DIGEST}"
    assert [path.name for path in node.target.parent.iterdir() if path.suffix != ".lock"] == [
        node.target.name
    ]


def test_who_comes_while_another_node_imports_waits_for_it(node: Node) -> None:
    threads = [threading.Thread(target=node.take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(node.calls) == 1


def test_the_login_reaches_enroot_and_is_nowhere_on_a_disk_or_in_the_log(
    node: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node.take(Login("AWS", CANARY))
    (call,) = node.calls
    assert call["password"] == CANARY
    assert CANARY not in call["line"], "the file names a variable"
    assert call["token"].startswith(str(node.memory)), "the token is in memory only"
    node.log.unlink()  # the stand-in's own
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in left if CANARY.encode() in path.read_bytes()]
    assert list(node.memory.iterdir()) == []
    assert CANARY not in "".join(capfd.readouterr())


def test_half_an_image_is_never_seen_and_the_last_words_are_told(node: Node) -> None:
    node.enroot(FAILS)
    with pytest.raises(ImportFailed, match=r"ended with 1: .*404 Not Found"):
        node.take()
    assert len(node.calls) == 2, "tried again"
    assert not node.target.exists()
    node.enroot(WORKS)
    node.take()
    assert node.target.read_bytes() == b"hsqs whole"


def test_an_image_for_other_processors_is_not_kept_though_enroot_only_warns(node: Node) -> None:
    warning = "[WARN] Image architecture doesn't match the requested one: arm64 != amd64"
    node.enroot(f'{WORKS}; print("{warning}", file=sys.stderr)')
    with pytest.raises(ImportFailed, match=r"not for this node's processors: .*arm64 != amd64"):
        node.take()
    assert not node.target.exists()


def test_what_killed_imports_left_is_cleared_away(node: Node) -> None:
    half = node.target.with_name(f".{node.target.stem}.import")
    half.mkdir(parents=True)
    (half / "image.sqsh").write_bytes(b"half")
    dead, alive = (
        node.memory / "trainyard-image-999999999-x",
        node.memory / (f"trainyard-image-{os.getpid()}-x"),
    )
    dead.mkdir()
    alive.mkdir()
    node.take()
    assert not half.exists()
    assert [path.name for path in node.memory.iterdir()] == [alive.name]


def test_a_login_that_is_refused_is_told(node: Node) -> None:
    def refuse(registry: str) -> None:
        raise ImageRefused("the cluster's nodes may not log in")

    with pytest.raises(ImportFailed, match="may not log in"):
        Import(NAME, DIGEST, node.target, node.memory, refuse).run()


def test_a_node_without_enroot_or_pyxis_says_which(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.program("srun", "#!/bin/sh\necho usage\n")
    with pytest.raises(NeedsPyxis, match="Pyxis is not installed"):
        node.take()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NeedsPyxis, match="Enroot is not installed"):
        node.take()


def attempt(node: Node, tmp_path: Path) -> Path:
    directory = tmp_path / "attempt"
    directory.mkdir()
    job = {"attempt": 2, "image": {"name": "/fsx/a.sqsh", "digest": ""}}
    (directory / "job.json").write_text(json.dumps(job))
    (directory / "image.txt").write_text(str(tmp_path / "a.sqsh"))
    return directory


def test_the_report_says_that_the_image_was_the_reason(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "ip-1")
    directory = attempt(node, tmp_path)
    assert main(str(directory)) == 1
    words = "job.image '/fsx/a.sqsh' cannot be used: the file is not there any more"
    assert words in capfd.readouterr().err
    report = json.loads((directory / "launch-ip-1.json").read_text())
    assert (report["kind"], report["error"], report["attempt"]) == ("python-error", words, 2)
    (tmp_path / "a.sqsh").write_bytes(b"hsqs")
    (directory / "launch-ip-1.json").unlink()
    assert main(str(directory)) == 0
    assert not (directory / "launch-ip-1.json").exists()
