"""The life of a filesystem: made, linked, shared, exported, archived, deleted, and made again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.memory import Died, World
from tests.support.parallelcluster_specs import HEAD_SUBNET
from tests.support.parallelcluster_specs import SUBNET as QUEUE_SUBNET
from tests.support.parallelcluster_specs import spec as parallelcluster_spec
from tests.support.records import cluster as a_cluster
from tests.support.spec_parts import NETWORK, cluster_spec
from tests.support.training_jobs import spec as training_job_spec

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.filesystems.create_filesystem import create_filesystem, plan_filesystem
from trainyard.app.filesystems.delete_filesystem import delete_filesystem, export_filesystem
from trainyard.app.filesystems.show_filesystem import show_filesystem
from trainyard.app.sweep.sweep import sweep
from trainyard.domain import errors
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.filesystems import TaskEnd
from trainyard.outside.networks import Place
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.filesystems import FilesystemSpec

REPOSITORY = {"source": "s3://my-archive/lab/"}
SUBNET = NETWORK["subnetIds"][0]


@pytest.fixture
def world() -> World:
    return World()


def spec(name: str = "lab", **more: Any) -> FilesystemSpec:
    given = {
        "name": name,
        "subnetId": SUBNET,
        "securityGroupIds": NETWORK["securityGroupIds"],
        "repository": REPOSITORY,
        **more,
    }
    return FilesystemSpec.model_validate(given)


def made(world: World, **more: Any) -> Filesystem:
    """One that is Available."""
    create_filesystem(world.ports, spec(**more))
    sweep(world.ports)
    now = world.filesystems.get("lab")
    world.lustre.advance(now.fsx_id or "", "there", "AVAILABLE")
    sweep(world.ports)
    if now.spec.repository is not None:
        world.lustre.link_is(now.fsx_id or "", "there")
        sweep(world.ports)
    found = world.filesystems.get("lab")
    assert found.status == "Available", found
    return found


def cluster_on(name: str, **more: Any) -> Any:
    shared = {"sharedFilesystem": {"filesystem": "lab"}}
    return read_cluster_spec({**cluster_spec(name), **shared, **more})


def lines(world: World) -> str:
    return "\n".join(line.message for line in world.filesystems.get("lab").lines)


# made


def test_a_filesystem_becomes_available_when_fsx_made_it_and_imported_its_repository(
    world: World,
) -> None:
    filesystem = made(world)
    assert (filesystem.zone, filesystem.vpc) == ("us-east-1a", "vpc-0123456789abcdef0")
    assert filesystem.dns_name.startswith("fs-")
    assert "Clusters may mount it." in lines(world)


def test_nothing_is_asked_of_fsx_by_a_dry_run(world: World) -> None:
    plan = plan_filesystem(world.ports, spec())
    assert plan.requests[0].request["StorageCapacity"] == 1200
    assert plan.monthly_usd == pytest.approx(174.0)
    assert not world.lustre.there
    assert not world.filesystems.stored


def test_the_same_key_gives_the_same_filesystem_and_another_body_is_refused(world: World) -> None:
    first = create_filesystem(world.ports, spec(), idempotency_key="k")
    assert create_filesystem(world.ports, spec(), idempotency_key="k") == first
    with pytest.raises(errors.IdempotencyConflict):
        create_filesystem(world.ports, spec(storageGib=2400), idempotency_key="k")
    with pytest.raises(errors.FilesystemExists):
        create_filesystem(world.ports, spec(), idempotency_key="other")


def test_a_spec_without_a_subnet_is_refused_where_the_stack_names_none(world: World) -> None:
    with pytest.raises(errors.InvalidRequest, match="subnetId: is needed"):
        create_filesystem(world.ports, spec(subnetId=None))
    with pytest.raises(errors.InvalidRequest) as refused:
        create_filesystem(world.ports, spec(subnetId=None, securityGroupIds=None))
    assert [one.field for one in refused.value.errors] == ["subnetId", "securityGroupIds"]


def test_the_stacks_own_bucket_is_no_repository(world: World) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"repository.source: 'trainyard-data'"):
        create_filesystem(world.ports, spec(repository={"source": "s3://trainyard-data/"}))


def test_what_fsx_refuses_is_kept_as_the_reason(world: World) -> None:
    world.lustre.refuse["create"] = errors.BackendRejected("the limit of filesystems is reached")
    create_filesystem(world.ports, spec())
    sweep(world.ports)
    failed = world.filesystems.get("lab")
    assert failed.status == "Failed"
    assert failed.problem is not None
    assert "limit of filesystems" in failed.problem.detail


def test_a_link_that_fsx_cannot_make_fails_the_filesystem_which_may_then_be_deleted(
    world: World,
) -> None:
    create_filesystem(world.ports, spec())
    sweep(world.ports)
    fsx_id = world.filesystems.get("lab").fsx_id or ""
    world.lustre.advance(fsx_id, "there")
    sweep(world.ports)
    world.lustre.link_is(fsx_id, "broken", "no access to the bucket")
    sweep(world.ports)
    assert "repository.source (s3://my-archive/lab/): no access to the bucket" in lines(world)
    delete_filesystem(world.ports, "lab", discard=False, reason=None)
    sweep(world.ports)
    assert world.lustre.deleted == [fsx_id]


# shared


def test_several_clusters_share_it_and_are_its_users_until_they_are_deleted(world: World) -> None:
    filesystem = made(world)
    one = create_cluster(world.ports, cluster_on("one"))
    create_cluster(world.ports, cluster_on("two"))
    assert one.filesystem == filesystem.place
    assert show_filesystem(world.ports, "lab").users.clusters == ["one", "two"]
    world.clusters.stored["one"] = one.changed(status="Deleted")
    assert show_filesystem(world.ports, "lab").users.clusters == ["two"]


def test_the_same_key_again_gives_the_same_cluster_though_the_filesystem_is_going(
    world: World,
) -> None:
    made(world)
    first = create_cluster(world.ports, cluster_on("one"), idempotency_key="k")
    world.filesystems.stored["lab"] = world.filesystems.get("lab").changed(status="Deleting")
    again = create_cluster(world.ports, cluster_on("one"), idempotency_key="k")
    assert (again.name, again.generation) == (first.name, first.generation)


def test_a_cluster_is_refused_whose_filesystem_is_unknown_or_not_available(world: World) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"sharedFilesystem.filesystem: no filesystem"):
        create_cluster(world.ports, cluster_on("one"))
    create_filesystem(world.ports, spec())
    with pytest.raises(errors.InvalidRequest, match="'lab' is Pending; wait until"):
        create_cluster(world.ports, cluster_on("one"))
    assert "one" not in world.clusters.stored


def test_a_cluster_in_another_network_is_refused_with_both_networks(world: World) -> None:
    made(world)
    world.networks.elsewhere[SUBNET] = Place("vpc-0fffffffffffffff0", "us-east-1a")
    with pytest.raises(errors.InvalidRequest, match=r"vpc-0123456789abcdef0, and subnet .*0fff"):
        create_cluster(world.ports, cluster_on("one"))


def test_a_head_node_in_another_network_is_refused_and_in_another_zone_a_warning(
    world: World,
) -> None:
    made(world)
    given = parallelcluster_spec(name="queues", fsx={"filesystem": "lab"})
    world.networks.elsewhere[HEAD_SUBNET] = Place("vpc-0fffffffffffffff0", "us-east-1a")
    with pytest.raises(errors.InvalidRequest, match=f"{HEAD_SUBNET} in vpc-0fffffffffffffff0"):
        create_cluster(world.ports, read_cluster_spec(given))
    world.networks.elsewhere[HEAD_SUBNET] = Place("vpc-0123456789abcdef0", "us-east-1b")
    cluster = create_cluster(world.ports, read_cluster_spec(given))
    assert "lies in us-east-1a, and nodes may be in us-east-1b" in cluster.warnings[0]


def test_a_cluster_in_another_zone_is_made_with_a_warning(world: World) -> None:
    made(world)
    world.networks.elsewhere[SUBNET] = Place("vpc-0123456789abcdef0", "us-east-1b")
    cluster = create_cluster(world.ports, cluster_on("one"))
    assert "lies in us-east-1a, and nodes may be in us-east-1b" in cluster.warnings[0]


def test_a_queue_in_another_zone_is_a_warning_that_names_both_zones(world: World) -> None:
    made(world)
    world.networks.elsewhere[QUEUE_SUBNET] = Place("vpc-0123456789abcdef0", "us-east-1b")
    given = parallelcluster_spec(name="queues", fsx={"filesystem": "lab"})
    cluster = create_cluster(world.ports, read_cluster_spec(given))
    assert "lies in us-east-1a, and nodes may be in us-east-1b" in cluster.warnings[0]


def test_a_cluster_in_a_subnet_that_is_not_there_is_refused(world: World) -> None:
    made(world)
    world.networks.elsewhere[SUBNET] = None
    with pytest.raises(errors.InvalidRequest, match=f"no subnet {SUBNET}"):
        create_cluster(world.ports, cluster_on("one"))


# exported


def test_an_export_is_verified_when_fsx_copied_every_file(world: World) -> None:
    made(world)
    export_filesystem(world.ports, "lab")
    sweep(world.ports)
    assert world.filesystems.get("lab").export.state == "running"  # type: ignore[union-attr]
    world.lustre.end(TaskEnd("succeeded", files=7))
    sweep(world.ports)
    verified = world.filesystems.get("lab").verified
    assert verified is not None
    assert (verified.files, verified.asked_by) == (7, "person")


def test_files_that_fsx_could_not_export_are_counted_and_their_list_is_named(world: World) -> None:
    made(world)
    export_filesystem(world.ports, "lab")
    sweep(world.ports)
    world.lustre.end(TaskEnd("succeeded", files=7, failed_files=2))
    sweep(world.ports)
    filesystem = world.filesystems.get("lab")
    assert filesystem.verified is None
    assert filesystem.problem is not None
    assert "2 of 7 files; s3://my-archive/lab/trainyard-export-reports/" in (
        filesystem.problem.detail
    )


def test_an_export_waits_for_another_task_of_fsx(world: World) -> None:
    made(world)
    world.lustre.refuse["export"] = errors.ConflictError("a task is executing")
    export_filesystem(world.ports, "lab")
    sweep(world.ports)
    assert world.filesystems.get("lab").waits_for == "a task is executing"
    del world.lustre.refuse["export"]
    sweep(world.ports)
    assert world.filesystems.get("lab").export.state == "running"  # type: ignore[union-attr]


def test_fsx_exports_nothing_by_itself_while_an_export_runs_and_again_afterwards(
    world: World,
) -> None:
    made(world, repository={**REPOSITORY, "exportChanges": ["new", "changed"]})
    (link,) = world.lustre.by_itself
    export_filesystem(world.ports, "lab")
    sweep(world.ports)
    assert world.lustre.by_itself[link] is False
    world.lustre.end(TaskEnd("succeeded", files=1))
    sweep(world.ports)
    assert world.lustre.by_itself[link] is True
    assert not world.filesystems.get("lab").paused


def test_each_night_one_export_begins_and_a_missed_one_is_made_up_for(world: World) -> None:
    made(world, nightlyExport="02:00Z")  # it is 12:00
    sweep(world.ports)
    assert world.filesystems.get("lab").export is None
    for night in (1, 2):
        world.clock.tick(timedelta(hours=15 if night == 1 else 24).total_seconds())
        for _ in range(3):
            sweep(world.ports)
        world.lustre.end(TaskEnd("succeeded", files=night))
        sweep(world.ports)
        assert len(world.lustre.tasks) == night
    assert world.filesystems.get("lab").verified.files == 2  # type: ignore[union-attr]


def test_a_filesystem_without_a_repository_exports_nowhere(world: World) -> None:
    made(world, repository=None)
    with pytest.raises(errors.WrongState, match="no repository"):
        export_filesystem(world.ports, "lab")


# deleted


def test_what_it_holds_is_exported_and_verified_before_it_is_deleted(world: World) -> None:
    fsx_id = made(world).fsx_id or ""
    delete_filesystem(world.ports, "lab", discard=False, reason=None)
    sweep(world.ports)
    assert not world.lustre.deleted
    world.lustre.end(TaskEnd("succeeded", files=3))
    sweep(world.ports)
    assert world.lustre.deleted == [fsx_id]
    world.lustre.gone(fsx_id)
    sweep(world.ports)
    assert world.filesystems.get("lab").status == "Deleted"


def test_it_stays_when_its_last_export_fails(world: World) -> None:
    made(world)
    delete_filesystem(world.ports, "lab", discard=False, reason=None)
    sweep(world.ports)
    world.lustre.end(TaskEnd("failed", files=3, failed_files=1, said="a file is too large"))
    sweep(world.ports)
    filesystem = world.filesystems.get("lab")
    assert (filesystem.status, world.lustre.deleted) == ("Available", [])
    assert "It is not deleted: its export failed" in lines(world)


def test_it_is_not_deleted_while_a_cluster_or_a_run_uses_it(world: World) -> None:
    made(world)
    create_cluster(world.ports, cluster_on("one"))
    for discard in (False, True):
        with pytest.raises(errors.FilesystemInUse, match="cluster 'one'"):
            delete_filesystem(world.ports, "lab", discard=discard, reason="really")


def test_a_cluster_that_names_it_by_its_dns_name_is_a_user_too(world: World) -> None:
    filesystem = made(world)
    shared = {"dnsName": filesystem.dns_name, "mountName": filesystem.mount_name}
    create_cluster(world.ports, cluster_on("one", sharedFilesystem=shared))
    with pytest.raises(errors.FilesystemInUse):
        delete_filesystem(world.ports, "lab", discard=False, reason=None)


def test_a_cluster_that_comes_while_it_is_archived_keeps_it(world: World) -> None:
    filesystem = made(world)
    delete_filesystem(world.ports, "lab", discard=False, reason=None)
    shared = {"dnsName": filesystem.dns_name, "mountName": filesystem.mount_name}
    create_cluster(world.ports, cluster_on("one", sharedFilesystem=shared))
    sweep(world.ports)
    world.lustre.end(TaskEnd("succeeded", files=3))
    sweep(world.ports)
    assert (world.filesystems.get("lab").status, world.lustre.deleted) == ("Available", [])


def test_a_cluster_that_was_promised_it_and_not_stored_yet_keeps_it_for_a_while(
    world: World,
) -> None:
    made(world)
    world.fuse.arm(None)
    create_cluster(world.ports, cluster_on("one"))
    del world.clusters.stored["one"]
    with pytest.raises(errors.FilesystemInUse):
        delete_filesystem(world.ports, "lab", discard=False, reason=None)
    world.clock.tick(601)
    assert delete_filesystem(world.ports, "lab", discard=False, reason=None).status == "Archiving"


def test_without_a_repository_it_is_deleted_only_by_giving_up_what_it_holds(world: World) -> None:
    made(world, repository=None)
    with pytest.raises(errors.FilesystemHoldsOnlyCopy, match="nowhere else"):
        delete_filesystem(world.ports, "lab", discard=False, reason=None)
    with pytest.raises(errors.InvalidRequest, match="reason: is needed"):
        delete_filesystem(world.ports, "lab", discard=True, reason=None)
    delete_filesystem(world.ports, "lab", discard=True, reason="only test data")
    sweep(world.ports)
    assert len(world.lustre.deleted) == 1
    assert "because: only test data" in lines(world)


def test_one_that_is_to_be_kept_is_never_deleted(world: World) -> None:
    made(world, deletionPolicy="keep")
    for discard in (False, True):
        with pytest.raises(errors.FilesystemInUse, match="keep"):
            delete_filesystem(world.ports, "lab", discard=discard, reason="really")


def test_the_name_is_free_again_and_the_new_one_is_another(world: World) -> None:
    first = made(world)
    delete_filesystem(world.ports, "lab", discard=True, reason="anew")
    sweep(world.ports)
    world.lustre.gone(first.fsx_id or "")
    sweep(world.ports)
    second = made(world)
    assert (second.generation, second.fsx_id != first.fsx_id) == (2, True)


def test_one_that_somebody_deleted_in_aws_is_closed_with_words(world: World) -> None:
    world.lustre.gone(made(world).fsx_id or "")
    sweep(world.ports)
    assert world.filesystems.get("lab").status == "Deleted"
    assert "was deleted outside Trainyard" in lines(world)


# crashes


def test_a_crash_at_any_call_leaves_one_filesystem_that_is_known(world: World) -> None:
    """From its creation to its end, dying before and after each call of a port."""
    for after in (False, True):
        for call in range(1, 600):
            here = World()
            here.fuse.arm(call, after=after)
            if not _life(here):
                break
            here.fuse.arm(None)
            _life_goes_on(here)
            made_ids = [one for one in here.lustre.tokens.values() if one.startswith("fs-")]
            assert len(made_ids) == 1, (call, after)
            assert here.filesystems.get("lab").status == "Deleted", (call, after)
            assert not here.lustre.there, (call, after)
        else:
            pytest.fail("the life of a filesystem has more calls than were tried")


def _life(world: World) -> bool:
    """True if the process died."""
    try:
        create_filesystem(world.ports, spec(), idempotency_key="k")
        _sweeps(world)
        delete_filesystem(world.ports, "lab", discard=False, reason=None)
        _sweeps(world)
    except Died:
        return True
    return False


def _life_goes_on(world: World) -> None:
    create_filesystem(world.ports, spec(), idempotency_key="k")
    _sweeps(world)
    if world.filesystems.get("lab").status != "Deleted":
        delete_filesystem(world.ports, "lab", discard=False, reason=None)
    _sweeps(world)


def _sweeps(world: World) -> None:
    """FSx does what it is asked for between two sweeps."""
    for _ in range(8):
        sweep(world.ports)
        for seen in list(world.lustre.there.values()):
            if seen.life == "coming":
                world.lustre.advance(seen.fsx_id, "there")
            elif seen.life == "going":
                world.lustre.gone(seen.fsx_id)
        for fsx_id in set(world.lustre.linked_to.values()):
            world.lustre.link_is(fsx_id, "there")
        if world.lustre.tasks:
            world.lustre.end(TaskEnd("succeeded", files=1))


def test_a_filesystem_that_no_record_accounts_for_is_told_and_never_deleted(world: World) -> None:
    fsx_id = made(world).fsx_id or ""
    world.filesystems.stored.clear()
    assert not [one for one in sweep(world.ports) if "unknown" in one.action]
    world.clock.tick(world.ports.config.orphan_seconds + 1)
    (told,) = [one for one in sweep(world.ports) if one.action == "unknown filesystem kept"]
    assert told.subject == fsx_id
    assert "never deleted" in told.reason
    assert not world.lustre.deleted


def test_a_cluster_of_another_backend_whose_data_lie_on_it_is_a_user(world: World) -> None:
    """A training job mounts a directory of it by its id."""
    filesystem = made(world)
    source = {"fileSystemId": filesystem.fsx_id, "directoryPath": "/abcdefgh/data"}
    channels = [{"name": "data", "fileSystem": source}]
    job = training_job_spec(channels=channels, network=NETWORK)
    world.clusters.stored["job"] = a_cluster(name="job", spec=job)
    with pytest.raises(errors.FilesystemInUse, match="cluster 'job'"):
        delete_filesystem(world.ports, "lab", discard=True, reason="really")
