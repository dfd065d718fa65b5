"""A program that knows nothing of Trainyard: its steps are seen, its torn checkpoint put back."""

from __future__ import annotations

import contextlib
import zipfile

from tests.support.system import Json, System
from tests.support.waiting import eventually

#: It saves as tutorials do: to one name again and again, in place. At step 23 of its first life it
#: dies in the middle of a save, once the test says that what it saved before was copied.
PROGRAM = """
import io, os, pathlib, time, zipfile

path, first = pathlib.Path("snapshot.pt"), 0
if path.exists():
    with zipfile.ZipFile(path) as found:
        first = int(found.read("archive/step"))
    print(f"resumed from {first}", flush=True)
for step in range(first + 1, 41):
    time.sleep(0.2)
    print(f"step {step} | loss {1 / step:.4f}", flush=True)
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as into:
        into.writestr("archive/step", str(step))
        into.writestr("archive/data", bytes(100_000))
    if step == 23 and not first:
        while not pathlib.Path("copied").exists():
            time.sleep(0.05)
        path.write_bytes(body.getvalue()[:50_000])
        os.kill(os.getpid(), 9)
    path.write_bytes(body.getvalue())
"""


def foreign() -> Json:
    return {
        "recipe": "command", "nodes": 1, "script": "train.py", "files": {"train.py": PROGRAM},
    }  # fmt: skip


def copied(system: System, run_id: str) -> set[int]:
    """The steps of the copies of its snapshot, as they stand in the file."""
    found = set()
    for one in system.whole(run_id):
        path = system.run_dir(run_id) / one["path"] / "work/snapshot.pt"
        # Older copies make way meanwhile.
        with contextlib.suppress(FileNotFoundError), zipfile.ZipFile(path) as copy:
            found.add(int(copy.read("archive/step")))
    return found


def test_a_torn_snapshot_is_put_back_and_the_program_resumes_from_it(
    system: System, shared: str
) -> None:
    watch = {"keep": 2, "watch": {"pattern": "snapshot.pt"}}
    run_id = system.submit("foreign", foreign(), shared, checkpoint=watch)
    eventually("step 22 is copied", lambda: 22 in copied(system, run_id))
    (system.run_dir(run_id) / "work/copied").touch()
    run = system.ended(run_id, "Succeeded")
    assert len(run["attempts"]) == 2, system.story(run_id)
    [restored] = system.timeline(run_id, "CheckpointRestored")
    assert restored["data"]["source"] == "work/snapshot.pt"
    assert "it ends early" in restored["message"]
    assert restored["data"]["setAside"] == "work/.torn-attempt-1.snapshot.pt"
    [rejected] = system.timeline(run_id, "CheckpointRejected")
    assert rejected["data"]["path"] == "work/snapshot.pt"
    assert "resumed from 22" in system.api.logs(run_id, attempt=2)["text"]
    stepped = system.timeline(run_id, "AttemptStepped")
    assert {fact["data"]["source"] for fact in stepped} == {"log"}
    assert "Training goes on (its log says step" in system.story(run_id)
    began = [attempt["beganWith"] for attempt in run["attempts"]]
    assert began == ["", f"step {restored['data']['step']}"]
    [incident] = run["incidents"]
    assert incident["resumedAt"]
    prefix = f"{system.export_prefix(run_id)}watched/"
    exported = system.exported(run_id)
    copies = {key[len(prefix) :].split("/")[1] for key in exported if key.startswith(prefix)}
    assert len(copies) == 2, "checkpoint.keep of them"
    assert system.api.run(run_id)["export"]["state"] == "verified"


#: It tells nobody anything. Its first life ends by a signal, its second well.
SILENT = """
import os, pathlib, time

gone_on = pathlib.Path("gone_on")
first = not pathlib.Path("second").exists()
while not gone_on.exists():
    time.sleep(0.05)
if first:
    gone_on.unlink()
    pathlib.Path("second").touch()
    os.kill(os.getpid(), 9)
"""


def test_a_program_that_tells_no_step_is_running_as_long_as_it_runs(
    system: System, shared: str
) -> None:
    job = {"recipe": "command", "nodes": 1, "script": "train.py", "files": {"train.py": SILENT}}
    run_id = system.submit("silent", job, shared, progress="none")
    for attempt in (1, 2):
        words = f"Attempt {attempt} runs on "

        def runs(run: Json, words: str = words) -> bool:
            told = run["reason"].startswith(words) and run["reason"].endswith(
                "; no step has been told yet."
            )
            return told and run["status"] == "Running"

        system.until(run_id, f"attempt {attempt} runs", runs)
        (system.run_dir(run_id) / "work/gone_on").touch()
    run = system.ended(run_id, "Succeeded")
    assert [one["firstStepAt"] for one in run["attempts"]] == [None, None]
    [incident] = run["incidents"]
    assert (incident["resumedBy"], incident["resumedAt"]) == (
        "start", run["attempts"][1]["startedAt"]
    )  # fmt: skip
    assert len(system.timeline(run_id, "AttemptStarted")) == 2
