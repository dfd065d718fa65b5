"""What a ref of git means is asked once: the commit is recorded, and every attempt runs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.memory import Died
from tests.support.story import Story, run_spec
from tests.support.trees import packed

from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run import keep_code
from trainyard.app.machines.run.submit_attempt import submit_attempt
from trainyard.app.runs.resume_run import resume_run
from trainyard.domain.errors import InvalidRequest, RetryableError
from trainyard.domain.records import Cluster
from trainyard.http.run_views import RunView
from trainyard.outside.commands import CommandResult
from trainyard_contracts import places
from trainyard_contracts.files import JobBundle
from trainyard_contracts.trees import tree_id

TREE, PACKS = packed({"train.py": b"print()\n", "data.bin": b"x" * 900})
ID = tree_id(TREE.document())
COMMIT = "c0ffee" + "0" * 34
URL = "https://git.example.org/a/b.git"
JOB = {"nodes": 2, "recipe": "command", "script": "train.py", "git": {"url": URL, "ref": "main"}}


class Agent:
    """The story's agent that can also fetch; `said` is its next answer in place of a commit."""

    def __init__(self, story: Story) -> None:
        self.story, self.asked = story, 0
        self.said: dict[str, Any] | None = None
        self.packs = PACKS

    def __call__(self, cluster: Cluster, argv: list[str]) -> CommandResult:
        if argv[1] != "checkout":
            return self.story.agent(cluster, argv)
        self.asked += 1
        key = next(word for word in argv if word.startswith("--bundle=")).split("/", 3)[3]
        asked = JobBundle.model_validate_json(self.story.world.blobs.objects[key]).git
        assert asked is not None
        assert (asked.url, asked.ref) == (URL, "main")
        if self.said is not None:
            return CommandResult(1, json.dumps(self.said), "")
        for name, body in {ID: TREE.document(), **self.packs}.items():
            self.story.world.blobs.put(f"{asked.prefix}/{name}", body)
        found = {"commit": COMMIT, "tree": ID, "files": 2, "bytes": 908, "note": "x is left out"}
        return CommandResult(0, json.dumps(found), "")


def submitted() -> tuple[Story, Agent]:
    story = Story()
    agent = Agent(story)
    story.world.commands.answer = agent
    story.submit(run_spec(job=JOB))
    return story, agent


def bundle(story: Story, attempt: int) -> JobBundle:
    key = story.run.bundle_key(attempt)
    return JobBundle.model_validate_json(story.world.blobs.objects[key])


def test_the_commit_is_recorded_and_kept_and_every_attempt_runs_its_bytes() -> None:
    story, agent = submitted()
    story.ready()
    story.training()
    story.lose("ip-127-0-1-12")
    assert agent.asked == 1, "a ref that moved meanwhile is not asked again"
    assert [bundle(story, number).git for number in (1, 2)] == [None, None]
    codes = [bundle(story, number).code for number in (1, 2)]
    assert codes[0] == codes[1]
    assert codes[0] is not None
    assert codes[0].tree == ID
    prefix = places.code_prefix(story.run.prefix)
    assert codes[0].prefix == prefix
    assert {f"{prefix}/{name}" for name in (ID, *PACKS)} <= set(story.world.blobs.objects)
    assert f"The run's code is commit {COMMIT} of {URL} (main). But x is left out." in story.said
    assert "keeps its own copy of job.git: 2 files" in story.said
    view = RunView.of(story.run).code
    assert view is not None
    assert (view.commit, view.url, view.ref) == (COMMIT, URL, "main")


def test_a_resumed_run_runs_the_same_commit() -> None:
    story, agent = submitted()
    story.ready()
    story.training()
    story.end("failed", exitCode=1, error="ValueError: x", errorKind="python-error")
    while not story.run.terminal:
        story.rest()
        if story.run.outcome is None:
            story.training()
            story.end("failed", exitCode=1, error="ValueError: x", errorKind="python-error")
    resume_run(story.world.ports, story.run_id)
    story.rest()
    assert story.run.outcome is None
    assert agent.asked == 1


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (("git-refused", "job.git: 'main' is not in x"), "git-refused", "'main' is not in x"),
        (("secret-refused", "job.git.secret: none"), "git-refused", "job.git.secret: none"),
        (
            ("invalid-request", "the first argument must be one of submit, cancel; got 'checkout'"),
            "agent-too-old",
            "cannot fetch it",
        ),
    ],
)
def test_what_cannot_be_fetched_ends_the_run_at_its_first_attempt_in_one_sentence(
    said: tuple[str, str], code: str, words: str
) -> None:
    story, agent = submitted()
    agent.said = dict(zip(("error", "message"), said, strict=True))
    story.ready()
    story.rest()
    assert story.run.outcome == "failed"
    assert story.run.problem is not None
    assert story.run.problem.code == code
    assert words in story.run.problem.detail
    assert agent.asked == 1


def test_a_fetch_that_takes_long_is_waited_for_and_one_that_has_no_answer_is_repeated() -> None:
    story, agent = submitted()
    story.ready()
    again = story.run.attempts[0].changed(submitted_at=None, job_id=None)
    story.world.runs.put(story.run.changed(attempts=[again], code=None))
    given = StepInput("submit", run_id=story.run_id)
    agent.said = {"error": "unreachable", "message": "S3 does not answer"}
    with pytest.raises(RetryableError, match="S3 does not answer"):
        submit_attempt(story.world.ports, given)
    agent.said = {"error": "fetching", "message": "job.git is still being fetched"}
    assert submit_attempt(story.world.ports, given) == {"submitted": False}
    assert "The run waits: job.git is still being fetched." in story.said
    agent.said = None
    assert submit_attempt(story.world.ports, given)["submitted"]


def test_what_somebody_replaced_before_it_was_copied_is_never_run() -> None:
    story, agent = submitted()
    agent.packs = dict.fromkeys(PACKS, b"another job wrote here")
    story.ready()
    story.rest()
    assert story.run.problem is not None
    assert story.run.problem.code == "git-refused"
    assert "what was fetched is gone" in story.run.problem.detail
    assert not [argv for argv in story.world.commands.ran if argv[1] == "submit"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_the_step_dies_the_next_one_goes_on(
    after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_code, "_AT_ONCE", 1)  # the fuse counts calls of one thread
    for call in range(1, 80):
        story, _ = submitted()
        story.ready()
        again = story.run.attempts[0].changed(submitted_at=None, job_id=None)
        story.world.runs.put(story.run.changed(attempts=[again], code=None))
        given = StepInput("submit", run_id=story.run_id)
        story.world.fuse.arm(call, after=after)
        try:
            submit_attempt(story.world.ports, given)
            if story.world.fuse.calls < call:
                break
        except Died:
            story.world.fuse.arm(None)
            submit_attempt(story.world.ports, given)
        assert story.run.attempts[0].job_id is not None
        assert story.run.code is not None
        assert story.run.code.kept
        assert bundle(story, 1).code is not None
    else:
        raise AssertionError("it never ended")
    assert call > 15


def test_an_answer_that_is_not_whole_is_asked_for_again() -> None:
    story, _ = submitted()
    story.ready()
    again = story.run.attempts[0].changed(submitted_at=None, job_id=None)
    story.world.runs.put(story.run.changed(attempts=[again], code=None))
    story.world.commands.answer = lambda *_: CommandResult(0, '{"commit": "c0f', "")
    with pytest.raises(RetryableError, match="not whole"):
        submit_attempt(story.world.ports, StepInput("submit", run_id=story.run_id))
    assert story.run.code is None


def test_the_same_bytes_run_again_when_the_server_no_longer_has_the_commit() -> None:
    story, agent = submitted()
    story.ready()
    job = {key: value for key, value in JOB.items() if key != "git"}
    again = story.submit(run_spec(job={**job, "workdir": ID}))
    story.run_id = again.id
    story.ready()
    found = bundle(story, 1).code
    assert found is not None
    assert found.tree == ID
    assert agent.asked == 1


def test_a_secret_that_the_cluster_does_not_give_its_jobs_is_refused_by_its_field() -> None:
    story = Story()
    job = {**JOB, "git": {"url": URL, "secret": "jobs/git"}}
    with pytest.raises((InvalidRequest, ValueError), match=r"job\.git\.secret: .*no secret 'jobs"):
        story.submit(run_spec(job=job))
