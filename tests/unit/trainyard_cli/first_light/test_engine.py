"""first-light's engine: what it plans, when it stops, what it writes, and what it says."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.first_light_world import (
    a_stage,
    lit,
    proving,
)
from tests.support.recorded_account import RecordedAccount

from trainyard_cli.doctor.account import NotAnswered
from trainyard_cli.first_light import command, engine
from trainyard_cli.first_light.engine import Interrupted, Signals
from trainyard_cli.first_light.record import Record
from trainyard_cli.first_light.register import Look
from trainyard_cli.first_light.verdicts import Seen
from trainyard_cli.first_light.watch import StageFailed, Watch
from trainyard_cli.first_light.world import World
from trainyard_cli.problems import CliError


def failing(_world: World, _watch: Watch) -> str:
    raise StageFailed("It broke", "for a reason", "Mend it")


def seeing(verdict: Any, assumption: str = "A-001", after: Any = ("account",)) -> Look:
    return Look(
        assumption,
        after,
        lambda _world: Seen(
            assumption, verdict, "this was seen", "do that" if verdict == "broken" else ""
        ),
    )


def test_where_every_stage_passes_and_nothing_is_broken_all_held(
    world: World, record: Record
) -> None:
    code, document, _ = lit(
        world, record, [a_stage(proving)], seeing("held"), seeing("not-seen", "A-002")
    )
    assert (code, document["verdict"]) == (0, "held")
    assert document["words"] == "Every stage passed; 1 assumptions held, 1 could not be seen."
    assert document["assumptions"]["A-002"]["evidence"] == "this was seen"


def test_it_stops_at_the_first_broken_assumption_and_says_what_to_do(
    world: World, record: Record
) -> None:
    chosen = [a_stage(proving), a_stage(failing, "price")]
    code, document, _ = lit(
        world, record, chosen, seeing("held"), seeing("broken", "A-002"), seeing("broken", "A-003")
    )
    assert (code, document["verdict"], document["firstBroken"]) == (1, "broken", "A-002")
    assert [stage["name"] for stage in document["stages"]] == ["account"]
    assert (
        document["words"]
        == "A-002 of docs/aws-assumptions.md does not hold: this was seen. do that"
    )
    assert document["assumptions"]["A-003"]["verdict"] == "broken"


def test_looks_of_a_failed_stage_tell_which_assumption_explains_it(
    world: World, record: Record
) -> None:
    seen: list[str] = []

    def see(world: World) -> Seen:
        seen.append(str(world.failure))
        return Seen("A-009", "broken", "that is why", "do that")

    code, document, _ = lit(world, record, [a_stage(failing)], Look("A-009", ("account",), see))
    assert seen == ["It broke: for a reason"]
    assert (code, document["verdict"], document["firstBroken"]) == (1, "broken", "A-009")
    assert document["stages"][0]["problem"]["nextStep"] == "Mend it"


def test_a_failure_that_no_look_explains_is_said_to_be_one(world: World, record: Record) -> None:
    code, document, _ = lit(world, record, [a_stage(failing)], seeing("held"))
    assert (code, document["verdict"], document["firstBroken"]) == (1, "failed", None)
    assert (
        "no assumption that first-light can see explains it. It broke: for a reason. Mend it"
        in document["words"]
    )


def test_of_a_lifecycle_script_that_failed_the_verdict_has_the_line_that_says_why(
    world: World, record: Record
) -> None:
    def prove(_world: World, _watch: Watch) -> str:
        log = (
            "[trainyard] step 6/9 agent\n"
            "[trainyard] FAILED in step 'agent': the bundle is damaged\n"
            "[trainyard] waiting a minute"
        )
        raise StageFailed(
            "A lifecycle script failed on a node",
            f"It failed. End of the lifecycle log:\n{log}",
            "Correct it",
        )

    _, document, _ = lit(world, record, [a_stage(prove)], seeing("held"))
    assert (
        "[trainyard] FAILED in step 'agent': the bundle is damaged. Correct it."
        in document["words"]
    )
    assert "waiting a minute" not in document["words"]


@pytest.mark.parametrize(
    "error",
    [NotAnswered("iam:ListRoles", "AccessDenied", "no"), CliError("no"), KeyError("defect")],
)
def test_a_look_that_cannot_look_has_not_seen_and_stops_nothing(
    world: World, record: Record, error: Exception
) -> None:
    def see(_world: World) -> Seen:
        raise error

    code, document, _ = lit(
        world,
        record,
        [a_stage(proving), a_stage(proving, "price")],
        Look("A-001", ("account",), see),
    )
    assert code == 0
    assert document["assumptions"]["A-001"]["verdict"] == "not-seen"
    assert len(document["stages"]) == 2


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [("held", "not-seen", "held"), ("not-seen", "held", "held"), ("held", "broken", "broken")],
)
def test_of_two_looks_at_one_assumption_the_one_that_says_more_counts(
    world: World, record: Record, first: str, then: str, kept: str
) -> None:
    chosen = [a_stage(proving), a_stage(proving, "price")]
    _, document, _ = lit(world, record, chosen, seeing(first), seeing(then, after=("price",)))
    assert document["assumptions"]["A-001"]["verdict"] == kept


def test_each_stage_reads_the_world_anew(
    world: World, record: Record, account: RecordedAccount
) -> None:
    def see(world: World) -> Seen:
        return Seen("A-001", "held", str(world.described))

    account.answers["sagemaker:DescribeCluster"] = NotAnswered(
        "sagemaker:DescribeCluster", "ResourceNotFound", "none"
    )
    lit(
        world,
        record,
        [a_stage(proving), a_stage(proving, "price")],
        Look("A-001", ("account", "price"), see),
        seeing("held"),
    )
    assert account.asked.count("sagemaker:DescribeCluster") == 2


def test_a_defect_of_its_own_is_told_as_one(world: World, record: Record) -> None:
    def act(_world: World, _watch: Watch) -> str:
        raise ZeroDivisionError("oh")

    code, document, _ = lit(world, record, [a_stage(act)])
    assert (code, document["verdict"]) == (1, "failed")
    assert "first-light itself failed: ZeroDivisionError: oh" in document["words"]


def test_nothing_is_torn_down_where_nothing_was_made(
    world: World, record: Record, account: RecordedAccount
) -> None:
    _, document, _ = lit(world, record, [a_stage(failing)])
    assert document["nothingLeft"]
    assert [stage["name"] for stage in document["stages"]] == ["account"]
    assert account.asked == ["cloudformation:DescribeStacks"], "the network's stack, for the plan"


@pytest.fixture
def terminal() -> Iterator[None]:
    """As if these tests ran in a terminal, also where nohup started them."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
def test_the_first_signal_stops_it_and_the_next_ones_are_told_what_goes_on() -> None:
    told: list[str] = []
    with Signals(told.append), pytest.raises(Interrupted, match="SIGTERM"):
        signal.raise_signal(signal.SIGTERM)
    with Signals(told.append) as signals:
        signals.hold()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGHUP)
    assert len(told) == 2
    assert "--clean" in told[0]


def test_a_terminal_that_goes_away_stops_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals(lambda _words: None):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_before_anything_was_made_leaves_nothing_to_take_down(
    world: World, record: Record
) -> None:
    def act(_world: World, _watch: Watch) -> str:
        signal.raise_signal(signal.SIGINT)
        return "it went by"

    code, document, _ = lit(world, record, [a_stage(act), a_stage(failing, "price")])
    assert (code, document["verdict"], document["nothingLeft"]) == (1, "interrupted", True)
    assert [(stage["name"], stage["state"]) for stage in document["stages"]] == [
        ("account", "interrupted")
    ]


@pytest.mark.real
def test_progress_that_nobody_takes_holds_nothing_up() -> None:
    """As with Ctrl-S, or a pager that waits for a key."""
    reading, writing = os.pipe()
    program = (
        "from trainyard_cli.first_light.command import _tell; "
        "[_tell('x' * 60000) for _ in range(48)]; _tell('y'); print('goes on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=writing,
        timeout=240,
        check=False,
    )
    os.close(writing)
    with open(reading, "rb") as told:
        assert 40_000 < len(told.read()) <= 65_536
    assert (done.returncode, done.stdout) == (0, b"goes on\n")


@pytest.mark.real
def test_progress_that_nobody_reads_any_more_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = (
        "from trainyard_cli.first_light.command import _tell; "
        "_tell('one'); _tell('two'); print('goes on', flush=True)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=writing,
            check=False,
            timeout=240,
        )
    finally:
        os.close(writing)
    assert done.stdout == b"goes on\n"


def test_a_second_signal_while_progress_is_written_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler tells, too, and a buffer refuses whoever comes while it waits for its reader."""

    class Busy(io.StringIO):
        def write(self, _text: str) -> int:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    monkeypatch.setattr(sys, "stderr", Busy())
    command._tell("It is being torn down")


def test_whatever_ends_the_program_in_a_stage_the_cluster_is_taken_down_by_force(
    world: World, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(_world: World, _watch: Watch) -> str:
        raise SystemExit(1)

    def gone(_world: World, _watch: Watch, _tell: Any, *, force: bool, patience: float) -> str:
        forced.append(force)
        return "the cluster is deleted"

    forced: list[bool] = []
    monkeypatch.setattr(engine, "tear_down", gone)
    monkeypatch.setattr(engine, "nothing_left", lambda _world, _watch: ("nothing is left", []))
    code, document, _ = lit(world, record, [a_stage(act, "create")])
    assert forced == [True]
    assert (code, document["verdict"], document["nothingLeft"]) == (1, "failed", True)
