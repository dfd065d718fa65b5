"""Code from a git repository: a ref is asked once, and every attempt has its commit's bytes."""

from __future__ import annotations

import json

import pytest
from tests.support.repositories import Repository
from tests.support.system import Json, System

#: Says what it is made of, and at its first attempt waits for its end.
TRAIN = b"""
import json, os, pathlib, time
attempt = os.environ["TRAINYARD_ATTEMPT"]
seen = {"text": pathlib.Path("text").read_text(), "git": pathlib.Path(".git").exists()}
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
(output / ".seen").write_text(json.dumps(seen))
(output / ".seen").rename(output / f"seen-{attempt}.json")
while attempt == "1":
    time.sleep(0.1)
pathlib.Path("made").write_text("made")
"""

#: Counts to 40 from where its snapshot says, which it replaces as a whole.
COUNT = """
import os, pathlib, time
path = pathlib.Path("snapshot.txt")
first = int(path.read_text()) if path.exists() else 0
print(f"begins at {first}", flush=True)
for step in range(first + 1, 41):
    time.sleep(0.2)
    print(f"step {step} | loss {1 / step:.4f}", flush=True)
    if step % 10 == 0:
        pathlib.Path("new").write_text(str(step))
        os.replace("new", path)
"""


def repository(system: System, cluster: str, name: str) -> Repository:
    """One on the cluster's shared filesystem: what a run of it left there says where that is."""
    job = {"recipe": "command", "nodes": 1, "script": "a.py", "files": {"a.py": ""}}
    run_id = system.submit("first", job, cluster)
    system.ended(run_id, "Succeeded")
    return Repository(system.run_dir(run_id).parents[2] / "repositories" / name)


def seen(system: System, run_id: str, attempt: int) -> Json | None:
    path = system.run_dir(run_id) / f"output/seen-{attempt}.json"
    return dict(json.loads(path.read_text())) if path.exists() else None


@pytest.fixture
def made(system: System, shared: str) -> Repository:
    return repository(system, shared, "a.git")


def test_a_ref_that_moved_changes_no_later_attempt_and_the_commit_is_shown(
    system: System, shared: str, made: Repository
) -> None:
    first = made.commit({"train.py": TRAIN, "text": b"first"})
    git = {"url": "/fsx/repositories/a.git", "ref": "main"}  # as on AWS, wherever it lies here
    job = {"recipe": "command", "nodes": 1, "script": "train.py", "git": git}
    run_id = system.submit("git", job, shared)
    run = system.until(run_id, "its program runs", lambda _: seen(system, run_id, 1))
    assert (run["code"]["commit"], run["code"]["ref"]) == (first, "main")
    second = made.commit({"train.py": TRAIN, "text": b"second"})
    victim = system.node(shared, run["attempts"][0]["nodes"][0])
    system.fault("kill-node", shared, node=victim["instanceId"])
    system.ended(run_id, "Succeeded")
    for attempt in (1, 2):
        assert seen(system, run_id, attempt) == {"text": "first", "git": False}
    working = {key.partition("/export/")[2] for key in system.exported(run_id)}
    assert {key for key in working if key.startswith("working/")} == {"working/made"}
    assert second != first


def test_what_is_not_there_ends_the_run_at_its_first_attempt(system: System, shared: str) -> None:
    there = repository(system, shared, "b.git")
    there.commit({"train.py": b""})
    git = {"url": "/fsx/repositories/b.git", "ref": "no-such-branch"}
    job = {"recipe": "command", "nodes": 1, "script": "train.py", "git": git}
    run = system.ended(system.submit("no-ref", job, shared), "Failed")
    assert run["problem"]["code"] == "git-refused"
    words = "'no-such-branch' is not in /fsx/repositories/b.git"
    assert words in run["problem"]["detail"], "as the spec has it"
    assert [attempt["jobId"] for attempt in run["attempts"]] == [None]


def test_a_run_begins_with_a_checkpoint_of_another_run(system: System, shared: str) -> None:
    job = {"recipe": "command", "nodes": 1, "script": "c.py", "files": {"c.py": COUNT}}
    watch = {"keep": 9, "watch": {"pattern": "snapshot.txt", "complete": "rename"}}
    first = system.submit("first", job, shared, checkpoint=watch)
    system.ended(first, "Succeeded")
    steps = [found["step"] for found in system.api.checkpoints(first) if found["status"] == "whole"]
    start = {**watch, "startFrom": {"run": first, "step": min(steps)}}
    again = system.submit("again", job, shared, checkpoint=start)
    system.ended(again, "Succeeded")
    text = system.api.logs(again, lines=1000)["text"]
    assert "begins at 0" not in text
    assert "begins at " in text
