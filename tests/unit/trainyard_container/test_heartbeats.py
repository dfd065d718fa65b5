"""Each host's sample and the run's step and loss, as the first host sends them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import heartbeats
from trainyard_container.heartbeats import Heartbeats, Sampler
from trainyard_container.links import Link
from trainyard_container.progress import Progress
from trainyard_contracts.events import ClusterHeartbeat

Json = dict[str, Any]
GIB = 1024**3


class Machine:
    """What the kernel says, and the time."""

    def __init__(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._proc, self.now = proc, 100.0
        (proc / "net").mkdir(parents=True)
        monkeypatch.setattr(heartbeats, "_PROC", proc)
        monkeypatch.setattr(heartbeats.time, "monotonic", lambda: self.now)
        self.says(busy=0, idle=0, waits=0, received=0, sent=0)

    def says(self, *, busy: int, idle: int, waits: int, received: int, sent: int) -> None:
        (self._proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} {waits} 0 0 0 0 0\ncpu0 1 1\n")
        memory = {"MemTotal": 8 * GIB, "MemFree": GIB, "MemAvailable": 2 * GIB}
        lines = [f"{name}: {size // 1024} kB\n" for name, size in memory.items()]
        (self._proc / "meminfo").write_text("".join(lines))
        columns = f"{received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0"
        other = "  lo: 999999 1 0 0 0 0 0 0 999999 1 0 0 0 0 0 0"
        (self._proc / "net/dev").write_text(f"Inter-|\n face |\n{other}\n  eth1: {columns}\n")


class Courier:
    """The words between the hosts, of all of them."""

    def __init__(self) -> None:
        self.words: Json = {}
        self.gone = False

    def note(self, name: str, value: Any) -> None:
        if self.gone:
            raise ConnectionError("the first host is gone")
        self.words[name] = value

    def read(self, name: str, wait: float = 0.0) -> Any:
        return self.words.get(name)


class Sent:
    """In the place of the bus."""

    def __init__(self) -> None:
        self.events: list[Json] = []

    def send(self, kind: str, **fields: Any) -> None:
        assert kind == "ClusterHeartbeat"
        self.events.append(fields)

    def of_attempt(self, kind: str, **fields: Any) -> None:
        """A first step is told besides."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "proc", monkeypatch)


def beating(
    ml: Path, host: str, courier: Courier, sent: Sent, hosts: tuple[str, ...] = ("algo-1", "algo-2")
) -> tuple[Heartbeats, Progress]:
    where = surroundings(ml, host, hosts)
    progress = Progress(where.attempt_dir, sent.of_attempt)
    beats = Heartbeats(where, cast(Link, courier), cast(Any, sent))
    return beats, progress


def reports(ml: Path, said: Mapping[str, Any]) -> None:
    path = surroundings(ml).attempt_dir / "progress.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said))


def as_received(fields: Json) -> ClusterHeartbeat:
    """As the control plane reads it: what it would refuse fails here."""
    about = {"id": "0" * 26, "clusterName": "c", "clusterArn": "arn:c"}
    about["at"] = "2026-11-28T00:00:00Z"
    return ClusterHeartbeat.model_validate({**about, **fields})


def test_a_first_sample_has_no_rates_and_the_next_one_those_since_then(
    tmp_path: Path, machine: Machine
) -> None:
    sampler = Sampler(surroundings(tmp_path, "algo-1"))
    first = sampler.take()
    assert (first["node"], first["role"]) == ("algo-1", "worker")
    assert (first["memoryUsedBytes"], first["memoryTotalBytes"]) == (6 * GIB, 8 * GIB)
    assert 0 <= first["diskUsedPercent"] <= 100
    assert datetime.fromisoformat(first["at"].replace("Z", "+00:00")).tzinfo is not None
    assert "cpuPercent" not in first
    machine.now += 10
    machine.says(busy=300, idle=600, waits=100, received=5000, sent=200)
    second = sampler.take()
    assert second["cpuPercent"] == 30.0
    assert second["networkReceivedBytesPerSecond"] == 500.0
    assert second["networkSentBytesPerSecond"] == 20.0


def test_a_counter_that_began_anew_is_no_negative_rate(tmp_path: Path, machine: Machine) -> None:
    sampler = Sampler(surroundings(tmp_path, "algo-1"))
    machine.says(busy=1, idle=1, waits=0, received=9000, sent=9000)
    sampler.take()
    machine.now += 10
    machine.says(busy=2, idle=2, waits=0, received=10, sent=10)
    found = sampler.take()
    assert found["networkReceivedBytesPerSecond"] == found["networkSentBytesPerSecond"] == 0.0


def test_a_host_whose_kernel_says_nothing_is_a_sample_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "_PROC", tmp_path / "none")
    sampler = Sampler(surroundings(tmp_path, "algo-1"))
    found = [sampler.take(), sampler.take()][1]
    assert (found["node"], found["memoryTotalBytes"]) == ("algo-1", 0)


def test_the_first_host_sends_the_samples_of_all_with_step_and_loss(
    tmp_path: Path, machine: Machine
) -> None:
    courier, sent = Courier(), Sent()
    first, progress = beating(tmp_path, "algo-1", courier, sent)
    other, nothing = beating(tmp_path, "algo-2", courier, sent)
    other.beat(nothing)
    assert sent.events == [], "only the first host speaks"
    reports(tmp_path, {"step": 12, "loss": 0.25})
    progress.look()
    first.beat(progress)
    [event] = map(as_received, sent.events)
    assert [node.node for node in event.nodes] == ["algo-1", "algo-2"]
    assert event.nodes[1].memory_total_bytes == 8 * GIB
    [run] = event.runs
    assert (run.run_id, run.attempt, run.job_state) == ("run-1", 2, "RUNNING")
    assert (run.step, run.loss) == (12, 0.25)


def test_the_running_loss_is_that_of_the_newest_step_and_none_where_there_is_none(
    tmp_path: Path, machine: Machine
) -> None:
    sent = Sent()
    beats, progress = beating(tmp_path, "algo-1", Courier(), sent, ("algo-1",))
    for said in ({}, {"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": None}):
        reports(tmp_path, said)
        progress.look()
        beats.beat(progress, now=True)
    told = [(run.step, run.loss) for one in sent.events for run in as_received(one).runs]
    assert told == [(None, None), (1, 2.0), (2, 1.0), (3, None)]


def test_a_beat_comes_once_a_minute_and_at_once_when_something_changed(
    tmp_path: Path, machine: Machine
) -> None:
    sent = Sent()
    beats, progress = beating(tmp_path, "algo-1", Courier(), sent, ("algo-1",))
    for seconds, now, count in ((0, False, 1), (59, False, 1), (0, True, 2), (59, False, 2),
                                (1, False, 3)):  # fmt: skip
        machine.now += seconds
        beats.beat(progress, now=now)
        assert len(sent.events) == count


def test_a_host_that_has_not_said_anything_yet_is_left_out(
    tmp_path: Path, machine: Machine
) -> None:
    sent = Sent()
    beats, progress = beating(tmp_path, "algo-1", Courier(), sent)
    beats.beat(progress)
    assert [node["node"] for node in sent.events[0]["nodes"]] == ["algo-1"]


def test_a_first_host_that_is_gone_stops_no_other(tmp_path: Path, machine: Machine) -> None:
    courier = Courier()
    courier.gone = True
    beats, progress = beating(tmp_path, "algo-2", courier, Sent())
    beats.beat(progress)


def test_many_hosts_are_told_in_parts_that_the_bus_takes(tmp_path: Path, machine: Machine) -> None:
    names = tuple(f"algo-{number}" for number in range(1, 452))
    courier, sent = Courier(), Sent()
    courier.words = {f"sample/{name}": {"node": name} for name in names[1:]}
    beats, progress = beating(tmp_path, "algo-1", courier, sent, names)
    beats.beat(progress)
    assert [(one["part"], one["parts"]) for one in sent.events] == [(1, 3), (2, 3), (3, 3)]
    told = [node["node"] for one in sent.events for node in one["nodes"]]
    assert sorted(told) == sorted(names)
    assert all(len(json.dumps(one)) < 256 * 1024 for one in sent.events)
