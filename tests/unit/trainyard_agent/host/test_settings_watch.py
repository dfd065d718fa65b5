"""Whatever somebody does to slurm.conf or to our file, the agent goes on and sets it right."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest
from tests.support.agent import config

from trainyard_agent.host import slurm_settings
from trainyard_agent.host.settings_watch import SettingsWatch
from trainyard_agent.host.slurm import Slurm
from trainyard_agent.host.slurm_nodes import SlurmNode

HOOK = "/bin/true"


class CountingSlurm:
    def __init__(self) -> None:
        self.told = 0
        self.there = {"node-1": True}
        self.seen: dict[str, SlurmNode] = {}
        self.started: float | None = None

    async def reconfigure(self) -> None:
        self.told += 1

    async def nodes(self) -> dict[str, SlurmNode]:
        return self.shown()

    def shown(self) -> dict[str, SlurmNode]:
        return {
            name: SlurmNode(
                name, "idle+cloud", name, 6818, registered=registered, slurmd_started=self.started
            )
            for name, registered in self.there.items()
        }


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A slurm.conf with our settings in force."""
    path = tmp_path / "slurm.conf"
    path.write_text("SlurmctldHost=a\n")
    slurm_settings.keep(path, 2, HOOK)
    return path


def watched(conf: Path, damage: bytes | None, name: str) -> CountingSlurm:
    """The watch sees that all is well, then looks after this damage to a file (None removes it)."""
    slurm = CountingSlurm()
    watch = SettingsWatch(
        config(conf.parent, slurm_conf=str(conf), job_end_hook=HOOK, expected_workers=2),
        cast(Slurm, slurm),
        lambda: slurm.seen,
    )

    async def looks() -> None:
        for _ in range(2):
            await watch.look(conf)
        assert slurm.told == 1  # an agent before it may have died before it told
        path = conf.with_name(name)
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
            os.utime(path, ns=(1, 1))
        for _ in range(2):
            await watch.look(conf)

    asyncio.run(looks())
    return slurm


def test_a_comment_in_another_encoding_ends_no_agent_and_stays_as_it_was(conf: Path) -> None:
    comment = "# J\xf6rg\n".encode("latin-1")
    slurm = watched(conf, b"SlurmctldHost=a\n" + comment, "slurm.conf")
    assert conf.read_bytes() == b"SlurmctldHost=a\n" + comment + b"Include trainyard.conf\n"
    assert slurm.told == 2


def test_a_setting_in_another_encoding_is_taken_over_byte_for_byte(conf: Path) -> None:
    watched(conf, b"SlurmctldHost=a\nSchedulerParameters=\xf6\n", "slurm.conf")
    assert (
        b"SchedulerParameters=\xf6,batch_sched_delay=0\n"
        in conf.with_name("trainyard.conf").read_bytes()
    )


@pytest.mark.parametrize("damage", [None, b"", b"\xff\xfe\x00", b"Messa"])
def test_our_own_file_is_made_anew_when_it_is_gone_or_torn(
    conf: Path, damage: bytes | None
) -> None:
    whole = conf.with_name("trainyard.conf").read_bytes()
    slurm = watched(conf, damage, "trainyard.conf")
    assert conf.with_name("trainyard.conf").read_bytes() == whole
    assert slurm.told == 2


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        pytest.param(0.0, [1, 1, 2, 2, 3, 3], id="before that"),
        pytest.param(None, [1, 1, 2, 2, 3, 3], id="nobody knows when"),
        pytest.param(1e12, [1, 1, 1, 1, 1, 1], id="after that: it has read ours"),
    ],
)
def test_a_slurmd_that_was_not_heard_when_slurm_was_told_makes_it_be_told_if_it_had_started(
    conf: Path, started: float | None, expected: list[int]
) -> None:
    slurm = CountingSlurm()
    slurm.started = started
    slurm.there = {"node-1": True, "node-2": False, "node-3": False}
    watch = SettingsWatch(
        config(conf.parent, slurm_conf=str(conf), job_end_hook=HOOK, expected_workers=2),
        cast(Slurm, slurm),
        lambda: slurm.seen,
    )

    async def looks() -> int:
        for _ in range(3):
            await watch.look(conf)
        return slurm.told

    async def story() -> list[int]:
        told = [await looks()]
        for name in ("node-2", "node-3"):
            slurm.there[name] = True
            told.append(await looks())
            slurm.seen = slurm.shown()
            told.append(await looks())
        slurm.seen = {}
        return [*told, await looks()]

    assert asyncio.run(story()) == expected
