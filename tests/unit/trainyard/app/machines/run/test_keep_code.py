"""A run keeps the bytes that it was submitted with: each attempt has the very same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.memory import Died
from tests.support.story import Story, run_spec
from tests.support.trees import packed, upload_spec

from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run import keep_code
from trainyard.app.machines.run.plan_run import plan_run
from trainyard.app.machines.run.submit_attempt import submit_attempt
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.uploads import request_upload
from trainyard.domain.errors import RetryableError
from trainyard.domain.records import Cluster
from trainyard.outside.commands import CommandResult
from trainyard_contracts import places
from trainyard_contracts.files import JobBundle
from trainyard_contracts.trees import UploadSpec

FILES = {"train.py": b"print()\n", "data.bin": b"x" * 900 + b"y" * 1600}
TREE, PACKS = packed(FILES)
SPEC = UploadSpec.model_validate(upload_spec(TREE, PACKS))
ID = SPEC.tree.sha256
JOB = {"nodes": 2, "recipe": "command", "script": "train.py", "workdir": ID}


def uploaded() -> Story:
    story = Story()
    for body in (TREE.document(), *PACKS.values()):
        story.world.uploads.put(body)
    assert request_upload(story.world.ports, SPEC).state == "Complete"
    return story


def submitted() -> Story:
    story = uploaded()
    story.submit(run_spec(job=JOB))
    return story


def expire(story: Story, *, but: str = "") -> None:
    for key in list(story.world.blobs.objects):
        if key.startswith("uploads/") and not (but and key.endswith(but)):
            del story.world.blobs.objects[key]


def kept(story: Story) -> set[str]:
    prefix = f"{places.code_prefix(story.run.prefix)}/"
    objects = story.world.blobs.objects
    return {key.removeprefix(prefix) for key in objects if key.startswith(prefix)}


def plan(story: Story) -> None:
    plan_run(story.world.ports, StepInput("plan", run_id=story.run_id, generation=1))


def test_a_run_has_its_own_copy_before_it_has_a_cluster() -> None:
    story = submitted()
    plan(story)
    assert kept(story) == {ID, *PACKS}
    assert story.world.clusters.stored == {}
    expire(story)
    story.ready()
    key = story.run.bundle_key(1)
    bundle = JobBundle.model_validate_json(story.world.blobs.objects[key])
    assert bundle.code is not None
    assert (bundle.code.tree, bundle.code.prefix) == (ID, f"{story.run.prefix}/code")
    assert "keeps its own copy of job.workdir: 2 files, 2.4 KiB" in story.said


def test_each_attempt_names_the_same_code() -> None:
    story = submitted()
    story.ready()
    story.training()
    story.lose("ip-127-0-1-12")
    first, second = (
        json.loads(story.world.blobs.objects[story.run.bundle_key(n)])["code"] for n in (1, 2)
    )
    assert first == second


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_the_step_dies_the_next_one_copies_the_rest(
    after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_code, "_AT_ONCE", 1)  # the fuse counts calls of one thread
    for call in range(1, 60):
        story = submitted()
        story.world.fuse.arm(call, after=after)
        try:
            plan(story)
            if story.world.fuse.calls < call:
                break
        except Died:
            story.world.fuse.arm(None)
            plan(story)
        assert kept(story) == {ID, *PACKS}
        assert story.run.code is not None
        assert story.run.code.kept
    else:
        raise AssertionError("it never ended")
    assert call > 10


def test_a_step_that_runs_out_of_time_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    story = submitted()
    monkeypatch.setattr(keep_code, "COPY_SECONDS", -1.0)
    with pytest.raises(RetryableError, match="0 of 3 packs"):
        plan(story)
    monkeypatch.undo()
    plan(story)
    assert kept(story) == {ID, *PACKS}


def test_a_run_whose_upload_expired_meanwhile_ends_and_says_so() -> None:
    story = submitted()
    expire(story, but=ID)
    story.rest()
    assert (story.run.status, story.run.outcome) == ("Failed", "failed")
    assert story.run.problem is not None
    assert story.run.problem.code == "code-expired"
    assert "Upload the directory again" in story.run.problem.next_step
    assert story.world.clusters.stored == {}


def test_another_run_with_the_same_code_needs_no_upload() -> None:
    story = submitted()
    plan(story)
    expire(story)
    again = story.submit(run_spec(job=JOB))
    story.run_id = again.id
    plan(story)
    assert kept(story) == {ID, *PACKS}
    assert story.run.outcome is None


def test_what_a_job_overwrote_is_copied_from_where_it_is_whole() -> None:
    story = submitted()
    plan(story)
    pack = next(iter(PACKS))
    story.world.blobs.put(f"{places.code_prefix(story.run.prefix)}/{pack}", b"a job wrote here")
    again = story.submit(run_spec(job=JOB))
    story.run_id = again.id
    plan(story)
    assert story.world.blobs.objects[f"{again.prefix}/code/{pack}"] == PACKS[pack]


def test_a_resumed_run_needs_no_upload() -> None:
    story = submitted()
    story.ready()
    story.training()
    story.end("failed", exitCode=1, error="ValueError: bad batch", errorKind="python-error")
    while not story.run.terminal:
        story.rest()
        if story.run.outcome is None:
            story.training()
            story.end("failed", exitCode=1, error="ValueError: x", errorKind="python-error")
    expire(story)
    resume_run(story.world.ports, story.run_id)
    story.rest()
    assert story.run.outcome is None


# -- what the agent says -------------------------------------------------------------------------
def answers(story: Story, answer: dict[str, Any], exit_code: int = 1) -> list[list[str]]:
    """The agent answers a submit so from now on; what it was asked."""
    asked: list[list[str]] = []

    def say(_: Cluster, argv: list[str]) -> CommandResult:
        if argv[1] != "submit":
            return story.agent(_, argv)
        asked.append(argv)
        return CommandResult(exit_code, json.dumps(answer), "")

    story.world.commands.answer = say
    return asked


def before_submit() -> Story:
    """A run whose next step is the submission of attempt 1."""
    story = submitted()
    story.ready()
    again = story.run.attempts[0].changed(submitted_at=None, job_id=None)
    story.world.runs.put(story.run.changed(attempts=[again]))
    del story.world.runs.entries[story.run_id]["status-submitted-1"]
    return story


def submit(story: Story) -> dict[str, Any]:
    return submit_attempt(story.world.ports, StepInput("submit", run_id=story.run_id))


def test_a_submission_waits_while_the_agent_fetches_the_code() -> None:
    story = before_submit()
    words = "job.workdir is still being fetched: 1 of 9 MB"
    answers(story, {"error": "fetching", "message": words})
    with pytest.raises(RetryableError, match="1 of 9 MB"):
        submit(story)
    assert "The submission of attempt 1 waits: " in story.said
    assert "1 of 9 MB" in story.said
    story.world.commands.answer = story.agent
    assert submit(story)["submitted"]


def test_code_that_was_changed_is_copied_again_before_the_repetition() -> None:
    story = before_submit()
    pack = next(iter(PACKS))
    key = f"{places.code_prefix(story.run.prefix)}/{pack}"
    story.world.blobs.put(key, b"a job wrote here")
    answers(story, {"error": "code-changed", "message": "it was changed"})
    with pytest.raises(RetryableError, match="it was changed"):
        submit(story)
    assert story.world.blobs.objects[key] == PACKS[pack]


def test_an_agent_that_knows_no_code_is_refused_with_words_and_nothing_is_started() -> None:
    story = before_submit()
    words = "--code is not an option of 'submit'; it takes --run --attempt --bundle --sha256"
    asked = answers(story, {"error": "invalid-request", "message": words})
    assert submit(story) == {"submitted": False}
    assert len(asked) == 1
    assert story.run.problem is not None
    assert story.run.problem.code == "agent-too-old"
    assert "create it again" in story.run.problem.next_step


def test_an_agent_that_knows_the_option_and_not_all_that_a_run_needs_is_too_old() -> None:
    story = before_submit()
    words = "--needs must be watch, progress or both, got 'sync'"
    answers(story, {"error": "invalid-request", "message": words})
    assert submit(story) == {"submitted": False}
    assert story.run.problem is not None
    assert story.run.problem.code == "agent-too-old"
    assert "export.everySeconds" in story.run.problem.detail


def test_the_timeline_says_which_files_the_program_has_changed() -> None:
    story = before_submit()
    answers(story, {"jobId": "7", "changed": "conf.yaml, train.py"}, exit_code=0)
    assert submit(story)["jobId"] == "7"
    assert "The program has changed of its files: conf.yaml, train.py" in story.said


# -- data that it reads --------------------------------------------------------------------------
def reading() -> Story:
    story = uploaded()
    named = UploadSpec.model_validate(upload_spec(TREE, PACKS) | {"name": "corpus"})
    request_upload(story.world.ports, named)
    inputs = [{"source": "corpus", "path": "data"}, {"source": "corpus", "path": "/fsx/corpus"}]
    story.submit(run_spec(inputs=inputs))
    return story


def test_a_run_keeps_the_data_that_it_reads_and_each_attempt_names_them() -> None:
    story = reading()
    plan(story)
    assert kept(story) == {ID, *PACKS}
    expire(story)
    story.ready()
    key = story.run.bundle_key(1)
    bundle = JobBundle.model_validate_json(story.world.blobs.objects[key])
    assert [one.path for one in bundle.inputs] == ["data", "/fsx/corpus"]
    assert {one.code.tree for one in bundle.inputs if one.code} == {ID}
    assert "keeps its own copy of 'corpus': 2 files, 2.4 KiB" in story.said


def test_a_run_whose_data_expired_meanwhile_ends_and_names_them() -> None:
    story = reading()
    expire(story, but=ID)
    story.rest()
    assert story.run.problem is not None
    assert story.run.problem.code == "code-expired"
    assert "inputs: 'corpus': the upload has expired" in story.run.problem.detail


def waiting() -> Story:
    story = reading()
    story.ready()
    again = story.run.attempts[0].changed(submitted_at=None, job_id=None)
    story.world.runs.put(story.run.changed(attempts=[again]))
    return story


def test_a_submission_waits_for_data_as_long_as_it_takes_and_says_so_ever_more_seldom() -> None:
    story = waiting()
    for minute in range(33):
        words = f"inputs.0: {minute}.0 GiB of 99.0 GiB are there after {60 * minute} s"
        answers(story, {"error": "fetching", "message": words})
        assert submit(story) == {"submitted": False}
        story.world.clock.tick(60)
    said = [line for line in story.said.splitlines() if "GiB are there" in line]
    assert len(said) == 7
    story.world.commands.answer = story.agent
    assert submit(story)["submitted"]


def test_data_that_the_nodes_cannot_have_end_the_run_with_the_agents_sentence() -> None:
    story = waiting()
    answers(story, {"error": "input-refused", "message": "inputs.0.source: s3://x/: it is empty"})
    assert submit(story) == {"submitted": False}
    assert story.run.outcome == "failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "input-refused"
    assert story.run.problem.detail == "inputs.0.source: s3://x/: it is empty"


def test_what_was_brought_is_said_with_the_submission() -> None:
    story = waiting()
    del story.world.runs.entries[story.run_id]["status-submitted-1"]
    words = "'data' (2 objects, 9.5 MiB, brought in 3 s)"
    answers(story, {"jobId": "7", "state": "submitted", "attempt": 1, "inputs": words}, 0)
    assert submit(story)["submitted"]
    assert f"It reads {words}." in story.said


@pytest.mark.parametrize(
    "words", ["--needs is not an option of 'submit'", "--needs must be watch, progress or both"]
)
def test_an_agent_that_knows_no_inputs_is_refused_with_words(words: str) -> None:
    story = waiting()
    asked = answers(story, {"error": "invalid-request", "message": words})
    assert submit(story) == {"submitted": False}
    assert any("--needs=inputs" in argv for argv in asked)
    assert story.run.problem is not None
    assert story.run.problem.code == "agent-too-old"
