"""Runs that begin after others: chains as stories, on the real state machine definitions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.resume_run import resume_run
from trainyard.domain.errors import InvalidRequest
from trainyard.domain.records import Run


def on(cluster: str, **extra: Any) -> dict[str, Any]:
    return {"cluster": {"name": cluster}, **extra}


def in_chain(story: Story, *, policy: str = "success", **extra: Any) -> Run:
    """A second run, after the story's own."""
    child = story.submit(
        run_spec(after=[story.run_id], afterPolicy=policy, name="evaluate", **extra)
    )
    story.rest()
    return child


def now(story: Story, run: Run) -> Run:
    return story.world.runs.stored[run.id]


def trained(story: Story) -> None:
    """The story's own run trains and ends well."""
    story.rest()
    story.training()
    story.end(lastStep=20)
    assert story.run.status == "Succeeded"


def two_on(cluster: str, **extra: Any) -> tuple[Story, Run]:
    story = Story()
    make_cluster(story, cluster)
    story.submit(**on(cluster))
    story.rest()
    return story, in_chain(story, **on(cluster), **extra)


def test_a_run_waits_until_the_run_before_it_has_succeeded() -> None:
    story, child = two_on("shared")
    waiting = now(story, child)
    assert waiting.status == "Waiting"
    assert waiting.reason == f"It begins after run 'ddp-demo' ({story.run_id})."
    trained(story)
    begun = now(story, child)
    assert begun.status == "Submitting"
    assert begun.after_met_at is not None
    assert (child.id, 1) in story.agent.jobs


def test_a_waiting_run_costs_no_transition_and_none_of_its_time() -> None:
    story, child = two_on("shared", limits={"maxDurationSeconds": 60})
    walker = story.machines.walkers["run", f"{child.id}-1"]
    before = len(walker.visited)
    story.pass_time(3600)
    assert len(walker.visited) == before
    trained(story)
    assert now(story, child).status == "Submitting"


def test_a_run_ends_when_the_run_before_it_fails_and_says_which_it_was() -> None:
    story = Story()
    make_cluster(story)
    story.submit(**on("shared", recovery={"maxAttempts": 1}))
    story.rest()
    child = in_chain(story, **on("shared"))
    story.training()
    story.end("failed", errorKind="unknown", lastStep=20)
    assert story.run.status == "Failed"
    ended = now(story, child)
    assert ended.status == "Failed"
    assert ended.problem is not None
    assert ended.problem.code == "parent-failed"
    assert story.run_id in ended.reason


def test_a_run_with_policy_end_begins_whatever_became_of_the_run_before_it() -> None:
    story, child = two_on("shared", policy="end")
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    assert now(story, child).status == "Submitting"


def test_a_run_is_resumed_after_the_run_before_it_has_succeeded_after_all() -> None:
    story, child = two_on("shared")
    story.training()
    story.cancel()
    story.rest()
    assert now(story, child).status == "Failed"
    resume_run(story.world.ports, story.run_id)
    resume_run(story.world.ports, child.id)
    story.rest()
    assert now(story, child).status == "Waiting"
    story.training()
    story.end(lastStep=20)
    assert now(story, child).status == "Submitting"


def test_a_waiting_run_can_be_cancelled_and_never_makes_a_cluster() -> None:
    story = Story()
    story.submit()
    story.rest()
    child = in_chain(story)
    story.cancel(child.id)
    story.rest()
    assert now(story, child).status == "Cancelled"
    assert child.cluster_name not in story.world.clusters.stored


def test_a_run_that_waits_keeps_its_cluster_from_being_deleted() -> None:
    story, child = two_on("shared")
    trained(story)
    assert now(story, child).status == "Submitting"
    assert story.world.runs.on_cluster("shared") == [now(story, child)]


@pytest.mark.parametrize("line", range(1, 40))
def test_a_chain_goes_on_wherever_a_process_dies(line: int) -> None:
    story, child = two_on("shared")
    story.training()
    story.world.fuse.arm(line)
    story.end(lastStep=20)
    story.world.fuse.arm(None)
    for _ in range(3):
        story.pass_time(61)
        story.sweep()
    assert story.run.status == "Succeeded"
    assert now(story, child).status == "Submitting"


def test_a_lost_wake_is_found_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    story, child = two_on("shared")
    monkeypatch.setattr(story.world.runs, "children", lambda run_id: [])
    trained(story)
    assert now(story, child).status == "Waiting"
    story.pass_time(61)
    story.sweep()
    assert now(story, child).status == "Submitting"


def bundle(story: Story, run: Run) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(story.world.blobs.objects[now(story, run).bundle_key(1)])
    return body


def reading(story: Story, path: str = "") -> list[dict[str, str]]:
    return [{"source": f"run:{story.run_id}/outputs{path}", "path": "model"}]


def test_outputs_of_a_run_on_the_same_cluster_are_read_where_they_are() -> None:
    story = Story()
    make_cluster(story)
    story.submit(**on("shared"))
    story.rest()
    child = in_chain(story, **on("shared"), inputs=reading(story, "/final"))
    trained(story)
    source = bundle(story, child)["inputs"][0]["source"]
    assert source == f"s3://sagemaker-trainyard-test/{story.run.export_prefix}final/"


def test_outputs_of_a_run_on_another_cluster_are_copied_below_the_run() -> None:
    story = Story()
    make_cluster(story)
    make_cluster(story, "other")
    story.submit(**on("shared"))
    story.rest()
    child = in_chain(story, **on("other"), inputs=reading(story))
    trained(story)
    source = bundle(story, child)["inputs"][0]["source"]
    prefix = f"{child.prefix}/inputs/0/"
    assert source == f"s3://sagemaker-trainyard-test/{prefix}"
    assert story.world.blobs.objects[f"{prefix}final/model.pt"].startswith(b"weights of")


def test_a_run_whose_input_the_run_before_it_did_not_export_ends_and_names_the_field() -> None:
    story = Story()
    make_cluster(story)
    story.submit(**on("shared"))
    story.rest()
    child = in_chain(story, **on("shared"), inputs=reading(story, "/tokens"))
    trained(story)
    ended = now(story, child)
    assert ended.status == "Failed"
    assert ended.problem is not None
    assert ended.problem.code == "input-refused"
    assert ended.reason.startswith("inputs.0.source: the export of run")
    assert "has nothing below 'tokens'" in ended.reason


def test_a_run_after_one_that_there_is_not_is_refused_by_its_field() -> None:
    story = Story()
    with pytest.raises(InvalidRequest) as refused:
        story.submit(run_spec(after=["run-" + "0" * 26]))
    assert refused.value.errors[0].field == "after.0"


def test_a_run_after_one_that_failed_is_refused_at_once() -> None:
    story = Story()
    make_cluster(story)
    story.submit(**on("shared"))
    story.cancel()
    story.rest()
    with pytest.raises(InvalidRequest, match="is Cancelled, so nothing can begin after"):
        in_chain(story, **on("shared"))
    assert in_chain(story, policy="end", **on("shared")).status == "Waiting"


def test_outputs_of_a_run_that_exports_nothing_are_refused() -> None:
    story = Story()
    make_cluster(story)
    story.submit(**on("shared", export={"enabled": False}))
    with pytest.raises(InvalidRequest, match="exports nothing"):
        in_chain(story, **on("shared"), inputs=reading(story))
