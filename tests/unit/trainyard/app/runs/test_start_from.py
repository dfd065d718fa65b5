"""A run can begin with a whole checkpoint of another run that lies where its nodes reach it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.parallelcluster_specs import spec as parallelcluster_spec
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, run_spec
from tests.support.training_jobs import spec_fields

from trainyard.app.runs.dry_run import dry_run_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.errors import InvalidRequest
from trainyard.domain.records import Cluster, Export, Run
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.files import JobBundle
from trainyard_contracts.specs import RunSpec

IMAGE = "1.dkr.ecr.us-east-1.amazonaws.com/pytorch:1"
NOBODY = "run-" + "0" * 26


def trained() -> Story:
    """A run with whole checkpoints at steps 20 and 30, where runs may have training jobs, too."""
    story = Story()
    ports = story.world.ports
    backends = {**ports.backends, "training-job": ports.backends["hyperpod"]}
    story.world.ports = replace(ports, backends=backends)
    story.submit(run_spec())
    story.ready()
    story.training()
    for step in (10, 20, 30):
        story.checkpoint(step)
    story.prune(10)
    return story


def asked(run: str, step: int, *, mount: str = "", **more: Any) -> RunSpec:
    spec = cluster_spec(workers=2, spares=1)
    if mount:
        spec["sharedFilesystem"] = {**spec["sharedFilesystem"], "mountName": mount}
    checkpoint = {"startFrom": {"run": run, "step": step}}
    return run_spec(cluster={"spec": spec}, checkpoint=checkpoint, **more)


def refused(story: Story, spec: RunSpec) -> str:
    with pytest.raises(InvalidRequest) as error:
        submit_run(story.world.ports, spec)
    with pytest.raises(InvalidRequest):
        dry_run_run(story.world.ports, spec)
    (field,) = error.value.errors
    return f"{field.field}: {field.message}"


def begin(story: Story, spec: RunSpec) -> Run:
    run = story.submit(spec)
    story.run_id = run.id
    return run


def test_the_job_is_told_where_it_lies_and_an_agent_that_cannot_is_asked_for_it() -> None:
    story = trained()
    source = story.run_id
    begin(story, asked(source, 20))
    story.ready()
    bundle = JobBundle.model_validate_json(story.world.blobs.objects[story.run.bundle_key(1)])
    assert bundle.start_from is not None
    assert (bundle.start_from.run_id, bundle.start_from.step) == (source, 20)
    assert bundle.start_from.path == "checkpoints/step-000000000020-attempt-1"
    submit = [argv for argv in story.world.commands.ran if argv[1] == "submit"][-1]
    assert "--needs=start" in submit


def test_a_step_that_has_no_whole_checkpoint_is_refused_with_those_that_there_are() -> None:
    story = trained()
    assert refused(story, asked(story.run_id, 10)) == (
        f"checkpoint.startFrom.step: run {story.run_id} has no whole checkpoint at step 10; "
        "it has 30, 20"
    )


def test_a_run_that_there_is_not_and_another_filesystem_are_refused() -> None:
    story = trained()
    assert "there is no run" in refused(story, asked(NOBODY, 1))
    words = refused(story, asked(story.run_id, 20, mount="another"))
    assert "use a cluster with that filesystem" in words


def test_one_filesystem_serves_both_backends_whatever_words_their_specs_have_for_it() -> None:
    story = trained()
    fsx_id = story.cluster.filesystem.partition(".")[0]
    checkpoint = {"startFrom": {"run": story.run_id, "step": 20}}
    for given, fits in ((fsx_id, True), ("fs-0fffffffffffffff0", False)):
        spec = parallelcluster_spec(name="queues", fsx={"fileSystemId": given})
        asking = run_spec(cluster={"spec": spec}, checkpoint=checkpoint)
        if fits:
            start = submit_run(story.world.ports, asking).start_from
            assert start is not None
            assert (start.run_id, start.step, start.export) == (story.run_id, 20, "")
        else:
            assert "use a cluster with that filesystem" in refused(story, asking)


def test_an_agent_that_does_not_know_it_ends_the_run_before_it_trains_from_nothing() -> None:
    story = trained()
    begin(story, asked(story.run_id, 20))
    words = "--needs must be watch, progress or both, got 'start'"
    real = story.world.commands.answer

    def older(cluster: Any, argv: list[str]) -> Any:
        answer = real(cluster, argv)
        return type(answer)(1, f'{{"message": "{words}"}}', "") if argv[1] == "submit" else answer

    story.world.commands.answer = older
    story.ready()
    story.rest()
    assert story.run.problem is not None
    assert story.run.problem.code == "agent-too-old"


def test_a_verified_export_serves_a_cluster_of_the_same_name_with_another_filesystem() -> None:
    story = trained()
    ports, source = story.world.ports, story.run
    path = "checkpoints/step-000000000020-attempt-1"
    spec = cluster_spec(workers=2, spares=1)
    spec["sharedFilesystem"] = {**spec["sharedFilesystem"], "mountName": "another"}
    now = story.world.clock.now()
    named = read_cluster_spec({**spec, "name": "again"})
    story.world.clusters.create(
        Cluster(name="again", spec=named, status="Ready", created_at=now, updated_at=now)
    )
    prefix = f"clusters/again/runs/{source.id}"
    export = Export(id="e", state="verified", requested_at=now)
    story.world.runs.put(source.changed(objects_prefix=prefix, export=export))
    asking = run_spec(
        cluster={"name": "again"}, checkpoint={"startFrom": {"run": source.id, "step": 20}}
    )
    assert "the run was exported" in refused(story, asking), "that checkpoint is not in it"
    story.world.blobs.put(f"{prefix}/export/{path}/manifest.json", b"{}")
    start = submit_run(ports, asking).start_from
    assert start is not None
    assert (start.path, start.export) == (path, f"{prefix}/export/{path}")


def of_jobs(run: str, step: int) -> RunSpec:
    """A run of training jobs that begins with this checkpoint."""
    spec = spec_fields(framework=None, image=IMAGE, channels=None)
    return run_spec(cluster={"spec": spec}, checkpoint={"startFrom": {"run": run, "step": step}})


def test_a_training_job_begins_with_what_s3_has_of_a_run_on_whatever_backend() -> None:
    story = trained()
    source, path = story.run, "checkpoints/step-000000000020-attempt-1"
    with pytest.raises(InvalidRequest, match=r"S3 does not have step 20 .*run export"):
        submit_run(story.world.ports, of_jobs(source.id, 20))

    export = Export(id="e", state="verified", requested_at=story.world.clock.now())
    story.world.runs.put(source.changed(export=export))
    exported = f"{source.export_prefix}{path}"
    story.world.blobs.put(f"{exported}/manifest.json", b"{}")
    start = submit_run(story.world.ports, of_jobs(source.id, 20)).start_from
    assert start is not None
    assert (start.path, start.export) == (path, exported)

    directory = f"directories/{source.cluster_name}/{source.id}/{path}"
    story.world.blobs.put(f"{directory}/manifest.json", b"{}")
    start = submit_run(story.world.ports, of_jobs(source.id, 20)).start_from
    assert start is not None
    assert start.export == exported, "it stays, and a directory goes once its export is verified"
    del story.world.blobs.objects[f"{exported}/manifest.json"]
    start = submit_run(story.world.ports, of_jobs(source.id, 20)).start_from
    assert start is not None
    assert start.export == directory


def test_one_way_cannot_begin_with_what_only_another_way_reads() -> None:
    story = trained()
    source, path = story.run, "checkpoints/step-000000000020-attempt-1"
    directory = f"directories/{source.cluster_name}/{source.id}/{path}"
    story.world.blobs.put(f"{directory}/manifest.json", b"{}")
    jobs = spec_fields(name="demo", framework=None, image=IMAGE, channels=None)
    nodes = cluster_spec("demo", workers=2, spares=0)
    begin_with = {"startFrom": {"run": source.id, "step": 20}}
    for first, second in ((nodes, jobs), (jobs, nodes)):
        both = {"spec": first, "otherwise": [second]}
        words = refused(story, run_spec(cluster=both, checkpoint=begin_with))
        assert words.startswith("checkpoint.startFrom: training jobs read it from S3"), words
