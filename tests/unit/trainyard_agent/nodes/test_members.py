"""Slurm's nodes are reported on change, forgotten when gone, left alone under HyperPod's repair."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config, slurm_node
from tests.support.agent_parts import (
    Controller,
    JobParts,
    NodeParts,
    job_parts,
    node_parts,
    play,
)

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.nodes.members import CHANGES_TOLD, changes, drained_by_mistake, partition_sizes
from trainyard_agent.nodes.node_table import Node
from trainyard_agent.nodes.questions import Questions
from trainyard_agent.nodes.silence import WATCH_SECONDS
from trainyard_contracts.cluster_events import ClusterReady, NodesChanged


class Slurm:
    """Answers with the nodes of the test, and notes what is done to them."""

    def __init__(self) -> None:
        self.known: dict[str, SlurmNode] = {}
        self.calls: list[tuple[str, str]] = []

    async def nodes(self) -> dict[str, SlurmNode]:
        return self.known

    async def set_node(self, name: str, state: str, reason: str | None = None) -> None:
        self.calls.append((name, state))


def nodes(*names: str, state: str = "idle", reason: str = "") -> dict[str, SlurmNode]:
    return {name: SlurmNode(name, state, "10.0.0.1", 6818, reason, ("main",)) for name in names}


def parts_on(
    directory: Path, slurm: Slurm, link: Any = None, **settings: Any
) -> tuple[NodeParts, list[Any]]:
    reporter, told = Reporter(config(directory), Store(directory / "outbox.sqlite")), []  # type: ignore[var-annotated]
    report = reporter.report
    reporter.report = lambda *events, change=None: (
        told.extend(events),
        report(*events, change=change),
    )[1]  # type: ignore[method-assign]
    return node_parts(config(directory, **settings), reporter, slurm=slurm, link=link), told


def jobs_on(directory: Path, slurm: Slurm, parts: NodeParts) -> JobParts:
    reporter = Reporter(config(directory), Store(directory / "other.sqlite"))
    return job_parts(config(directory), reporter, slurm=slurm, table=parts.table)


def look(parts: NodeParts, known: dict[str, SlurmNode], times: int = 2) -> None:
    parts.table.take(known)
    for _ in range(times):
        parts.members.follow()


def test_a_changed_list_is_reported_once_two_looks_agree_and_a_lost_node_of_it_is_forgotten(
    tmp_path: Path,
) -> None:
    parts, told = parts_on(tmp_path, Slurm())
    look(parts, nodes("ip-1", "ip-2"))
    assert told == []
    parts.table.nodes["ip-1"] = Node("ip-1")
    parts.table.report(parts.table.nodes["ip-1"], "lost")
    look(parts, nodes("ip-2"), 1)
    look(parts, nodes("ip-2", "ip-3"), 1)
    assert told == []
    look(parts, nodes("ip-2", "ip-3"))
    [event] = told
    assert isinstance(event, NodesChanged)
    assert (event.nodes, event.removed, event.added, event.partitions) == (
        ["ip-2", "ip-3"],
        ["ip-1"],
        ["ip-3"],
        {"main": 2},
    )
    assert "ip-1" not in parts.table.nodes
    again, told_again = parts_on(tmp_path, Slurm())
    assert "ip-1" not in again.table.nodes
    look(again, nodes("ip-2", "ip-3"))
    assert told_again == []


def test_thousands_of_nodes_that_changed_at_once_are_told_in_events_that_aws_takes(
    tmp_path: Path,
) -> None:
    parts, told = parts_on(tmp_path, Slurm())
    old, new = (
        [f"ip-10-{first}-{n // 256}-{n % 256}" for n in range(6758)] for first in (128, 129)
    )
    look(parts, nodes(*old))
    look(parts, nodes(*new))
    assert max(len(event.model_dump_json(by_alias=True)) for event in told) < 200 * 1024
    assert sorted(name for event in told for name in event.removed) == sorted(old)
    assert sorted(name for event in told for name in event.added) == sorted(new)
    assert (told[-1].nodes, told[-1].partitions) == (sorted(new), {"main": len(new)})
    look(parts, nodes(*new))
    assert len(told) == 7


def test_a_cluster_is_ready_with_the_workers_that_jobs_may_use_whichever_nodes_still_follow(
    tmp_path: Path,
) -> None:
    settings = config(tmp_path, expected_workers=2)
    reporter = Reporter(settings, Store(tmp_path / "outbox.sqlite"))
    parts = node_parts(settings, reporter, slurm=Slurm(), link=None)
    parts.table.take(nodes("ip-1", "ip-2", "ip-spare"))
    parts.table.nodes.update({"ip-1": Node("ip-1", connected=True), "ip-2": Node("ip-2")})
    assert not parts.members._report_ready()
    parts.table.nodes["ip-2"] = Node("ip-2", connected=True)
    assert parts.members._report_ready()


def test_a_node_that_is_replaced_right_after_the_cluster_was_ready_is_told(tmp_path: Path) -> None:
    parts, told = parts_on(tmp_path, Slurm())
    parts.table.take(nodes("ip-1", "ip-2"))
    parts.table.nodes.update({name: Node(name, connected=True) for name in ("ip-1", "ip-2")})
    assert parts.members._report_ready()
    look(parts, nodes("ip-1", "ip-3"))
    [ready, event] = told
    assert isinstance(ready, ClusterReady)
    assert isinstance(event, NodesChanged)
    assert (event.removed, event.added) == (["ip-2"], ["ip-3"])


def test_a_node_that_slurm_loses_while_it_is_asked_is_no_error(tmp_path: Path) -> None:
    async def echo(names: list[str], seconds: float) -> set[str]:
        parts.table.nodes["ip-1"].connected = False
        assert parts.table.forget("ip-1")
        return set()

    parts, _ = parts_on(tmp_path, Slurm(), SimpleNamespace(echo=echo))
    parts.table.nodes["ip-1"] = Node("ip-1", "linked", connected=True)
    asyncio.run(parts.silence.confirm(["ip-1"]))
    assert parts.table.nodes == {}


def test_a_look_into_a_silence_that_breaks_ends_the_agent_instead_of_leaving_the_node_unjudged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, _ = parts_on(tmp_path, Slurm())
    monkeypatch.setattr("trainyard_agent.nodes.silence.judge", lambda _: 1 / 0)
    broken: list[Any] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: broken.append(context["exception"])
        )
        parts.silence.doubt(Node("ip-1", "linked"), 0.0)
        while not broken:  # as daemon.break_off is told, though the node keeps its task
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert [type(error) for error in broken] == [ZeroDivisionError]


class Counted(dict[str, Node]):
    """Nodes, and how often somebody went through all of them."""

    rounds = 0

    def values(self) -> Any:
        self.rounds += 1
        return super().values()


@pytest.mark.parametrize(("number", "pause"), [(30, WATCH_SECONDS), (4000, 2.0)])
def test_thousands_of_silent_nodes_are_looked_into_without_a_round_through_all_for_each(
    tmp_path: Path, number: int, pause: float
) -> None:
    parts, _ = parts_on(tmp_path, Slurm())
    names = [f"ip-10-0-{n // 256}-{n % 256}" for n in range(number)]
    parts.table.take(nodes(*names))
    parts.table.nodes = found = Counted({name: Node(name, "silent") for name in names})
    for node in dict.values(found):
        node.questions = Questions(asked=float("inf"))  # nothing is asked in this test
    pauses = {
        parts.silence._look_at(node, node.questions)
        for node in dict.values(found)
        if node.questions
    }
    assert pauses == {pause}
    assert found.rounds < 100


def test_a_node_is_alone_by_the_others_that_were_heard(tmp_path: Path) -> None:
    parts, _ = parts_on(tmp_path, Slurm())
    known = parts.table.nodes
    for name, heard in (("a", 10.0), ("b", 30.0), ("c", 20.0)):
        known[name] = Node(name, "linked", heard=heard)
    known["d"] = Node("d", "lost", heard=40.0)
    found = {
        name: parts.silence._signals(node, Questions(), 50.0).alone for name, node in known.items()
    }
    assert found == {"a": 20.0, "b": 30.0, "c": 20.0, "d": 20.0}
    for name in ("b", "c", "d"):
        del known[name]
    assert parts.silence._signals(known["a"], Questions(), 60.0).alone is None


def test_slurm_that_names_no_node_says_nothing(tmp_path: Path) -> None:
    parts, told = parts_on(tmp_path, Slurm())
    look(parts, nodes("ip-1"))
    look(parts, {})
    assert told == []


@pytest.mark.parametrize("reason", ["Action:Reboot", "Action:Replace [root@2026-11-20T23:07:50]"])
def test_what_hyperpod_repairs_is_neither_set_down_nor_given_back(
    tmp_path: Path, reason: str
) -> None:
    slurm = Slurm()
    slurm.known = nodes("ip-1", state="down", reason=reason) | nodes("ip-2", state="idle*")
    parts, _ = parts_on(tmp_path, slurm)
    control = jobs_on(tmp_path, slurm, parts).control
    asyncio.run(control._set_down(["ip-1", "ip-2"]))
    assert asyncio.run(parts.returns._serves_again("ip-1")) is False
    assert slurm.calls == [("ip-2", "down")]


def test_another_machine_in_the_place_of_a_lost_node_is_not_set_down(tmp_path: Path) -> None:
    """ParallelCluster may have replaced a static node before the next job is submitted."""
    slurm = Slurm()
    slurm.known = {
        name: SlurmNode(name, "idle*+cloud", address, 6818, host_name=host)
        for name, address, host in (
            ("same", "10.0.0.4", "ip-10-0-0-4"),
            ("same-host", "127.0.0.1", "ip-10-0-0-5.ec2.internal"),
            ("other", "10.0.0.99", "ip-10-0-0-99"),
            ("reset", "reset", "reset"),
            ("unknown", "10.0.0.8", "ip-10-0-0-8"),
        )
    }
    parts, _ = parts_on(tmp_path, slurm, nodes_come_and_go=True)
    for number, name in enumerate(("same", "same-host", "other", "reset"), start=4):
        parts.table.nodes[name] = Node(name, "lost", address=f"10.0.0.{number}")
    control = jobs_on(tmp_path, slurm, parts).control
    asyncio.run(control._set_down(sorted(slurm.known)))
    assert slurm.calls == [("same,same-host,unknown", "down")]


def test_a_lost_node_on_which_somebody_elses_job_runs_is_left_to_slurm(tmp_path: Path) -> None:
    """Its slurmd may only be started anew: the job goes on, and is not ours to end."""
    slurm = Slurm()
    slurm.known = nodes("ip-1", state="allocated*+cloud") | nodes("ip-2", state="mixed+cloud")
    slurm.known |= nodes("ip-3", state="allocated*+cloud") | nodes("ip-4", state="idle*+cloud")
    parts, _ = parts_on(tmp_path, slurm)
    control = jobs_on(tmp_path, slurm, parts).control
    asyncio.run(control._set_down(["ip-1", "ip-2", "ip-3", "ip-4"], ["ip-3"]))
    assert slurm.calls == [("ip-[3-4]", "down")]


def test_however_many_nodes_are_lost_slurm_is_told_in_one_call(tmp_path: Path) -> None:
    slurm = Slurm()
    slurm.known = nodes(*(f"ip-10-0-0-{number}" for number in (4, 5, 6, 9)), state="idle*")
    parts, _ = parts_on(tmp_path, slurm)
    control = jobs_on(tmp_path, slurm, parts).control
    asyncio.run(control._set_down(["ip-10-0-0-5", "ip-10-0-0-4", "ip-10-0-0-9", "ip-10-0-0-77"]))
    assert slurm.calls == [("ip-10-0-0-[4-5,9]", "down")]
    asyncio.run(control._set_down(["ip-10-0-0-77"]))
    assert len(slurm.calls) == 1, "one that Slurm does not know is not named to it"


def test_a_job_that_waits_learns_the_addresses_of_new_nodes_that_are_set_up(tmp_path: Path) -> None:
    slurm = Slurm()
    parts, _ = parts_on(tmp_path, slurm)
    parts.table.take(nodes("ip-3", "ip-4"))
    parts.table.nodes["ip-3"] = Node("ip-3", "linked")
    waiting = jobs_on(tmp_path, slurm, parts)
    waiting.attempts.known[RUN, 2] = Attempt(RUN, 2, "submitted", tmp_path, job_id="7")

    async def change() -> None:
        waiting.hosts.members_changed()
        await asyncio.gather(*waiting.hosts._background.tasks)

    asyncio.run(change())
    assert (tmp_path / "hosts").read_text() == "ip-3 10.0.0.1\n"


def test_what_one_event_tells_is_first_what_is_gone_and_then_what_is_new() -> None:
    assert changes(["b", "c"], {"a", "b"}) == (["a"], ["c"])
    old = {f"old-{number:05}" for number in range(CHANGES_TOLD - 1)}
    assert changes(["x", "y"], old) == (sorted(old), ["x"])
    assert changes(["x"], {"old", *old}) == (sorted({"old", *old}), [])


def test_partitions_are_counted_by_their_nodes() -> None:
    nodes = {
        "a": slurm_node("a", "idle", "", "dev", "main"),
        "b": slurm_node("b", "idle", "", "main"),
    }
    assert partition_sizes(["a", "b", "gone"], nodes) == {"dev": 1, "main": 2}


def test_a_node_that_hyperpod_repairs_was_not_drained_by_mistake() -> None:
    assert drained_by_mistake(slurm_node("a", "idle+drain", "Duplicate jobid"))
    assert not drained_by_mistake(slurm_node("a", "idle", "Duplicate jobid"))
    assert not drained_by_mistake(slurm_node("a", "idle+drain", "Action:Replace"))


def test_a_node_that_is_set_down_in_the_moment_of_its_return_is_given_back(tmp_path: Path) -> None:
    """Both had looked at Slurm before either had told it anything."""

    class Down(Slurm):
        async def set_node(self, name: str, state: str, reason: str | None = None) -> None:
            parts.table.report(parts.table.nodes[name], "linked")  # as Returns does
            await super().set_node(name, state, reason)
            self.known = nodes(name, state=state, reason=reason or "")

    slurm = Down()
    slurm.known = nodes("ip-1")
    parts, _ = parts_on(tmp_path, slurm)
    parts.table.nodes["ip-1"] = Node("ip-1", "lost", connected=True)
    control = jobs_on(tmp_path, slurm, parts).control

    async def story() -> None:
        await control._set_down(["ip-1"])
        assert parts.table.look.is_set()
        refresh = asyncio.create_task(parts.members.refresh())
        while len(slurm.calls) < 2:
            await asyncio.sleep(0)
        refresh.cancel()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert slurm.calls == [("ip-1", "down"), ("ip-1", "resume")]


@pytest.mark.parametrize(("state", "reason", "given_back"), [
    ("idle+drain", "Duplicate jobid [root@2026-11-21T03:50:17]", True),
    ("down+drain", "Duplicate jobid", True),
    ("mixed+drain", "Duplicate jobid", False),
    ("idle+drain", "a person's own reason", False),
    ("down", "trainyard: node lost", True),
    ("idle+cloud", "trainyard: node lost", False),
    ("down+drain", "trainyard: node lost", False),
    ("down", "Not responding [slurm@2026-11-20T23:07:50]", False),
    ("down", "a person's own reason", False),
])  # fmt: skip
def test_only_a_node_that_serves_and_is_kept_from_jobs_by_mistake_is_given_back(
    tmp_path: Path, state: str, reason: str, given_back: bool
) -> None:
    class Drained:
        def __init__(self) -> None:
            self.resumed: list[tuple[str, str]] = []

        async def nodes(self) -> dict[str, SlurmNode]:
            return {
                name: SlurmNode(name, state, "127.0.0.2", 6818, reason)
                for name in ("ip-127-0-0-2", "ip-127-0-0-3")
            }

        async def set_node(self, name: str, state: str) -> None:
            self.resumed.append((name, state))

    async def story() -> None:
        controller, slurm = Controller(tmp_path), Drained()
        parts = node_parts(controller.config, controller.reporter, slurm=slurm)
        parts.registry.linked("ip-127-0-0-2", "i-2", "127.0.0.2")
        refresh = asyncio.create_task(parts.members.refresh())
        while not parts.table.slurm_nodes:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        refresh.cancel()
        assert slurm.resumed == ([("ip-127-0-0-2", "resume")] if given_back else []), (
            "the other node's agent is not linked"
        )

    play(story())
