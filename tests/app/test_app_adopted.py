"""A cluster that others made: adopted, used, mended where it may be, released, never deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.adopted import ARN, FIRST, HEAD, NAME, SECOND, Adopted, a_node, foreign
from tests.support.memory import Died
from tests.support.spec_parts import cluster_spec
from tests.support.story import run_spec

from trainyard.app.clusters.adopt_cluster import adopt_cluster, plan_adoption, release_cluster
from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.clusters.node_operations import reboot_node, replace_node
from trainyard.app.sweep.sweep import sweep
from trainyard.domain.errors import (
    ClusterExists,
    ClusterInUse,
    ClusterNameTaken,
    ClusterNotFound,
    IdempotencyConflict,
    InvalidRequest,
    NodeUnreachable,
    TrainyardError,
    WrongState,
)
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.adoptions import NodeAnswer
from trainyard_contracts import places
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.cluster_specs import read_cluster_spec


@pytest.fixture
def world() -> Adopted:
    return Adopted()


def submit(world: Adopted, **more: object) -> str:
    spec = run_spec(cluster={"name": NAME}, nodes=2, **more)
    run = world.story.submit(spec)
    world.story.rest()
    return run.id


def released(world: Adopted) -> None:
    """Asked to be, and given a while."""
    release_cluster(world.ports, NAME)
    world.rest()
    for _ in range(3):
        world.story.pass_time(61)


def test_an_adopted_cluster_is_ready_when_each_of_its_nodes_has_the_agent(world: Adopted) -> None:
    cluster = world.ready()
    assert world.adoptions.installed == {HEAD, FIRST, SECOND}
    assert world.adoptions.asked[0] == ("install", HEAD), "the controller first"
    assert cluster.arn == ARN
    assert cluster.spec.shared_path == "/fsx"
    assert cluster.spec.partitions == ["dev"]
    assert world.backend.made == 0, "nothing was created"


def test_an_adopted_cluster_is_never_deleted_whatever_asks_for_it(world: Adopted) -> None:
    world.ready()
    with pytest.raises(WrongState) as refused:
        delete_cluster(world.ports, NAME, force=True)
    assert "cluster release theirs" in refused.value.next_step
    world.story.world.clock.tick(10 * 86400)
    sweep(world.ports)
    world.rest()
    assert world.cluster.status == "Ready", "no idle limit ends it"
    released(world)
    assert world.cluster.status == "Deleted"
    # Somebody gives it our tag: its record is closed and names this very ARN.
    tags = {places.STAGE_TAG: "test"}
    world.backend.clusters[NAME] = replace(
        world.backend.clusters[NAME], tags=tags, created_at=world.story.world.clock.now()
    )
    world.story.world.clock.tick(86400)
    done = sweep(world.ports)
    assert any("others made" in one.reason for one in done)
    assert world.backend.clusters[NAME].status == BackendStatus.IN_SERVICE


def test_a_release_takes_the_agent_from_each_node_and_the_key_and_no_more(world: Adopted) -> None:
    world.ready()
    key = places.agent_key_secret(world.ports.config.secret_prefix, NAME)
    assert world.ports.secrets.read(key)
    released(world)
    assert world.adoptions.installed == set()
    back = [node for verb, node in world.adoptions.asked if verb == "take back"]
    assert back[0] == HEAD, "without the controller's agent no other's end is a loss"
    assert sorted(back) == [HEAD, FIRST, SECOND]
    assert world.cluster.status == "Deleted"
    assert world.ports.secrets.read(key) is None
    assert world.backend.clusters[NAME].status == BackendStatus.IN_SERVICE


def test_a_released_cluster_can_be_adopted_again(world: Adopted) -> None:
    world.ready()
    released(world)
    assert world.ready().generation == 2
    assert world.adoptions.installed == {HEAD, FIRST, SECOND}


def test_no_release_while_a_run_trains_not_even_by_force(world: Adopted) -> None:
    world.ready()
    run = submit(world)
    world.story.training()
    for force in (False, True):
        with pytest.raises(ClusterInUse) as refused:
            release_cluster(world.ports, NAME, force=force)
        assert run in refused.value.detail
        assert f"trainyard run cancel {run}" in refused.value.next_step
    assert world.adoptions.installed == {HEAD, FIRST, SECOND}
    world.story.checkpoint(4)
    world.story.end()
    release_cluster(world.ports, NAME)
    world.rest()
    assert world.cluster.status in ("Deleting", "Deleted")


def test_peoples_jobs_do_not_hinder_a_release_for_it_ends_none_of_them(world: Adopted) -> None:
    world.ready()
    world.hears(
        "ClusterHeartbeat", nodes=[], otherJobs={"running": 3, "queued": 1, "users": ["ada"]}
    )
    released(world)
    assert world.cluster.status == "Deleted"


def test_adopting_twice_is_refused_and_changes_nothing(world: Adopted) -> None:
    world.ready()
    with pytest.raises(ClusterExists, match="adopted already"):
        world.adopt()
    with pytest.raises(ClusterExists):
        adopt_cluster(world.ports, AdoptSpec(arn=ARN))
    assert world.cluster.generation == 1


def test_a_request_that_comes_again_with_its_key_is_the_same_adoption(world: Adopted) -> None:
    spec = AdoptSpec(name=NAME)
    first = adopt_cluster(world.ports, spec, "k")
    world.rest()
    assert adopt_cluster(world.ports, AdoptSpec(arn=ARN), "k").generation == first.generation
    other = AdoptSpec.model_validate({"name": NAME, "sharedDir": "/scratch"})
    with pytest.raises(IdempotencyConflict):
        adopt_cluster(world.ports, other, "k")


def test_without_rights_the_reason_is_told_and_nothing_stays_behind(world: Adopted) -> None:
    why = "ReadBundles: s3:GetObject is denied"
    world.adoptions.answers[HEAD] = NodeAnswer("failed", why)
    world.adopt()
    world.rest()
    for _ in range(8):
        world.story.world.clock.tick(61)
        world.rest()
    cluster = world.cluster
    assert cluster.status in ("Failed", "Deleting")
    assert cluster.problem is not None
    assert why in cluster.problem.detail
    assert "--dryrun" in cluster.problem.next_step
    assert {node for _, node in world.adoptions.asked} == {HEAD}, "no worker was touched"
    del world.adoptions.answers[HEAD]
    world.story.world.clock.tick(61)
    world.rest()
    assert world.cluster.status == "Deleted"
    assert world.adoptions.installed == set()


def test_nodes_that_another_trainyard_has_are_left_alone(world: Adopted) -> None:
    taken = NodeAnswer("taken", "the node is another Trainyard's (trainyard/prod/theirs/1)")
    world.adoptions.answers = dict.fromkeys((HEAD, FIRST, SECOND), taken)
    world.adopt()
    world.rest()
    world.story.world.clock.tick(61)
    world.rest()
    assert world.cluster.status == "Deleted"
    assert world.cluster.problem is not None
    assert "trainyard/prod/theirs/1" in world.cluster.problem.detail


def test_a_worker_that_fails_again_and_again_does_not_hold_up_the_others(world: Adopted) -> None:
    world.adoptions.errors[SECOND] = NodeUnreachable("it is not connected")
    world.adopt()
    world.rest()
    world.hears("ClusterReady", nodes=["ip-127-0-1-12"])
    for _ in range(12):
        world.story.world.clock.tick(20)
        world.rest()
    assert world.cluster.status == "Ready"
    assert world.cluster.adoption is not None
    assert world.cluster.adoption.nodes[SECOND].state == "failed"


def test_a_node_that_came_in_anothers_place_gets_the_agent_from_the_sweep(world: Adopted) -> None:
    world.ready()
    world.backend.node_lists[NAME][2] = a_node("i-00000099", number=13)
    done = sweep(world.ports)
    assert [one.action for one in done if "i-00000099" in one.subject] == ["agent installed"]
    assert world.cluster.adoption is not None
    assert set(world.cluster.adoption.nodes) == {HEAD, FIRST, "i-00000099"}
    released(world)
    assert world.adoptions.installed == {SECOND}, "its disk went with it"


def test_a_node_whose_agent_is_silent_for_long_is_asked_again(world: Adopted) -> None:
    world.ready()
    world.beat(HEAD, FIRST, SECOND)
    world.story.world.clock.tick(100)
    world.beat(HEAD, FIRST)
    asked = len(world.adoptions.asked)
    sweep(world.ports)
    assert len(world.adoptions.asked) == asked, "not at once: it may be a reboot"
    world.story.world.clock.tick(300)
    world.beat(HEAD, FIRST)
    sweep(world.ports)
    assert world.adoptions.asked[asked:] == [("install", SECOND)]


def test_a_lost_node_is_left_to_the_owners_unless_they_let_us_replace_it(world: Adopted) -> None:
    world.ready()
    submit(world)
    world.story.training()
    world.story.checkpoint(4)
    with pytest.raises(WrongState, match="made by others"):
        replace_node(world.ports, NAME, FIRST)
    with pytest.raises(WrongState, match="made by others"):
        reboot_node(world.ports, NAME, FIRST)
    world.backend.node_lists[NAME].append(a_node("i-00000014", number=14))
    world.story.lose("ip-127-0-1-13")
    world.story.pass_time(2400)
    world.story.sweep()
    assert world.backend.replaced == []
    told = [entry.message for entry in world.story.world.runs.entries[world.story.run_id].values()]
    assert any("left to the owners" in message for message in told), told


def test_owners_that_let_us_replace_nodes_are_believed_by_their_tag_only(world: Adopted) -> None:
    with pytest.raises(InvalidRequest) as refused:
        world.adopt(allow={"replaceNodes": True})
    assert refused.value.errors[0].field == "allow.replaceNodes"
    world.adoptions.seen = foreign(replaceable=True)
    world.ready(allow={"replaceNodes": True})
    replace_node(world.ports, NAME, FIRST)
    assert world.backend.replaced == [FIRST]


def test_a_node_that_cannot_be_reached_holds_up_the_release_until_it_is_forced(
    world: Adopted,
) -> None:
    world.ready()
    world.adoptions.errors[SECOND] = NodeUnreachable("it is not connected")
    release_cluster(world.ports, NAME)
    world.rest()
    for _ in range(5):
        world.story.world.clock.tick(61)
        world.rest()
    assert world.cluster.status == "Deleting"
    assert world.adoptions.installed == {SECOND}
    release_cluster(world.ports, NAME, force=True)
    for _ in range(5):
        world.story.world.clock.tick(61)
        world.rest()
    assert world.cluster.status == "Deleted"
    assert world.cluster.adoption is not None
    assert "ip-127-0-1-13 was given up: it is not connected" in world.cluster.adoption.left[0]


def test_what_a_release_must_leave_behind_is_named(world: Adopted) -> None:
    world.ready()
    left = ["/etc/systemd/system/trainyard-agent.service.d holds own.conf"]
    world.adoptions.answers[FIRST] = NodeAnswer("gone", left=left)
    released(world)
    assert world.cluster.adoption is not None
    assert world.cluster.adoption.left == [f"ip-127-0-1-12: {left[0]}"]


def test_a_cluster_that_its_owners_deleted_is_closed(world: Adopted) -> None:
    world.ready()
    world.beat(HEAD)
    del world.backend.clusters[NAME]
    world.backend.node_lists[NAME] = []
    for _ in range(4):
        world.story.world.clock.tick(600)
        sweep(world.ports)
        world.rest()
    assert world.cluster.status == "Deleted"


def test_a_cluster_of_our_own_is_not_released(world: Adopted) -> None:
    world.story.submit()
    world.story.rest()
    own = next(name for name in world.story.world.clusters.stored if name != NAME)
    with pytest.raises(WrongState, match="made by Trainyard"):
        release_cluster(world.ports, own)


def test_a_plan_tells_what_the_roles_must_allow_and_does_nothing(world: Adopted) -> None:
    plan = plan_adoption(world.ports, AdoptSpec(name=NAME))
    assert plan.policy["Statement"]
    assert plan.roles == ("arn:aws:iam::123456789012:role/Theirs",)
    assert NAME not in world.story.world.clusters.stored
    assert world.adoptions.asked == []


def test_a_cluster_that_aws_does_not_have_is_not_found(world: Adopted) -> None:
    world.adoptions.seen = None
    with pytest.raises(ClusterNotFound, match="AWS has no cluster"):
        world.adopt()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("crash", range(1, 60))
def test_a_process_that_dies_at_any_call_is_made_good(crash: int, after: bool) -> None:
    world = Adopted()
    world.story.world.fuse.arm(crash, after=after)
    for _ in range(40):
        if (stored := world.story.world.clusters.stored.get(NAME)) and stored.status == "Deleted":
            break
        try:
            _go_on(world)
        except Died:
            world.story.world.fuse.arm(None)
        except TrainyardError:
            pass
    assert world.cluster.status == "Deleted"
    assert world.adoptions.installed == set()
    assert world.backend.clusters[NAME].status == BackendStatus.IN_SERVICE


def _go_on(world: Adopted) -> None:
    stored = world.story.world.clusters.stored.get(NAME)
    if stored is None:
        world.adopt()
    elif stored.status == "Ready":
        release_cluster(world.ports, NAME)
    elif stored.status in ("Creating", "InService"):
        world.hears("ClusterReady", nodes=["ip-127-0-1-12"])
    world.story.world.clock.tick(61)
    sweep(world.ports)
    world.rest()


def test_a_node_that_is_not_running_is_not_asked(world: Adopted) -> None:
    node = world.backend.node_lists[NAME][2]
    world.backend.node_lists[NAME][2] = node.changed(status=NodeState.PENDING)
    world.ready()
    assert SECOND not in {node for _, node in world.adoptions.asked}


def test_the_name_of_a_released_cluster_that_is_there_is_taken(world: Adopted) -> None:
    world.ready()
    spec = read_cluster_spec(cluster_spec(name=NAME, workers=2))
    released(world)
    with pytest.raises(ClusterNameTaken) as refused:
        create_cluster(world.ports, spec)
    assert "trainyard cluster adopt theirs" in refused.value.next_step
    assert world.backend.made == 0
    assert world.cluster.adoption is not None


def test_a_run_that_waits_for_an_adopted_cluster_never_makes_one_of_its_name(
    world: Adopted,
) -> None:
    """Whatever the run's record says: its own cluster had that name, and others' has it now."""
    world.ready()
    spec = read_cluster_spec(cluster_spec(name=NAME, workers=2))
    run = world.story.submit(run_spec(cluster={"spec": cluster_spec(workers=2)}))
    stored = world.story.world.runs.stored[run.id]
    released(world)
    world.story.world.runs.stored[run.id] = stored.changed(
        cluster_name=NAME, spec=stored.spec.on(spec)
    )
    before = world.backend.made
    world.story.rest()
    world.story.pass_time(61)
    world.story.sweep()
    assert world.cluster.adoption is not None
    assert world.cluster.generation == 1
    assert world.backend.made == before
