"""first-light's engine: what it plans, when it stops, what it writes, and what it says; the whole of it runs in the system's tests."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.recorded_account import NUMBER, SUBNET, RecordedAccount
from tests.support.repository import ROOT

from trainyard_cli.client import Client
from trainyard_cli.connection import Connection
from trainyard_cli.context import Context
from trainyard_cli.doctor.account import NotAnswered
from trainyard_cli.first_light import command, engine, plan, stages
from trainyard_cli.first_light.engine import FirstLight, Interrupted, Signals
from trainyard_cli.first_light.record import Record, mark_of, read
from trainyard_cli.first_light.redaction import Redactor
from trainyard_cli.first_light.seen import Look, Seen, looks
from trainyard_cli.first_light.stages import Stage
from trainyard_cli.first_light.teardown import tear_down
from trainyard_cli.first_light.watch import StageFailed, Watch
from trainyard_cli.first_light.world import World
from trainyard_cli.main import run as trainyard
from trainyard_cli.problems import ApiProblem, InvalidInput, TrainyardError, Unreachable
from trainyard_contracts.specs import RunSpec

Json = dict[str, Any]
API_URL = "https://abc123.execute-api.us-west-2.amazonaws.com"
NETWORK = {"SubnetIds": SUBNET, "SecurityGroupIds": "sg-0123456789abcdef0", "FilesystemDnsName": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
           "FilesystemMountName": "abcdefgh"}  # fmt: skip


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class AnsweringApi(Client):
    """Its clusters can be listed; nothing else is asked of it here."""

    def clusters(self, *, at_most: int = 1000) -> list[Json]:
        return []


@pytest.fixture
def account() -> RecordedAccount:
    return RecordedAccount()


@pytest.fixture
def world(account: RecordedAccount) -> World:
    spec = plan.spec_of(
        None,
        account_with_network(account),
        local=False,
        network_stack="net",
        instance_type="ml.c5.xlarge",
        resume=True,
    )
    return World(
        AnsweringApi(Connection(API_URL, "us-west-2")), account, spec, "first-light-abcdefgh"
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record.new(tmp_path / "light.json", Redactor(), cluster="first-light-abcdefgh")


def account_with_network(account: RecordedAccount, **outputs: str) -> RecordedAccount:
    own = account.answers["cloudformation:DescribeStacks"]
    listed = [
        {"OutputKey": key, "OutputValue": value}
        for key, value in {**NETWORK, **outputs}.items()
        if value
    ]
    stack = {
        "StackName": "net",
        "StackStatus": "CREATE_COMPLETE",
        "CreationTime": "2026-11-01T00:00:00Z",
        "Outputs": listed,
    }
    account.answers["cloudformation:DescribeStacks"] = lambda request: (
        {"Stacks": [stack]} if request["StackName"] == "net" else own
    )
    return account


def a_stage(act: Callable[[World, Watch], str], name: Any = "account") -> Stage:
    return Stage(name, "looking", 60, 60, act, paid=False)


def proving(_world: World, _watch: Watch) -> str:
    return "it is so"


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


def lit(
    world: World, record: Record, chosen: list[Stage], *asked: Look
) -> tuple[int, Json, list[str]]:
    """Exit status, file and what was told."""
    told: list[str] = []
    clock = Clock()
    code = FirstLight(world, record, asked, told.append, clock=clock, sleep=clock.sleep).run(chosen)
    return code, read(record.path), told


# When it stops


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
        log = "[trainyard] step 6/9 agent\n[trainyard] FAILED in step 'agent': the bundle is damaged\n[trainyard] waiting a minute"
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
    [NotAnswered("iam:ListRoles", "AccessDenied", "no"), TrainyardError("no"), KeyError("defect")],
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
        signals.held = True
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


def test_progress_that_nobody_takes_holds_nothing_up() -> None:
    """As with Ctrl-S, or a pager that waits for a key."""
    reading, writing = os.pipe()
    program = "from trainyard_cli.first_light.command import _tell; [_tell('x' * 60000) for _ in range(48)]; _tell('y'); print('goes on')"
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


def test_progress_that_nobody_reads_any_more_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = "from trainyard_cli.first_light.command import _tell; _tell('one'); _tell('two'); print('goes on', flush=True)"
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


# How it takes down


class StubbornApi(AnsweringApi):
    """It never deletes the cluster."""

    def cluster(self, name: str) -> Json:
        return {"name": name, "status": "Ready", "arn": None}

    def runs(self, *, status: str | None = None, at_most: int = 1000) -> list[Json]:
        return []

    def delete_cluster(self, name: str, *, force: bool = False) -> Json:
        raise ApiProblem(409, {"title": "In use", "detail": "somebody's job runs there"})


def torn_down(
    world: World, account: RecordedAccount, delete: Any
) -> tuple[Callable[[], str], list[str]]:
    """The teardown of a cluster that AWS has until DeleteCluster is taken, with what it told."""
    there = {
        "ClusterArn": f"arn:aws:sagemaker:us-west-2:{NUMBER}:cluster/abcdefghijkl",
        "ClusterStatus": "InService",
        "InstanceGroups": [],
    }
    gone = NotAnswered("sagemaker:DescribeCluster", "ResourceNotFound", "none")

    def taken(request: Json) -> Json:
        account.answers["sagemaker:DescribeCluster"] = gone
        return {"ClusterArn": there["ClusterArn"]}

    account.answers |= {
        "sagemaker:DescribeCluster": there,
        "sagemaker:DeleteCluster": taken if delete is None else delete,
    }
    world.api = StubbornApi(Connection(API_URL, "us-west-2"))
    told: list[str] = []
    clock = Clock()
    watch = Watch(100, 5, clock=clock, sleep=clock.sleep)
    return lambda: tear_down(world, watch, told.append, force=True, patience=50), told


def test_machines_go_even_where_our_api_never_deletes_the_cluster(
    world: World, account: RecordedAccount
) -> None:
    act, told = torn_down(world, account, None)
    with pytest.raises(
        StageFailed, match=r"AWS has the cluster no more, .* but our API does not call it deleted"
    ):
        act()
    assert told == [
        "our API does not delete the cluster yet: In use: somebody's job runs there",
        "our API did not delete the cluster; SageMaker was asked itself",
    ]
    assert account.asked.count("sagemaker:DeleteCluster") == 1


class LateApi(AnsweringApi):
    """Whoever asked it for a cluster had no answer, and the cluster comes `late` seconds after the teardown began."""

    def __init__(self, clock: Clock, late: float) -> None:
        super().__init__(Connection(API_URL, "us-west-2"))
        self._clock, self._late, self.status = clock, late, "Ready"

    def cluster(self, name: str) -> Json:
        if self._clock() < self._late:
            raise ApiProblem(404, {"title": "There is no such cluster"})
        return {"name": name, "status": self.status}

    def runs(self, *, status: str | None = None, at_most: int = 1000) -> list[Json]:
        return []

    def delete_cluster(self, name: str, *, force: bool = False) -> Json:
        self.status = "Deleted"
        return {}


@pytest.mark.parametrize(("in_doubt", "late", "status", "spent"), [
    (True, 15, "Deleted", 20),  # it came after all, and was deleted
    (True, 1000, "Ready", 35),  # nobody makes it any more
    (False, 1000, "Ready", 0),
])  # fmt: skip
def test_a_cluster_that_was_asked_for_without_an_answer_may_come_while_it_is_torn_down(
    world: World, account: RecordedAccount, in_doubt: bool, late: float, status: str, spent: float
) -> None:
    account.answers["sagemaker:DescribeCluster"] = NotAnswered(
        "sagemaker:DescribeCluster", "ResourceNotFound", "none"
    )
    clock = Clock()
    world.api, world.in_doubt = LateApi(clock, late), in_doubt
    tear_down(
        world,
        Watch(100, 5, clock=clock, sleep=clock.sleep),
        lambda _words: None,
        force=True,
        patience=50,
    )
    assert (world.api.status, clock.now) == (status, spent)


@pytest.mark.parametrize(
    ("answer", "in_doubt"),
    [(Unreachable("gone"), True), (Interrupted("SIGINT"), True), (ApiProblem(503, {"title": "later"}), True),
     (ApiProblem(422, {"title": "wrong"}), False), (None, False)],
)  # fmt: skip
def test_whether_a_cluster_may_still_be_made_is_known_by_the_answer(
    world: World, answer: BaseException | None, in_doubt: bool
) -> None:
    class Api(AnsweringApi):
        def create_cluster(self, spec: Any) -> Json:
            if answer is not None:
                raise answer
            return {}

        def cluster(self, name: str) -> Json:
            return {"name": name, "status": "InService", "arn": "arn"}

    world.api = Api(Connection(API_URL, "us-west-2"))
    with contextlib.suppress(TrainyardError, Interrupted):
        stages.create(world, Watch(10, 5))
    assert world.in_doubt is in_doubt


def test_a_cluster_that_nobody_may_delete_is_told_with_the_command_that_does(
    world: World, account: RecordedAccount
) -> None:
    act, told = torn_down(
        world, account, NotAnswered("sagemaker:DeleteCluster", "AccessDenied", "no")
    )
    with pytest.raises(StageFailed) as failure:
        act()
    assert failure.value.next_step.endswith(
        "aws sagemaker delete-cluster --cluster-name first-light-abcdefgh"
    )
    assert any("AccessDenied" in words for words in told)


# What it waits for


def test_a_stage_that_is_not_through_in_time_says_what_it_waited_for() -> None:
    clock = Clock()
    watch = Watch(30, 5, clock=clock, sleep=clock.sleep)
    with pytest.raises(StageFailed, match="not within 30 s: the nodes join"):
        watch.until("the nodes join", lambda: None)
    assert clock.now == 30


def test_an_api_that_does_not_answer_is_asked_again_and_named_when_time_is_up() -> None:
    clock, answers = Clock(), iter([Unreachable("gone"), ApiProblem(502, {"title": "bad gateway"})])

    def look() -> str:
        for error in answers:
            raise error
        return "there"

    assert Watch(30, 5, clock=clock, sleep=clock.sleep).until("it", look) == "there"

    def down() -> None:
        raise Unreachable("gone", "no route")

    with pytest.raises(StageFailed, match="the last answer was: gone: no route"):
        Watch(30, 5, clock=clock, sleep=clock.sleep).until("it", down)


@pytest.mark.parametrize(
    "error", [ApiProblem(422, {"title": "wrong"}), NotAnswered("s:O", "AccessDenied", "no")]
)
def test_what_is_refused_is_not_asked_again(error: Exception) -> None:
    clock = Clock()

    def look() -> None:
        raise error

    with pytest.raises(type(error)):
        Watch(30, 5, clock=clock, sleep=clock.sleep).until("it", look)
    assert clock.now == 0


# What it plans


def test_the_smallest_cluster_is_made_of_the_networks_outputs_and_is_a_valid_spec(
    world: World,
) -> None:
    spec = RunSpec.model_validate(world.spec)
    assert spec.cluster.spec is not None
    assert spec.cluster.spec.network is not None
    assert spec.cluster.spec.network.subnet_ids == [SUBNET]
    assert [group.count + group.spares for group in spec.cluster.spec.instance_groups] == [1, 2]
    assert spec.cluster.spec.environment.requirements == ["torch==2.13.0"]


def test_on_the_local_cloud_no_network_is_asked_for(account: RecordedAccount) -> None:
    spec = plan.spec_of(
        None, account, local=True, network_stack=None, instance_type="ml.c5.xlarge", resume=True
    )
    RunSpec.model_validate(spec)
    assert account.asked == []


def test_a_network_of_aws_is_not_taken_for_one_of_the_local_cloud(account: RecordedAccount) -> None:
    with pytest.raises(InvalidInput, match="the local cloud has no stack net") as refused:
        plan.spec_of(
            None,
            account,
            local=True,
            network_stack="net",
            instance_type="ml.c5.xlarge",
            resume=True,
        )
    assert "TRAINYARD_API_URL" in refused.value.next_step


def test_a_clusters_spec_gets_the_smallest_job(account: RecordedAccount, world: World) -> None:
    spec = plan.spec_of(
        world.cluster_spec, account, local=False, network_stack=None, instance_type="", resume=False
    )
    assert RunSpec.model_validate(spec).job.arguments == ["--steps", "200", "--step-seconds", "0.1"]


def test_without_a_network_it_says_what_to_give(account: RecordedAccount) -> None:
    with pytest.raises(InvalidInput, match="--network-stack: is missing"):
        plan.spec_of(
            None,
            account,
            local=False,
            network_stack=None,
            instance_type="ml.c5.xlarge",
            resume=True,
        )


def test_a_stack_that_is_no_network_is_refused_with_what_it_lacks(account: RecordedAccount) -> None:
    account_with_network(account, FilesystemMountName="")
    with pytest.raises(InvalidInput, match="has no output FilesystemMountName"):
        plan.spec_of(
            None,
            account,
            local=False,
            network_stack="net",
            instance_type="ml.c5.xlarge",
            resume=True,
        )


def test_a_run_on_a_cluster_that_is_there_is_refused(account: RecordedAccount) -> None:
    with pytest.raises(InvalidInput, match=r"cluster\.spec: is missing"):
        plan.spec_of(
            {"job": {}, "cluster": {"name": "c"}},
            account,
            local=False,
            network_stack=None,
            instance_type="",
            resume=True,
        )


def test_a_run_that_exports_nothing_is_refused(account: RecordedAccount, world: World) -> None:
    with pytest.raises(InvalidInput, match=r"export\.enabled: is false"):
        plan.spec_of(
            {**world.spec, "export": {"enabled": False}},
            account,
            local=False,
            network_stack=None,
            instance_type="",
            resume=True,
        )


# The account's stage on AWS


def test_on_aws_doctor_looks_first_and_what_will_fail_stops_it(
    world: World, record: Record, account: RecordedAccount
) -> None:
    account.answers["ec2:DescribeSubnets"] = {"Subnets": []}
    code, document, _ = lit(world, record, [a_stage(stages.account)])
    assert (code, document["verdict"]) == (1, "failed")
    assert SUBNET in document["words"]
    assert any(found["severity"] == "failure" for found in document["findings"])


def test_a_sound_account_passes_and_says_how_much_was_looked_at(
    world: World, record: Record
) -> None:
    code, document, _ = lit(world, record, [a_stage(stages.account)])
    assert code == 0, document
    assert "checks of doctor found nothing that will fail" in document["stages"][0]["proved"]


def test_another_stack_than_the_apis_is_refused(world: World, record: Record) -> None:
    world.api = AnsweringApi(
        Connection("https://other.execute-api.us-west-2.amazonaws.com", "us-west-2")
    )
    code, document, _ = lit(world, record, [a_stage(stages.account)])
    assert code == 1
    assert "Stack and API do not belong together" in document["words"]


# The file


def test_what_is_written_is_redacted_and_has_no_part_of_another_file_beside_it(
    record: Record,
) -> None:
    record.document["words"] = f"arn:aws:iam::{NUMBER}:role/x"
    record.write()
    assert read(record.path)["words"] == "arn:aws:iam::<account-1>:role/x"
    assert [path.name for path in record.path.parent.iterdir()] == ["light.json"]


def test_what_clean_needs_is_never_redacted(tmp_path: Path) -> None:
    """A machine may be called like the stack, and a run's id may hold twelve digits."""
    facts = {
        "cluster": "first-light-abcdefgh",
        "stack": "trainyard",
        "region": "us-west-2",
        "run": "run-01k123456789012abcdefghjkm",
    }
    record = Record.new(
        tmp_path / "light.json", Redactor([("host", "trainyard")]), **facts, words="on trainyard"
    )
    record.write()
    assert read(record.path) | facts == read(record.path)


def test_a_file_that_cannot_be_written_names_the_option_before_anything_is_done(
    world: World, tmp_path: Path
) -> None:
    record = Record.new(
        tmp_path / "missing" / "light.json", Redactor(), cluster="first-light-abcdefgh"
    )
    acted: list[str] = []
    code = FirstLight(world, record, [], lambda _words: None).run(
        [a_stage(lambda *_: acted.append("") or "")]
    )
    assert code == 6
    assert acted == []
    assert "--output" in record.document["words"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 9, "cluster": "x"}', "\x00", "[" * 100_000]
)
def test_a_file_of_something_else_is_neither_written_over_nor_cleaned_by(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "light.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="--output"):
        Record.new(path, Redactor(), cluster="c")
    with pytest.raises(InvalidInput, match="first-light"):
        Record.of(path)
    assert path.read_text() == text


def test_a_finished_file_may_be_written_over_and_an_unfinished_one_may_not(record: Record) -> None:
    record.write()
    with pytest.raises(InvalidInput, match="something may be left"):
        Record.new(record.path, Redactor(), cluster="first-light-other")
    record.document["nothingLeft"] = True
    record.write()
    assert Record.new(record.path, Redactor(), cluster="first-light-other").document["stages"] == []


# The command


def test_a_broken_spec_names_its_field_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World,
                                                                capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    spec = json.loads(json.dumps(world.spec))
    spec["cluster"]["spec"]["instanceGroups"][1]["count"] = -1
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.chdir(tmp_path)
    assert trainyard(["first-light", "spec.yaml", "--yes", "--endpoint", API_URL]) == 6
    assert "cluster.spec.instanceGroups.1.count" in capsys.readouterr().err
    assert not (tmp_path / "first-light.json").exists()


def test_an_api_that_is_down_from_the_beginning_ends_it_with_that_and_nothing_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = {"endpoint": "http://127.0.0.1:9", "apiUrl": "http://127.0.0.1:9/x", "region": "us-east-1", "accessKeyId": "AKIA", "secretAccessKey": "s",
             "stack": "trainyard", "outputs": {}, "resources": {}, "accountId": NUMBER}  # fmt: skip
    (tmp_path / "local.json").write_text(json.dumps(local))
    output = tmp_path / "light.json"
    assert (
        trainyard(["first-light", "--yes", "--state-dir", str(tmp_path), "--output", str(output)])
        == 5
    )
    assert "The API cannot be reached" in capsys.readouterr().out
    assert read(output)["nothingLeft"]


@pytest.mark.parametrize(
    ("answer", "agreed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_whoever_sits_at_the_terminal_is_shown_the_price_and_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, agreed: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    asked = lambda: command._agree(Context(), 0.714, 2.915, yes=False, most=3.0)  # noqa: E731
    if agreed:
        asked()
    else:
        with pytest.raises(InvalidInput, match="nothing was made"):
            asked()
    told = capsys.readouterr().err
    assert "The nodes cost 0.71 USD an hour" in told
    assert "2.92 USD" in told or "2.91 USD" in told


def test_a_price_that_nobody_knows_is_not_within_any_limit() -> None:
    with pytest.raises(InvalidInput, match="nobody knows what it costs"):
        command._agree(Context(), None, None, yes=True, most=100.0)
    with pytest.raises(InvalidInput, match="--max-usd"):
        command._agree(Context(), 5.0, 50.0, yes=True, most=float("nan"))
    command._agree(Context(), None, None, yes=True, most=None)


def test_clean_without_a_file_says_which_one_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = {"endpoint": "http://127.0.0.1:9", "apiUrl": "http://127.0.0.1:9/x", "region": "us-east-1", "accessKeyId": "AKIA", "secretAccessKey": "s",
             "stack": "trainyard", "outputs": {}, "resources": {}, "accountId": NUMBER}  # fmt: skip
    (tmp_path / "local.json").write_text(json.dumps(local))
    assert (
        trainyard(
            ["first-light", "--state-dir", str(tmp_path), "--clean", str(tmp_path / "none.json")]
        )
        == 6
    )
    assert "--clean" in capsys.readouterr().err


@pytest.fixture
def left_behind(tmp_path: Path) -> Json:
    """What a first light on AWS that was killed has written."""
    made = Record.new(tmp_path / "light.json", Redactor(), cluster="first-light-abcdefgh", region="us-east-1", stack="trainyard",
                      api=mark_of(API_URL), where="AWS", spec={})  # fmt: skip
    made.write()
    return made.document


def test_clean_never_asks_another_api_whether_something_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left_behind: Json
) -> None:
    local = {"endpoint": "http://127.0.0.1:9", "apiUrl": "http://127.0.0.1:9/x", "region": "us-east-1", "accessKeyId": "AKIA", "secretAccessKey": "s",
             "stack": "trainyard", "outputs": {}, "resources": {}, "accountId": NUMBER}  # fmt: skip
    (tmp_path / "local.json").write_text(json.dumps(local))
    before = (tmp_path / "light.json").read_text()
    assert (
        trainyard(
            ["first-light", "--state-dir", str(tmp_path), "--clean", str(tmp_path / "light.json")]
        )
        == 6
    )
    told = capsys.readouterr().err
    assert "another API" in told
    assert "--endpoint" in told
    assert (tmp_path / "light.json").read_text() == before


@pytest.mark.parametrize(
    "name", ["region", "stack", "api", "spec", "verdict", "stages", "assumptions"]
)
@pytest.mark.parametrize("damage", [None, 7])
def test_clean_by_a_damaged_file_says_what_is_to_be_deleted_by_hand(
    tmp_path: Path, left_behind: Json, name: str, damage: Any
) -> None:
    left_behind[name] = damage
    (tmp_path / "light.json").write_text(json.dumps(left_behind))
    with pytest.raises(InvalidInput, match=f"--clean: .*{name}") as told:
        Record.of(tmp_path / "light.json")
    assert "first-light-abcdefgh" in told.value.next_step


def test_the_mark_of_an_api_goes_through_redaction_and_is_another_ones_no_more() -> None:
    mark = mark_of(API_URL)
    assert Redactor([("account", NUMBER)]).document({"api": mark}) == {"api": mark}
    assert mark != mark_of(API_URL + "/v2")


def test_operations_tells_of_each_stage_and_how_long_it_may_take() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    rows = re.findall(
        r"^\| `([a-z-]+)` \| .* \| (\d+) \|$",
        text.partition("## First light")[2].partition("\n## ")[0],
        re.M,
    )
    all_stages = stages.stages(lambda _hourly, _bound: None, resume=True)
    expected = [(one.name, str(one.seconds // 60)) for one in all_stages]
    expected += [
        ("teardown", str(engine.TEARDOWN_SECONDS // 60)),
        ("nothing-left", str(engine.PROOF_SECONDS // 60)),
    ]
    assert rows == expected
    paid = sum(one.seconds for one in all_stages if one.paid) + engine.TEARDOWN_SECONDS
    assert 4 < paid / 3600 < 4.25, "a little over four hours"
    assert plan.STEPS_ON_AWS * plan.STEP_SECONDS == 600, "training takes ten minutes"


#: IAM's name of an action, where it is not the operation's.
ACTIONS = {
    "stepfunctions:ListExecutions": "states:ListExecutions",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
}


def test_operations_names_every_permission_that_first_light_needs() -> None:
    asked = set()
    for path in Path(engine.__file__).parent.rglob("*.py"):
        for call in [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]:
            words = [
                word.value
                for word in call.args[:2]
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr in ("call", "asked", "all", "change")
                and len(words) == 2
            ):
                asked.add(ACTIONS.get(":".join(words), ":".join(words)))
    text = (ROOT / "docs/operations.md").read_text()
    told = re.findall(
        r"[a-z0-9-]+:[A-Z][A-Za-z]+",
        text.partition("Your credentials need")[2].partition("What may not be read")[0],
    )
    assert set(told) - {"execute-api:Invoke"} == asked


def test_every_look_names_an_assumption_and_stages_that_there_are() -> None:
    there = [one.name for one in stages.stages(lambda _hourly, _bound: None, resume=True)] + [
        "teardown",
        "nothing-left",
    ]
    assert looks()
    for look in looks():
        assert look.assumption.startswith("A-")
        assert set(look.after) <= set(there), look


@pytest.mark.parametrize("given", ["soon", "0", "ready=", "breakfast=5", "=5x"])
def test_a_stage_is_given_a_time_or_it_is_said_what_would_be_one(given: str) -> None:
    with pytest.raises(InvalidInput, match="STAGE=SECONDS") as refused:
        command._limits([given])
    assert given in refused.value.detail
    assert "nothing-left" in refused.value.next_step


def test_a_stage_has_its_own_time_before_that_of_all(world: World, record: Record) -> None:
    asked: list[float] = []

    def act(_world: World, watch: Watch) -> str:
        asked.append(watch.seconds)
        return "it is so"

    limits = command._limits(["30", "price=5"])
    FirstLight(world, record, [], lambda _words: None, limits=limits).run(
        [a_stage(act), a_stage(act, "price")]
    )
    assert asked == [30, 5]


def test_the_proof_has_the_time_that_it_was_given_and_is_not_shortened_with_all(
    world: World, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(engine, "tear_down", lambda *_given, **_more: "gone")
    monkeypatch.setattr(
        engine, "nothing_left", lambda _world, watch: (str(asked.append(watch.seconds)), [])
    )
    for given in (["7"], ["7", "nothing-left=5"]):
        FirstLight(world, record, [], lambda _words: None, limits=command._limits(given)).run(
            [a_stage(proving, "create")]
        )
    assert asked == [engine.PROOF_SECONDS, 5]
