"""A result that cannot be exported keeps its cluster, and submitting warns of it before."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.story import Story, in_training, make_cluster, run_spec

from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.runs.request_export import request_export
from trainyard.domain import result_warnings, results
from trainyard.domain.errors import ClusterInUse
from trainyard_agent.checkpoints import own_files

PLAIN: dict[str, Any] = {"nodes": 2, "script": "train.py", "files": {"train.py": "print()"}}


def trained(outcome: str = "succeeded", **manifest: Any) -> Story:
    """A run whose program left no checkpoint and no final model."""
    story = in_training()
    story.agent.final_model, story.agent.manifest = False, manifest
    story.end(outcome)
    story.pass_time(60)
    return story


@pytest.mark.parametrize(
    "manifest",
    [
        {"outputFiles": 1},
        {"workingFiles": 1},
        {"lastStep": 7},
        {"outputFiles": 1, "workingLeftOut": 9},
    ],
)
def test_a_run_whose_result_was_exported_lets_its_cluster_go(manifest: dict[str, Any]) -> None:
    story = trained(**manifest)
    assert story.run.status == "Succeeded"
    assert story.cluster.status == "Deleted"


@pytest.mark.parametrize(
    "manifest",
    [{"workingLeftOut": 3, "leftOutBytes": 30 * 1024**3}, {"outputFiles": 5, "outputLeftOut": 1}],
)
def test_a_cluster_with_the_only_copy_of_what_was_too_much_to_export_stays_and_says_what_to_do(
    manifest: dict[str, Any],
) -> None:
    story = trained(**manifest)
    assert story.run.status == "Succeeded"
    assert story.cluster.status == "Ready"
    assert "of the program's own" in story.run.teardown_refused
    assert "TRAINYARD_OUTPUT_DIR" in story.run.teardown_refused
    assert story.run.teardown_refused in story.said
    story.world.clock.tick(86400)
    assert [swept.action for swept in story.sweep() if swept.action != "kept"] == []
    assert story.cluster.status == "Ready"
    with pytest.raises(ClusterInUse):
        delete_cluster(story.world.ports, story.cluster.name)


def test_more_files_than_an_export_takes_are_said_as_that_and_belong_into_archives() -> None:
    story = trained(outputFiles=20_000, outputLeftOut=80_000, leftOutBytes=7 * 1024**2)
    said = story.run.teardown_refused
    assert (
        "80000 files of the program's own (7.0 MiB): the output directory has more than the "
        "20,000 files that an export takes." in said
    )
    assert "Pack them into archives in TRAINYARD_OUTPUT_DIR and export the run again" in said
    assert "Put them" not in said


def test_what_is_said_at_submission_is_the_limit_that_the_agent_has() -> None:
    assert results.OUTPUT_FILES == own_files.OUTPUT_FILES
    assert "up to 20,000 files (pack more of them into archives)" in result_warnings.WHERE


def test_the_kept_cluster_goes_once_an_export_holds_what_was_left_behind() -> None:
    story = trained(workingLeftOut=3)
    story.agent.manifest = {"outputFiles": 3}
    request_export(story.world.ports, story.run_id)
    story.rest()
    story.pass_time(60)
    assert story.run.status == "Succeeded"
    assert story.cluster.status == "Deleted"


def test_a_succeeded_run_without_any_result_keeps_its_cluster_until_it_was_idle_for_its_limit() -> (
    None
):
    story = trained()
    assert story.run.status == "Succeeded"
    assert "No result was found" in story.run.teardown_refused
    assert "1800 s" in story.run.teardown_refused
    story.world.clock.tick(1500)
    assert story.sweep() == []
    assert story.cluster.status == "Ready"
    story.world.clock.tick(400)
    story.beat()
    assert [swept.action for swept in story.sweep()] == ["teardown"]
    story.pass_time(60)
    assert story.cluster.status == "Deleted"


def test_a_failed_run_without_a_result_needs_no_cluster_but_what_it_left_behind_does() -> None:
    def failed(**manifest: Any) -> Story:
        story = Story()
        story.submit(run_spec(recovery={"maxAttempts": 1}))
        story.ready()
        story.training()
        story.agent.final_model, story.agent.manifest = False, manifest
        story.end("failed")
        story.pass_time(60)
        assert story.run.status == "Failed"
        return story

    assert failed().cluster.status == "Deleted"
    assert failed(workingLeftOut=1).cluster.status == "Ready"


def test_a_run_that_asked_for_no_checkpoints_misses_none() -> None:
    story = Story()
    story.submit(run_spec(export={"checkpoints": "none"}))
    story.ready()
    story.training()
    story.agent.final_model = False
    story.end()
    story.pass_time(60)
    assert story.cluster.status == "Deleted"


def test_what_a_run_left_behind_keeps_a_shared_cluster_too() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    story.training()
    story.agent.final_model, story.agent.manifest = False, {"workingLeftOut": 1}
    story.end()
    story.world.clock.tick(86400)
    assert [swept.action for swept in story.sweep()] == ["kept"]


def test_submitting_a_program_that_is_not_ours_says_where_its_results_belong() -> None:
    story = Story()
    run = story.submit(run_spec().model_copy(update={"job": run_spec().job.model_validate(PLAIN)}))
    assert "TRAINYARD_OUTPUT_DIR" in run.warnings[0]
    story.rest()
    assert run.warnings[0] in story.said
    assert Story().submit().warnings == []
