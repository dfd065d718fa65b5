"""What an adoption installed on a node is removed again: the list, and not more than that."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

OWNER = "trainyard/test/theirs/1"
Answer = dict[str, Any]


def installed(root: Path) -> None:
    """A node as an adoption leaves it."""
    files = {
        "opt/trainyard/adopted-by": OWNER + "\n",
        "opt/trainyard/state": "installed\n",
        "opt/trainyard/take_back.py": "",
        "opt/trainyard/bundle/adopt.py": "",
        "opt/trainyard/lib/trainyard_agent/cli.py": "",
        "opt/trainyard/bin/trainyard-agent": "",
        "etc/trainyard/agent.json": "{}",
        "etc/trainyard/role": "worker\n",
        "var/lib/trainyard/outbox.db": "",
        "etc/systemd/system/trainyard-agent.service": "",
        "etc/systemd/system/trainyard-agent.service.d/mounts.conf": "",
        "etc/systemd/system/slurmd.service": "theirs",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    content = {
        "directories": ["/opt/trainyard", "/etc/trainyard", "/var/lib/trainyard"],
        "files": [
            "/etc/systemd/system/trainyard-agent.service",
            "/etc/systemd/system/trainyard-agent.service.d/mounts.conf",
            "/etc/systemd/system/trainyard.slice",
        ],
    }
    (root / "opt/trainyard/installed.json").write_text(json.dumps(content))


def left_on(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def take_back(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str], owner: str = OWNER
) -> Answer:
    assert scripts.take_back.main(owner, {"TRAINYARD_ROOT": str(root)}) == 0
    found: Answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    installed(tmp_path)
    return tmp_path


def test_all_that_is_listed_goes_and_nothing_else(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = take_back(scripts, root, capsys)
    assert (answer["state"], answer["left"]) == ("gone", [])
    assert left_on(root) == ["etc/systemd/system/slurmd.service"]
    assert not (root / "opt/trainyard").exists()
    assert not (root / "etc/systemd/system/trainyard-agent.service.d").exists()


def test_again_changes_nothing(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take_back(scripts, root, capsys)
    before = left_on(root)
    assert take_back(scripts, root, capsys) == {"state": "gone", "reason": "", "left": []}
    assert left_on(root) == before


def test_what_somebody_else_put_beside_ours_stays_and_is_named(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = root / "etc/systemd/system/trainyard-agent.service.d/own.conf"
    own.write_text("[Service]\n")
    changed = root / "etc/systemd/system/trainyard-agent.service"
    changed.write_text("somebody changed it")
    answer = take_back(scripts, root, capsys)
    assert "own.conf" in answer["left"][0]
    assert own.exists()
    assert not changed.exists(), "it is on the list, whatever is in it"


def test_a_node_that_another_adoption_has_is_left_alone(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = left_on(root)
    assert take_back(scripts, root, capsys, "trainyard/other/theirs/1")["state"] == "taken"
    assert left_on(root) == before


def test_an_installation_that_was_cut_off_early_goes_too(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "opt/trainyard/installed.json").unlink()
    for name in ("etc/trainyard", "var/lib/trainyard", "etc/systemd/system"):
        for path in (root / name).rglob("trainyard-agent.service*"):
            if path.is_file():
                path.unlink()
    assert take_back(scripts, root, capsys)["state"] == "gone"
    assert not (root / "opt/trainyard").exists()


@pytest.mark.parametrize("line", range(1, 12))
def test_a_removal_that_was_cut_off_at_any_call_is_finished_by_the_next(
    scripts: SimpleNamespace,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: int,
) -> None:
    calls = 0
    real = Path.unlink

    def unlink(self: Path, missing_ok: bool = False) -> None:
        nonlocal calls
        calls += 1
        if calls == line:
            raise KeyboardInterrupt
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    try:
        scripts.take_back.main(OWNER, {"TRAINYARD_ROOT": str(root)})
    except KeyboardInterrupt:
        pass
    monkeypatch.setattr(Path, "unlink", real)
    assert take_back(scripts, root, capsys)["state"] == "gone"
    assert left_on(root) == ["etc/systemd/system/slurmd.service"]


def test_it_waits_for_an_installation_that_is_under_way(
    scripts: SimpleNamespace,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scripts.take_back, "LOCK_SECONDS", 0.05)
    with (root / "opt/trainyard/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = take_back(scripts, root, capsys)
    assert answer["state"] == "failed"
    assert (root / "etc/trainyard/agent.json").exists()
    assert take_back(scripts, root, capsys)["state"] == "gone"


def test_nodes_that_we_set_down_are_given_back_to_slurm(
    scripts: SimpleNamespace,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (root / "etc/trainyard/role").write_text("controller\n")
    asked: list[tuple[str, ...]] = []
    nodes = (
        "NodeName=ip-10-0-0-1 Arch=x State=DOWN+CLOUD Reason=trainyard: node lost [root@x]\n"
        "NodeName=ip-10-0-0-2 Arch=x State=IDLE+CLOUD+DRAIN Reason=maintenance [ada@x]\n"
        "NodeName=ip-10-0-0-3 Arch=x State=IDLE+CLOUD\n"
    )

    def slurm(node: Any, *words: str) -> str:
        asked.append(words)
        return nodes if words[0] == "-o" else ""

    monkeypatch.setattr(scripts.take_back, "slurm", slurm)
    take_back(scripts, root, capsys)
    assert asked[1:] == [("update", "nodename=ip-10-0-0-1", "state=resume")]


def test_a_number_that_is_another_programs_by_now_is_not_killed(
    scripts: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = root / "var/run/trainyard"
    run.mkdir(parents=True)
    (run / "agent-process.pid").write_text(str(os.getpid()))
    assert take_back(scripts, root, capsys)["state"] == "gone"
