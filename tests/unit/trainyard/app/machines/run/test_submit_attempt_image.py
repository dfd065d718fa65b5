"""What the agent says of a job's image: the digest that all attempts have, or why none starts."""

from __future__ import annotations

import json

import pytest
from tests.support.story import Story, run_spec
from tests.unit.trainyard.app.machines.run.test_keep_code import answers, submit

NAME = "registry.example/team/train:1"
DIGEST = f"sha256:{'4' * 64}"


def before_submit() -> Story:
    story = Story()
    story.submit(run_spec(job={"nodes": 2, "module": "train", "image": NAME}))
    story.ready()
    again = story.run.attempts[0].changed(submitted_at=None, job_id=None)
    story.world.runs.put(story.run.changed(attempts=[again], image_digest=""))
    del story.world.runs.entries[story.run_id]["status-submitted-1"]
    return story


def test_the_first_digest_is_kept_and_goes_with_every_later_bundle() -> None:
    story = before_submit()
    asked = answers(story, {"jobId": "7", "image": DIGEST}, exit_code=0)
    assert submit(story)["submitted"]
    assert story.run.image_digest == DIGEST
    assert "image" in " ".join(asked[0])
    again = story.run.attempts[0].changed(submitted_at=None)
    story.world.runs.put(story.run.changed(attempts=[again]))
    answers(story, {"jobId": "8", "image": f"sha256:{'5' * 64}"}, exit_code=0)
    submit(story)
    assert story.run.image_digest == DIGEST
    bundle = json.loads(story.world.blobs.objects[story.run.bundle_key(1)])
    assert bundle["image"]["digest"] == DIGEST


@pytest.mark.parametrize("code", ["image-refused", "image-needs-pyxis"])
def test_an_image_that_the_cluster_cannot_run_ends_the_run_before_anything_starts(
    code: str,
) -> None:
    story = before_submit()
    words = f"job.image '{NAME}': it is for arm64, and the job's nodes are amd64"
    asked = answers(story, {"error": code, "message": words})
    assert submit(story) == {"submitted": False}
    assert len(asked) == 1
    assert story.run.problem is not None
    assert (story.run.problem.code, story.run.problem.detail) == (code, words)
    assert (story.run.outcome, story.run.reason) == ("failed", words)


@pytest.mark.parametrize("words", [
    "--needs is not an option of 'submit'; it takes --run --attempt --bundle --sha256 --code",
    "--needs is not an option of 'submit' with 'image'; it knows watch, progress",
])  # fmt: skip
def test_an_agent_that_knows_no_images_is_refused_with_words(words: str) -> None:
    story = before_submit()
    answers(story, {"error": "invalid-request", "message": words})
    assert submit(story) == {"submitted": False}
    assert story.run.problem is not None
    assert story.run.problem.code == "agent-too-old"
    assert "job.image" in story.run.problem.detail
