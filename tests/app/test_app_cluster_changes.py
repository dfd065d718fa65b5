"""A cluster that is there gets another spec, or its fleet rests: from the wish to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.memory import Died, MemoryBackend, MemoryChanges
from tests.support.parallelcluster_specs import OTHER_SUBNET, spec
from tests.support.story import Story, make_cluster, record_fact, run_spec

from trainyard.app.clusters.change_cluster import start_fleet, stop_fleet, update_cluster
from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.clusters.label_cluster import label_cluster
from trainyard.app.machines.cluster.cluster_fail import cluster_fail
from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.dry_run import dry_run_update
from trainyard.app.runs.request_export import request_export
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.app.sweep.sweep import sweep
from trainyard.domain import capacity
from trainyard.domain.archive_records import Archive, FilesystemExport
from trainyard.domain.errors import (
    BackendRejected,
    ClusterInUse,
    ClusterNotFound,
    ConflictError,
    InvalidRequest,
    RetryableError,
    WrongState,
)
from trainyard.domain.records import Attempt, CapacityTry, Cluster, ClusterChange, Run
from trainyard.domain.states import BackendStatus
from trainyard.ports import Ports
from trainyard_contracts.cluster_specs import ClusterSpec, read_cluster_spec

NAME = "demo"


class World:
    """A ready cluster of a backend that can change it."""

    def __init__(self) -> None:
        self.story = Story()
        world = self.story.world
        self.changes = MemoryChanges()
        self.backend = MemoryBackend(world.clock, "test", "parallelcluster", world.commands)
        self.backend.changes = world.fuse.wrap(self.changes)
        backends = {**world.ports.backends, "parallelcluster": self.backend}
        world.ports = replace(world.ports, backends=backends)
        self.story.machines.ports = world.ports
        create_cluster(self.ports, wanted())
        self.story.machines.run_until_rest()
        self.backend.advance(NAME, BackendStatus.IN_SERVICE)
        self._hears("ClusterReady", nodes=["a"])
        self.story.machines.run_until_rest()
        assert self.cluster.status == "Ready"

    @property
    def ports(self) -> Ports:
        return self.story.world.ports

    @property
    def cluster(self) -> Cluster:
        return self.story.world.clusters.stored[NAME]

    @property
    def change(self) -> ClusterChange:
        assert self.cluster.change is not None
        return self.cluster.change

    def _hears(self, kind: str, **detail: Any) -> None:
        full = {
            "id": self.story.world.ids.ulid(),
            "at": self.story.at,
            "clusterName": NAME,
            "clusterArn": self.cluster.arn,
            **detail,
        }
        envelope = {"source": "trainyard.agent", "detail-type": kind, "id": "e", "detail": full}
        record_fact(self.ports, envelope)

    def people(self, running: int) -> None:
        jobs = {"running": running, "queued": 0, "users": ["ada"] if running else []}
        self._hears("ClusterHeartbeat", nodes=[], otherJobs=jobs)

    def run(self) -> Run:
        return submit_run(self.ports, run_spec(cluster={"name": NAME}, nodes=1))

    def ended(self) -> str:
        """A run that trained there, failed, and left checkpoints."""
        run = self.run()
        attempt = Attempt(number=1, submitted_at=run.created_at, ended_at=run.created_at)
        update = {"status": "Failed", "outcome": "failed", "attempts": [attempt]}
        spec = run.spec.changed(export=run.spec.export.changed(enabled=False))
        self.ports.runs.put(run.changed(**update, spec=spec, finished_at=run.created_at))
        return run.id

    def sweep(self, times: int = 1) -> None:
        for _ in range(times):
            sweep(self.ports)

    def takes_effect(self, state: str = "complete", reason: str = "") -> None:
        """The backend has come to the end of the update."""
        self.changes.state, self.changes.reason = state, reason  # type: ignore[assignment]

    def fleet_is(self, fleet: str) -> None:
        self.changes.fleet = fleet  # type: ignore[assignment]


@pytest.fixture
def world() -> World:
    return World()


def wanted(*, wait: bool = False, **queue: Any) -> ClusterSpec:
    return read_cluster_spec({**spec(queue=queue), "updateWhileUsed": "wait" if wait else "refuse"})


def test_a_change_that_nothing_hinders_is_sent_and_its_end_awaited(world: World) -> None:
    update_cluster(world.ports, NAME, wanted(max=9))
    assert (world.cluster.status, world.change.state) == ("Ready", "waiting")
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Updating", "changing")
    assert world.changes.asked == ["apply"]
    world.sweep()
    assert world.change.state == "changing"
    world.takes_effect()
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "done")
    assert world.cluster.spec == wanted(max=9)
    assert world.change.ended_at is not None
    world.sweep()
    assert world.changes.asked == ["apply"], "what is over is not begun again"


def test_a_fleet_that_must_rest_for_it_is_stopped_and_started(world: World) -> None:
    world.changes.needs_stop = True
    update_cluster(world.ports, NAME, wanted(max=1))
    world.sweep()
    assert world.change.state == "stopping"
    assert world.changes.asked == ["stop"]
    world.fleet_is("stopped")
    world.sweep()
    assert world.change.state == "changing"
    world.takes_effect()
    world.sweep()
    assert (world.change.state, world.change.outcome) == ("starting", "done")
    world.fleet_is("running")
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "done")
    assert world.changes.asked == ["stop", "apply", "start"]


def test_what_is_rolled_back_says_why_and_the_cluster_goes_on_as_it_was(world: World) -> None:
    world.changes.needs_stop = True
    update_cluster(world.ports, NAME, wanted(max=1))
    world.sweep()
    world.fleet_is("stopped")
    world.sweep()
    world.takes_effect("rolled-back", "Queue2 (AWS::X): no such subnet")
    world.sweep()
    world.fleet_is("running")
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "rolled-back")
    assert world.change.reason == "Queue2 (AWS::X): no such subnet"
    assert world.cluster.spec == wanted()
    assert "restore" in world.changes.asked


def test_a_stack_that_cannot_go_back_says_what_to_do(world: World) -> None:
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.takes_effect("failed", "why")
    world.sweep()
    assert world.change.state == "failed"
    assert "Continue the roll-back" in world.change.reason


def test_what_the_backend_refuses_is_refused_at_once_and_nothing_begins(world: World) -> None:
    world.changes.refuse["plan"] = BackendRejected("no such type")
    with pytest.raises(BackendRejected, match="no such type"):
        update_cluster(world.ports, NAME, wanted(max=9))
    assert world.cluster.change is None


def test_a_backend_that_does_not_answer_in_time_judges_before_anything_is_changed(
    world: World,
) -> None:
    world.changes.refuse["plan"] = RetryableError("too slow")
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    assert world.change.state == "begun"
    world.changes.refuse["plan"] = BackendRejected("no such type")
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "refused")
    assert world.change.reason == "no such type"
    assert world.changes.asked == []


def test_an_update_while_the_stack_is_still_being_made_waits_for_it(world: World) -> None:
    world.changes.refuse["plan"] = ConflictError("the stack is in CREATE_IN_PROGRESS status")
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Updating", "begun")
    assert "CREATE_IN_PROGRESS" in world.change.reason
    del world.changes.refuse["plan"]
    world.sweep()
    assert world.change.state == "changing"
    assert world.changes.asked == ["apply"]


def test_a_refusal_after_the_fleet_was_stopped_starts_it_again(world: World) -> None:
    world.changes.needs_stop = True
    world.changes.refuse["apply"] = BackendRejected("another one changed it")
    update_cluster(world.ports, NAME, wanted(max=1))
    world.sweep()
    world.fleet_is("stopped")
    world.sweep()
    assert world.change.state == "starting"
    world.fleet_is("running")
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "refused")
    assert world.change.reason == "another one changed it"


def test_an_update_under_a_run_is_refused_and_says_how_it_would_wait(world: World) -> None:
    run = world.run()
    with pytest.raises(ClusterInUse, match=run.id) as refused:
        update_cluster(world.ports, NAME, wanted(max=9))
    assert "updateWhileUsed: wait" in refused.value.next_step
    assert world.cluster.change is None


def test_an_update_waits_for_runs_if_its_spec_says_so(world: World) -> None:
    run = world.run()
    update_cluster(world.ports, NAME, wanted(max=9, wait=True))
    world.sweep(2)
    assert (world.cluster.status, world.change.state) == ("Ready", "waiting")
    assert run.id in world.change.reason
    over = world.ports.runs.get(run.id).changed(status="Cancelled", outcome="cancelled")
    world.ports.runs.put(over)
    world.sweep()
    assert world.change.state == "changing"


def test_a_run_that_came_in_between_goes_first(world: World) -> None:
    """It was accepted after the person's wish and before the cluster was marked."""
    update_cluster(world.ports, NAME, wanted(max=9))
    run = world.run()
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "refused")
    assert run.id in world.change.reason
    assert world.changes.asked == []


def test_a_run_that_comes_meanwhile_waits_until_the_cluster_is_ready(world: World) -> None:
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    run = world.run()
    world.story.machines.run_until_rest()
    waiting = world.ports.runs.get(run.id)
    assert (waiting.status, waiting.attempts) == ("Provisioning", [])
    assert "being changed" in waiting.reason
    world.takes_effect()
    world.sweep()
    world.story.machines.run_until_rest()
    assert world.ports.runs.get(run.id).attempts


def test_peoples_jobs_hinder_a_change_and_may_be_given_up_for_a_stop(world: World) -> None:
    world.people(2)
    with pytest.raises(ClusterInUse, match="ada"):
        update_cluster(world.ports, NAME, wanted(max=9))
    with pytest.raises(ClusterInUse, match="ada") as refused:
        stop_fleet(world.ports, NAME)
    assert "--force" in refused.value.next_step
    stop_fleet(world.ports, NAME, force=True)
    world.sweep()
    assert world.change.state == "stopping"


def test_a_fleet_that_is_stopped_serves_no_run_until_it_is_started(world: World) -> None:
    left = world.ended()
    stop_fleet(world.ports, NAME)
    stop_fleet(world.ports, NAME)
    world.sweep()
    with pytest.raises(WrongState, match="is being changed"):
        world.run()
    world.fleet_is("stopped")
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Stopped", "done")
    with pytest.raises(WrongState, match="stopped") as refused:
        world.run()
    assert "trainyard cluster start demo" in refused.value.next_step
    with pytest.raises(WrongState, match="stopped") as rests:
        request_export(world.ports, left)
    assert "trainyard cluster start demo" in rests.value.next_step
    with pytest.raises(WrongState, match="stopped"):
        resume_run(world.ports, left)
    assert stop_fleet(world.ports, NAME).status == "Stopped"
    start_fleet(world.ports, NAME)
    world.sweep()
    assert world.cluster.status == "Updating"
    world.fleet_is("running")
    world.sweep()
    assert (world.change.state, world.change.reason) == ("done", "")
    assert world.cluster.status == "Ready"
    assert start_fleet(world.ports, NAME).change == world.change, "it runs already"
    assert world.changes.asked == ["stop", "start"]


def test_an_update_of_a_stopped_cluster_leaves_it_stopped(world: World) -> None:
    stop_fleet(world.ports, NAME)
    world.sweep()
    world.fleet_is("stopped")
    world.sweep()
    update_cluster(world.ports, NAME, wanted(max=1))
    world.sweep()
    world.takes_effect()
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Stopped", "done")
    assert world.changes.asked == ["stop", "apply"]


def test_the_same_wish_twice_is_one_and_another_one_has_to_wait(world: World) -> None:
    update_cluster(world.ports, NAME, wanted(max=9))
    assert update_cluster(world.ports, NAME, wanted(max=9)).change == world.change
    with pytest.raises(WrongState, match="being changed already") as refused:
        update_cluster(world.ports, NAME, wanted(max=8))
    assert "takes it back" in refused.value.next_step
    with pytest.raises(WrongState):
        stop_fleet(world.ports, NAME)


def test_the_spec_that_it_has_takes_a_waiting_update_back(world: World) -> None:
    world.run()
    update_cluster(world.ports, NAME, wanted(max=9, wait=True))
    update_cluster(world.ports, NAME, wanted())
    assert world.change.state == "withdrawn"
    world.sweep()
    assert world.changes.asked == []


def test_the_spec_that_it_has_changes_nothing(world: World) -> None:
    assert update_cluster(world.ports, NAME, wanted()).change is None


def test_an_update_leaves_labels_and_takes_those_of_now_or_of_then(world: World) -> None:
    label_cluster(world.ports, NAME, {"team": "a"})
    for labels in ({}, {"team": "a"}):
        assert update_cluster(world.ports, NAME, wanted().changed(labels=labels)).change is None
    assert world.cluster.labels == {"team": "a"}
    with pytest.raises(InvalidRequest) as refused:
        update_cluster(world.ports, NAME, wanted().changed(labels={"team": "b"}))
    assert refused.value.errors[0].field == "labels"
    assert "trainyard cluster label" in refused.value.errors[0].message


def test_what_only_trainyard_reads_is_changed_without_the_backend(world: World) -> None:
    world.changes.nothing = True
    idle = wanted().changed(idle_limit_seconds=7200)
    update_cluster(world.ports, NAME, idle)
    world.sweep()
    assert (world.change.state, world.cluster.spec.idle_limit_seconds) == ("done", 7200)
    assert world.changes.asked == []


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"name": "other"}, "name", "must be 'demo'"),
        ({"tags": {"team": "x"}}, "tags", "cannot be changed"),
        ({"users": [{"name": "ada", "uid": 2001}]}, "users", "cannot be changed"),
        (
            {"sharedStorage": [{"name": "other", "mountPath": "/fsx", "efs": {}}]},
            "sharedStorage",
            "make another cluster",
        ),
    ],
)
def test_a_field_that_holds_what_runs_left_or_is_ours_is_refused_by_name(
    world: World, given: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        update_cluster(world.ports, NAME, read_cluster_spec({**spec(), **given}))
    (error,) = refused.value.errors
    assert error.field == field
    assert words in error.message


def test_a_dry_run_says_what_it_takes_and_who_is_in_the_way(world: World) -> None:
    run = world.run()
    plan = dry_run_update(world.ports, NAME, wanted(max=9))
    assert plan.operation == "UpdateCluster"
    assert any(run.id in words for words in plan.warnings)
    assert world.cluster.change is None


def test_a_backend_that_changes_no_clusters_says_what_to_do(world: World) -> None:
    make_cluster(world.story, "fixed")
    fixed = world.ports.clusters.get("fixed")
    asks: list[Callable[[], object]] = [
        lambda: update_cluster(world.ports, "fixed", fixed.spec),
        lambda: stop_fleet(world.ports, "fixed"),
        lambda: start_fleet(world.ports, "fixed"),
    ]
    for ask in asks:
        with pytest.raises(WrongState, match="cannot be changed") as refused:
            ask()
        assert "trainyard cluster create" in refused.value.next_step


def test_queues_in_another_subnet_are_refused_for_the_filesystem_would_be_an_empty_one(
    world: World,
) -> None:
    """ParallelCluster lets a queue go and another one come, and FSx's subnet is the queues'."""
    elsewhere = {"name": "others", "subnetIds": [OTHER_SUBNET]}
    with pytest.raises(InvalidRequest, match="would delete it") as refused:
        update_cluster(world.ports, NAME, wanted(**elsewhere))
    assert [one.field for one in refused.value.errors] == ["queues"]
    update_cluster(world.ports, NAME, wanted(name="others"))
    assert world.change.state == "waiting"


def test_queues_may_move_where_the_filesystem_existed_before() -> None:
    existing = spec(fsx={"fileSystemId": "fs-0123456789abcdef0"})
    moved = spec(fsx=existing["sharedStorage"][0]["fsx"], queue={"subnetIds": [OTHER_SUBNET]})
    assert read_cluster_spec(existing).lost_by(read_cluster_spec(moved)) is None


def made_in_the_second_way(world: World) -> None:
    """AWS had no capacity for the first of the ways of its spec."""
    ways = [{"instanceType": "c5.2xlarge"}, {"instanceType": "c5.xlarge"}]
    asked = read_cluster_spec(spec(capacity=ways))
    tries = [
        CapacityTry(number=at, way=f"way {at}", began_at=world.cluster.created_at) for at in (1, 2)
    ]
    made = world.cluster.changed(spec=asked.ways[1].spec, asked=asked, tries=tries)
    world.ports.clusters.put(made)


def test_a_cluster_of_one_of_several_ways_is_updated_as_it_was_made(world: World) -> None:
    made_in_the_second_way(world)
    assert world.cluster.asked is not None
    with pytest.raises(InvalidRequest) as refused:
        update_cluster(world.ports, NAME, world.cluster.asked)
    (error,) = refused.value.errors
    assert error.field == "capacity"
    assert "remove it" in error.message
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.takes_effect()
    world.sweep()
    assert (world.cluster.spec, world.cluster.tries) == (wanted(max=9), [])


def test_after_an_update_no_other_way_takes_the_place_of_what_a_person_chose(
    world: World,
) -> None:
    made_in_the_second_way(world)
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.takes_effect()
    world.sweep()
    now = world.story.world.clock.now()
    left = capacity.wanting(world.cluster, "no capacity", now, now + timedelta(hours=1))
    assert capacity.next_try(left, now) is None


def test_a_creation_that_is_repeated_after_an_update_answers_with_the_cluster(
    world: World,
) -> None:
    world.ports.clusters.put(world.cluster.changed(idempotency_key="k"))
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.takes_effect()
    world.sweep()
    again = create_cluster(world.ports, wanted(), idempotency_key="k")
    assert again.spec == wanted(max=9)


def test_a_cluster_that_is_being_made_is_not_changed_yet(world: World) -> None:
    world.ports.clusters.put(world.cluster.changed(status="Creating"))
    with pytest.raises(WrongState, match="Creating"):
        update_cluster(world.ports, NAME, wanted(max=9))


def test_a_cluster_that_is_deleted_meanwhile_is_changed_no_more(world: World) -> None:
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.backend.refuse["delete"] = ConflictError("CloudFormation deletes no stack that is UPDATE")
    delete_cluster(world.ports, NAME)
    for _ in range(20):
        world.story.machines.step()
    assert world.cluster.status == "Deleting"
    before = world.change
    world.takes_effect()
    world.sweep()
    assert world.change == before
    del world.backend.refuse["delete"]
    world.story.machines.run_until_rest()
    assert world.cluster.status == "Deleted"


def test_a_cluster_that_is_gone_meanwhile_says_so(world: World) -> None:
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.changes.there = False
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "failed")


@pytest.mark.parametrize("call", ["plan", "apply", "set_fleet"])
def test_a_cluster_that_is_gone_at_any_call_is_no_longer_being_changed(
    world: World, call: str
) -> None:
    """Else it is Updating for ever: nothing looks for a cluster that is lost while it is that."""
    world.changes.needs_stop = call == "set_fleet"
    update_cluster(world.ports, NAME, wanted(max=9))
    world.changes.refuse[call] = ClusterNotFound(f"AWS has no cluster '{NAME}'")
    assert not [one for one in sweep(world.ports) if one.action == "failed"]
    assert (world.cluster.status, world.change.state) == ("Ready", "failed")
    assert "no such cluster" in world.change.reason


def test_a_defect_that_one_cluster_meets_keeps_no_other_from_its_turn(world: World) -> None:
    other = make_cluster(world.story, "aaa-other")
    update_cluster(world.ports, NAME, wanted(max=9))
    world.changes.refuse["plan"] = KeyError("what nobody thought of")
    world.story.world.clock.tick(other.spec.idle_limit_seconds + 1)
    world.story.beat("aaa-other")
    done = {one.action: one for one in sweep(world.ports)}
    assert done["failed"].subject == f"cluster_change {NAME}"
    assert "KeyError('what nobody thought of') at " in done["failed"].reason
    assert done["teardown"].subject == "aaa-other", "a later duty"


def test_a_cluster_that_is_kept_for_its_archive_is_changed_as_any_other(world: World) -> None:
    """Nothing is deleted by a change; the words named people who were not there."""
    export = FilesystemExport(
        number=1, asked_by="deletion", state="failed", requested_at=world.cluster.created_at
    )
    kept = world.cluster.changed(archive=Archive(export=export, kept=True))
    world.ports.clusters.put(kept)
    stop_fleet(world.ports, NAME)
    world.sweep()
    assert world.change.state == "stopping"


@pytest.mark.parametrize("status", ["Updating", "Stopped"])
def test_the_late_end_of_its_making_takes_no_cluster_that_was_ready(
    world: World, status: str
) -> None:
    """Its machine may give up after its last step was done: what serves runs is never deleted."""
    world.ports.clusters.put(world.cluster.changed(status=status))
    error = {"Error": "States.Timeout", "Cause": "a step gave no answer"}
    given = StepInput("cluster-fail", cluster_name=NAME, generation=1, error=error)
    assert cluster_fail(world.ports, given) == {"status": status}
    world.story.machines.run_until_rest()
    assert world.cluster.status == status
    assert world.backend.clusters


def test_no_machine_of_a_cluster_that_changes_or_rests_is_started(world: World) -> None:
    stop_fleet(world.ports, NAME)
    world.sweep()
    started = dict(world.story.world.executions.started)
    world.story.world.clock.tick(120)
    world.sweep()
    world.fleet_is("stopped")
    world.sweep(2)
    assert world.cluster.status == "Stopped"
    assert world.story.world.executions.started == started


def test_the_idle_time_begins_anew_with_the_wish_and_with_its_end(world: World) -> None:
    world.story.world.clock.tick(world.cluster.spec.idle_limit_seconds + 1)
    update_cluster(world.ports, NAME, wanted(max=9))
    world.sweep()
    world.story.world.clock.tick(world.cluster.spec.idle_limit_seconds + 1)
    world.takes_effect()
    world.sweep()
    assert (world.cluster.status, world.change.state) == ("Ready", "done")
    stop_fleet(world.ports, NAME)
    world.sweep()
    world.fleet_is("stopped")
    world.sweep()
    world.people(0)
    world.story.world.clock.tick(world.cluster.spec.idle_limit_seconds + 1)
    world.sweep()
    world.story.machines.run_until_rest()
    assert world.cluster.status in ("Deleting", "Deleted"), "nobody started it again in time"


def live(world: World) -> None:
    """A change that needs the fleet stopped, to its end; the backend goes on between sweeps."""
    fleets = {"stop": "stopped", "start": "running"}
    for _ in range(12):
        try:
            world.sweep()
        except Died:
            world.story.world.fuse.arm(None)
            continue
        if world.changes.fleet == "changing":
            asked = [one for one in world.changes.asked if one in fleets]
            world.fleet_is(fleets[asked[-1]])
        elif world.changes.state == "changing":
            world.takes_effect()


@pytest.mark.parametrize("after", [False, True])
def test_the_process_may_die_at_every_call_and_the_change_is_made_once(after: bool) -> None:
    call, died = 1, True
    while died:
        world = World()
        world.changes.needs_stop = True
        update_cluster(world.ports, NAME, wanted(max=1))
        fuse = world.story.world.fuse
        fuse.arm(call, after=after)
        live(world)
        died = fuse.die_at is None
        assert (world.cluster.status, world.change.state) == ("Ready", "done"), call
        assert world.cluster.spec == wanted(max=1)
        assert world.changes.asked.count("apply") == 1, call
        call += 1
    assert call > 20
